"""What a traceback says of a failure: on which rank, at which line, and at which moment."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

LONGEST: Final = 40_000
"""Characters before a message in which its traceback is looked for."""

Moment: TypeAlias = Literal[
    "load",
    "setup of communication",
    "forward",
    "loss",
    "recomputation",
    "backward",
    "optimizer step",
    "gather of parameters",
    "start of a serving engine",
]

_MOMENTS: Final[tuple[tuple[Moment, str], ...]] = (
    (
        "optimizer step",
        r"optim/(?:adamw?|sgd|optimizer)\.py|_multi_tensor_|_fused_adam|"
        r"optimizer\.step\(|distrib_optimizer\.py|in step_with_ready_grads|multi_tensor_apply",
    ),
    (
        "gather of parameters",
        r"_fsdp_param_group\.py.*in unshard|in _unshard|in all_gather_params"
        r"|partition_parameters\.py|foreach_all_gather|in _prefetch",
    ),
    (
        "recomputation",
        r"in (?:recompute_fn|unpack_hook)|(?:checkpoint|random)\.py:\d+ in backward|"
        r"in recompute_and_backward",
    ),
    (
        "backward",
        r"_engine_run_backward|autograd/__init__\.py:\d+ in backward|cross_entropy\.py:\d+ in "
        r"backward|\.backward\(|in (?:custom_backward|backward_step)\b",
    ),
    (
        "loss",
        r"in cross_entropy|in _?(?:Causal|ForCausal)LMLoss|in fixed_cross_entropy|"
        r"cross_entropy\.py|cross_entropy\(|loss_fct\(|compute_language_model_loss|log_softmax\(",
    ),
    (
        "setup of communication",
        r"init_process_group|ncclCommInit|new_group\(|in _new_process_group",
    ),
    (
        "start of a serving engine",
        r"determine_(?:num_available_blocks|available_memory)|_dummy_sampler_run|"
        r"initialize_kv_cache|profile_run|_initialize_kv_caches|capture_model|init_cuda_graphs",
    ),
    (
        "load",
        r"in from_pretrained|load_state_dict|in load_(?:weights|model|checkpoint)|"
        r"in _apply\b|model\.(?:to|cuda)\(",
    ),
    ("forward", r"in (?:_call_impl|forward|forward_step)\b"),
)
_PATTERNS: Final = tuple((moment, re.compile(text)) for moment, text in _MOMENTS)

_CONTAINS: Final[tuple[Moment, ...]] = ("recomputation", "start of a serving engine")
"""Moments that run a forward pass inside them."""

_RANK = re.compile(
    r"\[(?:default|rank)[ :]{0,2}(\d{1,6})\]"
    r"|(?:^|[^\w])(?:[Rr]ank|RANK) ?[=:]? ?(\d{1,6})\b"
    r"|^\[\d{1,4},(\d{1,6})\]<std"
    r"|^(\d{1,5}): |^\[(\d{1,5})\]:"
    r"|\bTP(\d{1,4})\b"
)
"""As PyTorch, vLLM, TensorRT-LLM, mpirun, srun, torchrun and SGLang name a rank on a line."""

_FRAME = re.compile(
    r'File "(?P<file>[^"\n]{1,400})", line (?P<line>\d{1,7}), in (?P<name>[^\n]{1,200})'
    r"(?P<code>\n[^\n]{1,400})?"
    r"|(?P<other>[^\s\"]{1,400}\.py):(?P<number>\d{1,7})(?:,)? in (?P<short>[\w<>.]{1,200})"
)
"""Frames as Python, and as rich or a notebook print them."""

_CARETS = re.compile(r"^[\s\W]*$")


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a message came from; None or empty where it is not told.

    Attributes:
        rank: that its line names (a local one, where the launcher counts a node's own).
        moment: what the code was doing.
        frame: the deepest frame, as ``file:line in function``, and its line of code.
    """

    rank: int | None
    moment: Moment | None
    frame: str


def place(text: str, start: int) -> Place:
    """Where the message that starts there came from."""
    tag = _tag(text, start)
    before = _own_lines(text[max(0, start - LONGEST) : start], tag)
    opening = before.rfind("Traceback (most recent call last)")
    frames = [_frame(match) for match in _FRAME.finditer(before[max(opening, 0) :])]
    return Place(rank=_number(tag), moment=_moment(frames, before), frame=_deepest(frames))


def rank(text: str, start: int) -> int | None:
    """The rank that the line of a message names."""
    return _number(_tag(text, start))


def _tag(text: str, start: int) -> re.Match[str] | None:
    line = text[text.rfind("\n", max(0, start - 2000), start) + 1 : start]
    return _RANK.search(line)


def _number(tag: re.Match[str] | None) -> int | None:
    return int(next(group for group in tag.groups() if group)) if tag else None


def _own_lines(before: str, tag: re.Match[str] | None) -> str:
    """The lines of the rank that failed, without what marks them: ranks write into one log."""
    if tag is None:
        return before
    mark = tag.group(0).strip()
    own = [line for line in before.split("\n") if mark in line[:300]]
    return "\n".join(line[line.index(mark) + len(mark) :] for line in own)


def _frame(match: re.Match[str]) -> tuple[str, str]:
    """A frame's place and its line of code."""
    told = match.groupdict()
    file = (told["file"] or told["other"]).replace("\\", "/")
    where = f"{file}:{told['line'] or told['number']} in {told['name'] or told['short']}"
    code = (told["code"] or "").strip().lstrip(": ")
    return where, "" if _CARETS.match(code) else code


def _deepest(frames: list[tuple[str, str]]) -> str:
    if not frames:
        return ""
    where, code = frames[-1]
    path, _, rest = where.rpartition("/")
    short = f"{path.rpartition('/')[2]}/{rest}" if path else rest
    return f"{short}: {code}" if code else short


def _moment(frames: list[tuple[str, str]], before: str) -> Moment | None:
    """What the deepest telling frame says; a forward pass belongs to what runs it."""
    if not frames:
        return _of(before[-400:]) if before.rstrip() else None
    told = [moment for where, code in reversed(frames) if (moment := _of(f"{where}\n{code}"))]
    if not told or told[0] != "forward":
        return told[0] if told else None
    return next((moment for moment in told if moment in _CONTAINS), "forward")


def _of(text: str) -> Moment | None:
    return next((moment for moment, pattern in _PATTERNS if pattern.search(text)), None)

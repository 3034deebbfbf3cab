"""A log, or one message: which failure came first, where in the step, and on how many ranks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tonnage.errors import InputError
from tonnage.files import UnreadableError, read_bounded
from tonnage.oom.message import MOST, Message, find_messages
from tonnage.oom.serving import CacheShortage, find_shortages

LARGEST_LOG: Final = 64 * 2**20
"""Bytes of a log that are read: what comes after them is not looked at, and said so."""

TRACEBACK: Final = 40_000
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
        r"in (?:recompute_fn|unpack_hook)|checkpoint\.py\", line \d+, in backward|"
        r"in recompute_and_backward",
    ),
    (
        "loss",
        r"in cross_entropy|in _?(?:Causal|ForCausal)LMLoss|in fixed_cross_entropy|"
        r"cross_entropy\.py|loss_fct\(|compute_language_model_loss",
    ),
    (
        "backward",
        r"_engine_run_backward|autograd/__init__\.py\", line \d+, in backward|"
        r"\.backward\(|in (?:custom_backward|backward_step)\b",
    ),
    (
        "setup of communication",
        r"init_process_group|ncclCommInit|new_group\(|in _new_process_group",
    ),
    (
        "start of a serving engine",
        r"determine_(?:num_available_blocks|available_memory)|"
        r"initialize_kv_cache|profile_run|_initialize_kv_caches|capture_model",
    ),
    (
        "load",
        r"in from_pretrained|load_state_dict|in load_(?:weights|model|checkpoint)|"
        r"in _apply\b|model\.(?:to|cuda)\(",
    ),
    ("forward", r"in (?:_call_impl|forward|forward_step)\b"),
)
_PATTERNS: Final = tuple((moment, re.compile(text)) for moment, text in _MOMENTS)
_RANK = re.compile(r"\[(?:default|rank) ?(\d{1,6})\]|(?:^|\W)[Rr]ank ?[=: ]? ?(\d{1,6})\b")
_KILLED = (
    re.compile(r"exit(?:code|ed with)? ?:? ?-9\b|exit code 137"),
    re.compile(r"Signal 9"),
    re.compile(r"Killed\b"),
)
"""One by one: a pattern that begins with letters of its own is found quickly."""
_FRAME = re.compile(r'File "[^"\n]{1,400}", line \d{1,7}, in [^\n]{1,200}(?:\n[^\n]{1,400})?')


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What a log says of running out of memory.

    Attributes:
        message: the first message of an allocator, or None.
        shortage: the first check of a serving engine that failed, or None.
        moment: what the code was doing, by the traceback before the message; None: unknown.
        rank: the rank that the message's line names; None: it names none.
        times: messages in the log.
        ranks: distinct ranks that they name.
        truncated: the log is longer, or has more messages, than what is read of one.
    """

    message: Message | None = None
    shortage: CacheShortage | None = None
    moment: Moment | None = None
    rank: int | None = None
    times: int = 1
    ranks: int = 0
    truncated: bool = False


def read_log(path: str) -> Failure:
    """The first failure of a log file, or of standard input (``-``).

    Raises:
        InputError: it cannot be read, or says nothing of memory.
    """
    try:
        content = read_bounded(path, LARGEST_LOG)
    except UnreadableError as error:
        raise InputError(
            field="LOG",
            value=path,
            problem=str(error),
            accepted="a text file with an out-of-memory message, or - for standard input",
        ) from None
    text = content[:LARGEST_LOG].decode("utf-8", errors="replace")
    return failure(text, name=path, truncated=len(content) > LARGEST_LOG)


def failure(text: str, *, name: str = "the text", truncated: bool = False) -> Failure:
    """The first failure that a text tells of.

    Raises:
        InputError: it tells of none.
    """
    messages, shortages = find_messages(text), find_shortages(text)
    if not messages and not shortages:
        raise InputError(
            field="LOG",
            value=name,
            problem="holds no out-of-memory message that is known",
            accepted="PyTorch's (CUDA, HIP, XPU, MPS, CPU), torch_npu's, vLLM's or XLA's",
            hint=_hint(text),
        )
    truncated = truncated or len(messages) == MOST
    ranks = {rank for start, _ in messages if (rank := _rank(text, start)) is not None}
    first_message = _most_telling(messages)
    # A serving engine's own check is the cause of what its allocator says beside it.
    if first_message is None or shortages:
        start, shortage = shortages[0]
        return Failure(
            message=messages[0][1] if messages else None,
            shortage=shortage,
            moment="start of a serving engine",
            rank=_rank(text, start),
            times=len(messages) + len(shortages),
            ranks=len(ranks),
            truncated=truncated,
        )
    start, message = first_message
    return Failure(
        message=message,
        moment=_moment(text, start),
        rank=_rank(text, start),
        times=len(messages),
        ranks=len(ranks),
        truncated=truncated,
    )


def _most_telling(messages: list[tuple[int, Message]]) -> tuple[int, Message] | None:
    """The first message that says what was tried; else the first."""
    full = [pair for pair in messages if pair[1].tried is not None]
    return next(iter(full or messages), None)


def _rank(text: str, start: int) -> int | None:
    """The rank that the message's own line names."""
    line = text[text.rfind("\n", max(0, start - 2000), start) + 1 : start]
    match = _RANK.search(line)
    return int(next(group for group in match.groups() if group)) if match else None


def _moment(text: str, start: int) -> Moment | None:
    """What the deepest telling frame of the traceback says; the more special word wins."""
    before = text[max(0, start - TRACEBACK) : start]
    opening = before.rfind("Traceback (most recent call last)")
    frames = "\n".join(_FRAME.findall(before[max(opening, 0) :]))
    for moment, pattern in _PATTERNS:
        if pattern.search(frames):
            return moment
    return None


def _hint(text: str) -> str:
    """Failures that are often taken for this one."""
    if any(pattern.search(text) for pattern in _KILLED):
        return "a process that was killed (signal 9) ran out of host memory, not of a device's"
    if "CUBLAS_STATUS_ALLOC_FAILED" in text:
        return "cuBLAS could not get its workspace: leave it room (--margin) or allocate it first"
    return ""

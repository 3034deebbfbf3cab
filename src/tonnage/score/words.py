"""The free text of a measured row's recipe -> fields of a plan and habits of a runtime.

One table. A rule matches part of a column's text and says what it sets; what no rule
takes and no list of harmless words holds is reported as not understood.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from tonnage.score.row import Row


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What a piece of text means.

    Attributes:
        column: the column it stands in.
        pattern: the text, as a regular expression.
        sets: fields of `Plan`; a name that starts with ``habit.`` is a habit.
        refuses: why a row that says so is not answered.
    """

    column: str
    pattern: str
    sets: dict[str, Any] = field(default_factory=dict)
    refuses: str = ""


def _rule(column: str, pattern: str, **sets: Any) -> Rule:
    named = {name.replace("habit_", "habit."): value for name, value in sets.items()}
    return Rule(column=column, pattern=pattern, sets=named)


def _refuse(column: str, pattern: str, why: str) -> Rule:
    return Rule(column=column, pattern=pattern, refuses=why)


FULL = {"recompute": "full"}

RULES: tuple[Rule, ...] = (
    # Which stack: the first rule that matches decides.
    _rule("framework", r"megatron-deepspeed", runtime="megatron-deepspeed"),
    _rule("framework", r"mindspeed-llm.*|mindspeed", runtime="mindspeed"),
    _rule(
        "framework", r"megatron-bridge.*|nemo.*|megatron-lm( core)?|megascale", runtime="megatron"
    ),
    _rule("framework", r"nanotron", runtime="nanotron"),
    _rule("framework", r"llm-foundry.*", runtime="composer"),
    _rule("framework", r"torchtitan.*", runtime="fsdp2"),
    _rule("framework", r"torchtune", runtime="torchtune"),
    _rule("framework", r"lit-?gpt.*", runtime="litgpt"),
    _rule("framework", r"hf trainer.*", runtime="accelerate"),
    # Sharding.
    _rule("zero", r"zero-?1\b(?!/)|distributed optimizer( \(zero-1\))?", zero=1),
    _rule("zero", r"\(?=?zero-?2\)?|fsdp shard_grad_op", zero=2),
    _rule(
        "zero", r"\(?=?zero-?3\)?|fsdp1? full[_ ]shard|full_shard|fsdp2 full shard|fsdp2", zero=3
    ),
    _rule("zero", r"\bzero-?0\b|^0$|none( \(replicated ddp\))?|single gpu|ddp", zero=0),
    _refuse("zero", r"cpu offload", "offload to host memory is not modelled"),
    _refuse("zero", r"megatron-fsdp.*", "Megatron-FSDP is not modelled"),
    # Number formats.
    _rule("precision", r"nvfp4.*", precision="nvfp4"),
    _rule("precision", r"mxfp8.*", precision="mxfp8"),
    _rule("precision", r".*(float8|fp8).*", precision="fp8"),
    _rule(
        "precision",
        r"bf16 params/compute \+ fp32 main grads/params",
        precision="bf16-mixed-accumulate",
    ),
    _rule(
        "precision",
        r"bfloat16 weights \+ hf bf16 amp|bfloat16 weights \(pure, no amp\)|bf16-true|pure bf16",
        precision="bf16",
    ),
    _rule("precision", r"float16 weights \+ hf fp16 amp", precision="fp16-no-master"),
    _rule("precision", r"fp16( mixed)?", precision="fp16-mixed"),
    _rule("precision", r"amp bf16", precision="bf16-amp"),
    _rule("precision", r"bf16( amp| eager)?"),
    _rule("grad_reduce_dtype", r"fp32", gradients_dtype="fp32", reduction_dtype="fp32"),
    _rule("grad_reduce_dtype", r"bf16", gradients_dtype="bf16", reduction_dtype="bf16"),
    _rule("grad_reduce_dtype", r"fp16", gradients_dtype="fp16", reduction_dtype="fp16"),
    _rule("grad_reduce_dtype", r"fsdp mixed_precision=(default|pure)"),
    # Optimizers.
    _rule("optimizer", r"muon", optimizer="muon"),
    _rule("optimizer", r"(bnb )?paged ?adamw8bit.*|8-bit adamw.*", optimizer="adam8bit"),
    _rule("optimizer", r"bf16 moments|reduced-precision moments", moments_dtype="bf16"),
    _rule("optimizer", r"foreach(, not fused)?", habit_optimizer_step="foreach"),
    _rule("optimizer", r"fused", habit_optimizer_step="fused"),
    _rule("optimizer", r"(torch\.optim\.)?(decoupled )?adamw?", optimizer="adamw"),
    # Recomputation.
    _rule("recompute", r"none.*|not set.*|not stated.*", recompute="none"),
    _rule(
        "recompute",
        r"full,? block,? (?P<recompute_num_layers>\d+)",
        **FULL,
        recompute_method="block",
    ),
    _rule("recompute", r"full uniform (?P<recompute_num_layers>\d+)", **FULL),
    _rule(
        "recompute",
        r"full( \(?(per layer|per block|(hf )?gradient.checkpointing)\)?)?",
        **FULL,
    ),
    _rule(
        "recompute",
        r"selective per-op( \(sac\))?",
        recompute="selective",
        recompute_modules=("outputs",),
    ),
    _rule("recompute", r"selective", recompute="selective"),
    # Attention.
    _rule("attention", r"unfused|eager", attention="eager"),
    _rule(
        "attention",
        r"flash-attn-2|flash-attn|flash|sdpa|fused|cudnn|npu flash|auto",
        attention="flash",
    ),
    # Compiler and adapters.
    _rule("compile", r"^1$"),
    _rule("compile", r"^0$"),
    _rule("quant", r"bnb nf4 4-bit|bnb\.nf4(-dq)?|nf4.*", lora_base="nf4"),
    _rule("quant", r"gptq (4-bit|int4)", lora_base="gptq4"),
    # What people write beside it.
    _rule("extra", r"cross_entropy_loss_fusion \(te\)", habit_loss="in-place"),
    _rule("extra", r"no-gradient-accumulation-fusion=true", habit_placeholder_gradients="false"),
    _rule("extra", r"capacity factor 1 padded.*"),
    _refuse("extra", r"swap-attention|swap-optimizer", "swapping to host memory is not modelled"),
    _refuse("extra", r"schedules-method=dualpipev?", "the DualPipe schedules are not modelled"),
)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a row's words mean.

    Attributes:
        fields: fields of `Plan`.
        habits: habits of the runtime.
        unknown: words that no rule takes.
        refused: why the row is not answered; empty where it is.
    """

    fields: dict[str, Any]
    habits: dict[str, str]
    unknown: tuple[str, ...]
    refused: tuple[str, ...]


COLUMNS = tuple(dict.fromkeys(rule.column for rule in RULES))

HARMLESS = frozenset(
    "the a of in to and or no not on off with without per each is are as fp32 states master "
    "decoupled distributed stated size parameters params state".split()
)


def read_words(row: Row) -> Reading:
    """Read every recipe column of a row by the table."""
    fields: dict[str, Any] = {}
    habits: dict[str, str] = {}
    unknown: list[str] = []
    refused: list[str] = []
    for column in COLUMNS:
        text = row.text(column)
        for rule in RULES:
            if rule.column != column or not text:
                continue
            match = re.search(rule.pattern, text)
            if match is None:
                continue
            if rule.refuses:
                refused.append(f"{column}: {rule.refuses}")
            for name, value in {**rule.sets, **_captured(match)}.items():
                target, key = (habits, name[6:]) if name.startswith("habit.") else (fields, name)
                target.setdefault(key, value)
            text = text[: match.start()] + " ; " + text[match.end() :]
        unknown.extend(f"{column}: {word}" for word in _leftover(text))
    return Reading(fields=fields, habits=habits, unknown=tuple(unknown), refused=tuple(refused))


def _captured(match: re.Match[str]) -> dict[str, int]:
    return {name: int(text) for name, text in match.groupdict().items() if text is not None}


def _leftover(text: str) -> list[str]:
    """What the rules left, piece by piece, without words that say nothing."""
    pieces = (piece.strip(" .()[]") for piece in re.split(r"[;,+]", text))
    return [
        piece
        for piece in pieces
        if any(word not in HARMLESS for word in re.findall(r"[a-z0-9_.=/-]{2,}", piece))
    ]

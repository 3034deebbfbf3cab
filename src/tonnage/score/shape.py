"""The architecture columns of a measured row -> `Architecture`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tonnage.arch import (
    MLP,
    RMSNORM,
    Architecture,
    Attention,
    LatentAttention,
    Layer,
    MoE,
    Norm,
)
from tonnage.errors import InputError, NotModelledError
from tonnage.score.hybrid import hybrid_layers, pattern
from tonnage.score.row import LARGEST_DEPTH, Row

UNMODELLED = ("mamba", "exotic", "vlm")
"""Words of an ``arch_note`` that name what the columns cannot describe."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a row's note and words say about its layers, over what its columns do.

    Attributes:
        gated: gated MLPs.
        norm: the layers' norm.
        rope: rotary positions.
        positions: rows of a learnt position embedding.
        bias: biases on the linear layers.
        qkv_bias: biases on the query, key and value projections at least.
        qk_norm: norms on queries and keys.
        dropout: before each residual sum.
        attention_dropout: on the attention weights.
        parallel: mixer and MLP read the same input.
    """

    gated: bool
    norm: Norm
    rope: bool
    positions: int
    bias: bool
    qkv_bias: bool
    qk_norm: bool
    dropout: float
    attention_dropout: float
    parallel: bool


MEGATRON_DROPOUT = 0.1
"""Megatron-LM's own default of both dropouts, where a launch line names none."""


def facts(row: Row, shape: Mapping[str, Any]) -> Facts:
    """Gather the facts: the words first, then the note, then what goes together.

    Gated MLPs are taken to come with RMSNorm, rotary positions and no biases (Llama), plain
    ones with LayerNorm, biases and learnt positions (GPT).
    """
    note = row.text("arch_note")
    gated = row.flag("ffn_gated", default=True)
    megatron = row.text("framework").startswith(("megatron-lm", "megatron-deepspeed")) and not gated
    dropout = MEGATRON_DROPOUT if megatron else 0.0
    learnt = "learned position" in note
    rope = shape.get("rope", not learnt and (gated or "rotary" in note or "mla" in note))
    relu = "relu" in note
    bias = shape.get("bias", (not gated and not relu and "no bias" not in note) or "biases" in note)
    layernorm = Norm(kind="layernorm", bias="no bias" not in note)
    norm = RMSNORM if shape.get("norm") == "rmsnorm" or gated else layernorm
    return Facts(
        gated=gated,
        norm=norm,
        rope=rope or relu,
        positions=0 if rope or relu else int(shape.get("positions", row.count("seq_len"))),
        bias=bias,
        qkv_bias=bias or "qkv bias" in note,
        qk_norm=bool(shape.get("qk_norm", False)),
        dropout=shape.get("dropout", dropout),
        attention_dropout=shape.get("attention_dropout", dropout),
        parallel="parallel attn" in note,
    )


def architecture(row: Row, shape: Mapping[str, Any]) -> Architecture:
    """Build the architecture that a row describes.

    Args:
        row: the measured run.
        shape: facts that its recipe's words state (`tonnage.score.words`).

    Raises:
        InputError: a column is missing or makes no sense.
        NotModelledError: a note names a layer that the columns cannot describe.
    """
    note = row.text("arch_note")
    for word in UNMODELLED:
        if word in note and not pattern(row):
            raise NotModelledError(
                field=f"{row.name}.arch_note",
                value=note,
                problem=f"names {word}",
                accepted="attention layers with dense or routed MLPs",
            )
    known = facts(row, shape)
    return Architecture(
        name=row.cells.get("model", row.name),
        family="measured",
        hidden=row.count("hidden"),
        vocab=row.count("vocab"),
        layers=_layers(row, known, shape),
        final_norm=known.norm,
        tied_embeddings=row.flag("tied_embed", default=False),
        max_positions=max(row.count("seq_len"), known.positions),
        learned_positions=known.positions,
        embedding_dropout=known.dropout,
        source="columns of a measured row",
    )


def noop_layers(row: Row) -> tuple[int, ...]:
    """Positions that MindSpeed leaves without a layer (``noop-layers=0,7``)."""
    found = re.search(r"noop-layers=([\d,]+)", row.text("extra"))
    layers = row.count("layers", most=LARGEST_DEPTH)
    places = {int(text) for text in found.group(1).split(",") if text} if found else set()
    return tuple(sorted(place for place in places if place < layers))


def _layers(row: Row, known: Facts, shape: Mapping[str, Any]) -> tuple[Layer, ...]:
    note = row.text("arch_note")
    dense = max(0, int(row.number("dense_layers") or 0))
    plain = MLP(
        intermediate=row.count("ffn", 4 * row.count("hidden")),
        gated=known.gated,
        activation="silu" if known.gated else "gelu",
        bias=known.bias,
    )
    routed = _experts(row, known) if row.number("experts") else None
    every = 2 if "moe every 2nd" in note else 1
    window = int(_found(r"window (\d+)", note, 128)) if "alternating sliding" in note else None
    if pattern(row):
        return hybrid_layers(
            row, shape, known.norm, _mixer(row, known, shape, None), (plain, routed)
        )
    layers = []
    idle = noop_layers(row)
    for index in range(row.count("layers", most=LARGEST_DEPTH)):
        if index in idle:
            continue
        routes = routed is not None and index >= dense and (index - dense) % every == every - 1
        layers.append(
            Layer(
                mixer=_mixer(row, known, shape, window if index % 2 == 0 else None),
                mlp=routed if routes and routed is not None else plain,
                mixer_norm=known.norm,
                mlp_norm=known.norm,
                parallel=known.parallel,
                dropout=known.dropout,
            )
        )
    return tuple(layers)


def _mixer(
    row: Row, known: Facts, shape: Mapping[str, Any], window: int | None
) -> Attention | LatentAttention:
    note, heads = row.text("arch_note"), row.count("heads")
    if "mla" in note or shape.get("latent"):
        rank = int(_found(r"q_lora(\d+)", note, shape.get("query_rank", 0)))
        return LatentAttention(
            heads=heads,
            query_rank=rank or None,
            kv_rank=int(_found(r"kv_lora(\d+)", note, shape.get("kv_rank", 512))),
            nope_head_dim=int(_found(r"nope(\d+)", note, shape.get("nope_head_dim", 128))),
            rope_head_dim=int(_found(r"rope(\d+)", note, shape.get("rope_head_dim", 64))),
            value_head_dim=int(_found(r"\bv(\d+)", note, shape.get("value_head_dim", 128))),
            dropout=known.attention_dropout,
        )
    return Attention(
        heads=heads,
        kv_heads=row.count("kv_heads", heads),
        head_dim=row.count("head_dim") if row.number("head_dim") else _head_dim(row, heads),
        qkv_bias=known.qkv_bias,
        output_bias=known.bias,
        qk_norm=known.norm if known.qk_norm else None,
        rope=known.rope,
        window=window,
        dropout=known.attention_dropout,
    )


def _head_dim(row: Row, heads: int) -> int:
    """The width of a head where a row gives none: an equal share of the hidden size."""
    width, remainder = divmod(row.count("hidden"), heads)
    if remainder:
        raise InputError(
            field=f"{row.name}.heads",
            value=heads,
            problem=f"do not divide the hidden size {row.count('hidden')}",
            accepted="heads that divide it, or a head_dim",
        )
    return width


def _experts(row: Row, known: Facts) -> MoE:
    def expert(width: int) -> MLP:
        activation = "silu" if known.gated else "gelu"
        return MLP(intermediate=width, gated=known.gated, activation=activation, bias=known.bias)

    shared = row.number("shared_expert_ffn")
    return MoE(
        experts=row.count("experts"),
        top_k=row.count("topk", 1),
        expert=expert(row.count("moe_ffn", row.count("ffn", 1))),
        shared=expert(_shared_width(row, int(shared))) if shared else None,
    )


def _shared_width(row: Row, given: int) -> int:
    """The shared expert's width; a few is how many of the routed experts' width it is."""
    return given * row.count("moe_ffn", row.count("ffn", 1)) if given < A_FEW else given


A_FEW = 16
"""No shared expert is narrower than this."""


def _found(pattern: str, text: str, default: float) -> float:
    match = re.search(pattern, text)
    return float(match.group(1)) if match else default

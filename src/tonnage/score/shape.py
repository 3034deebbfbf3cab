"""The architecture columns of a measured row -> `Architecture`."""

from __future__ import annotations

import dataclasses
import re

from tonnage.arch import (
    LAYERNORM,
    MLP,
    RMSNORM,
    Architecture,
    Attention,
    LatentAttention,
    Layer,
    MoE,
    Norm,
)
from tonnage.errors import NotModelledError
from tonnage.score.row import Row

UNMODELLED = ("mamba", "exotic", "vlm")
"""Words of an ``arch_note`` that name what the columns cannot describe."""


def architecture(row: Row) -> Architecture:
    """Build the architecture that a row describes.

    Gated MLPs are taken to come with RMSNorm, rotary positions and no biases (Llama), plain
    ones with LayerNorm, biases and learnt positions (GPT), unless a note says otherwise.

    Raises:
        InputError: a column is missing or makes no sense.
        NotModelledError: a note names a layer that the columns cannot describe.
    """
    note = row.text("arch_note")
    for word in UNMODELLED:
        if word in note:
            raise NotModelledError(
                field=f"{row.name}.arch_note",
                value=note,
                problem=f"names {word}",
                accepted="attention layers with dense or routed MLPs",
            )
    gated = row.flag("ffn_gated", default=True)
    layers = _layers(row, note, gated)
    return Architecture(
        name=row.cells.get("model", row.name),
        family="measured",
        hidden=row.count("hidden"),
        vocab=row.count("vocab"),
        layers=layers,
        final_norm=_norm(note, gated),
        tied_embeddings=row.flag("tied_embed", default=False),
        max_positions=row.count("seq_len"),
        learned_positions=0 if _rotary(note, gated) else row.count("seq_len"),
        embedding_dropout=layers[0].dropout,
        source="columns of a measured row",
    )


def _rotary(note: str, gated: bool) -> bool:
    if "learned position" in note:
        return False
    return gated or "rotary" in note or "mla" in note or "relu" in note


def _norm(note: str, gated: bool) -> Norm:
    if not gated and ("no bias" in note or "layernorm1p" in note):
        return dataclasses.replace(LAYERNORM, bias="layernorm1p" in note)
    return RMSNORM if gated else LAYERNORM


def _layers(row: Row, note: str, gated: bool) -> tuple[Layer, ...]:
    count, dense = row.count("layers"), int(row.number("dense_layers") or 0)
    bias = not gated and "no bias" not in note and "relu" not in note
    plain = MLP(
        intermediate=row.count("ffn", 4 * row.count("hidden")),
        gated=gated,
        activation="silu" if gated else "gelu",
        bias=bias or "biases" in note,
    )
    routed = _experts(row, gated) if row.number("experts") else None
    every = 2 if "moe every 2nd" in note else 1
    windows = "alternating sliding window" in note
    window = int(_found(r"window (\d+)", note, 128)) if windows else None
    norm = _norm(note, gated)
    layers = []
    for index in range(count):
        mixer = _mixer(row, note, bias, window if window and index % 2 == 0 else None)
        is_routed = routed is not None and index >= dense and (index - dense) % every == every - 1
        layers.append(
            Layer(
                mixer=mixer,
                mlp=routed if is_routed and routed is not None else plain,
                mixer_norm=norm,
                mlp_norm=None if "parallel attn" in note and "shared" in note else norm,
                parallel="parallel attn" in note,
            )
        )
    return tuple(layers)


def _mixer(row: Row, note: str, bias: bool, window: int | None) -> Attention | LatentAttention:
    heads = row.count("heads")
    if "mla" in note:
        rank = int(_found(r"q_lora(\d+)", note, _extra(row, "q-lora-rank", 0)))
        return LatentAttention(
            heads=heads,
            query_rank=rank or None,
            kv_rank=int(_found(r"kv_lora(\d+)", note, _extra(row, "kv-lora-rank", 512))),
            nope_head_dim=int(_found(r"nope(\d+)", note, _extra(row, "qk-head-dim", 128))),
            rope_head_dim=int(_found(r"rope(\d+)", note, _extra(row, "qk-pos-emb-head-dim", 64))),
            value_head_dim=int(_found(r"\bv(\d+)", note, _extra(row, "v-head-dim", 128))),
        )
    gated = row.flag("ffn_gated", default=True)
    return Attention(
        heads=heads,
        kv_heads=row.count("kv_heads", heads),
        head_dim=row.count("head_dim", row.count("hidden") // heads),
        qkv_bias=bias or "biases" in note or "qkv bias" in note,
        output_bias=bias or "biases" in note,
        rope=_rotary(note, gated),
        window=window,
    )


def _experts(row: Row, gated: bool) -> MoE:
    def expert(width: int) -> MLP:
        return MLP(intermediate=width, gated=gated, activation="silu" if gated else "gelu")

    shared = row.number("shared_expert_ffn")
    return MoE(
        experts=row.count("experts"),
        top_k=row.count("topk", 1),
        expert=expert(row.count("moe_ffn", row.count("ffn", 1))),
        shared=expert(int(shared)) if shared else None,
    )


def _found(pattern: str, text: str, default: float) -> float:
    match = re.search(pattern, text)
    return float(match.group(1)) if match else default


def _extra(row: Row, key: str, default: float) -> float:
    return _found(rf"(?:^|; ?){re.escape(key)}=(\d+)", row.text("extra"), default)

"""Softmax attention: multi-head, grouped-query and multi-query, full or windowed."""

from __future__ import annotations

from tonnage.algebra import exact_div
from tonnage.arch import Attention
from tonnage.ledger.core_attention import Core, core_attention
from tonnage.ledger.elementwise import norm
from tonnage.ledger.linear import Linear, Rows, gather, linear, scatter
from tonnage.ledger.operation import Operation, Operations, Tensor
from tonnage.plan import Setting


def attention(setting: Setting, spec: Attention, normed: Tensor) -> tuple[Operations, Tensor]:
    """Attention from the normed input to the output projection.

    Args:
        setting: the run.
        spec: heads and widths.
        normed: ``[shard_tokens, hidden]``.

    Returns:
        The operations, and the branch ``[shard_tokens, hidden]`` before its residual sum.
    """
    hidden = setting.architecture.hidden
    entry, full = gather(setting, normed, hidden)
    rows = Rows(read=full, kept=normed, tokens=setting.tokens, degree=setting.tp)
    projections, (query, key, value) = _project(setting, spec, rows)
    positioned, query, key = _position(setting, spec, query, key)
    shape = Core(
        heads=spec.heads,
        kv_heads=spec.kv_heads,
        key_width=spec.head_dim,
        value_width=spec.head_dim,
        window=spec.window,
        softcap=spec.softcap,
        dropout=spec.dropout,
        causal=spec.causal,
    )
    core, context = core_attention(setting, shape, query, key, value)
    out = Linear(
        name="attention.output",
        width_in=spec.heads * spec.head_dim,
        width_out=hidden,
        split="row",
        bias=spec.output_bias,
        target="o_proj",
    )
    projected, partial = linear(
        setting, out, Rows(read=context, kept=context, tokens=setting.tokens, degree=setting.tp)
    )
    leave, branch = scatter(setting, partial, hidden)
    return (*entry, *projections, *positioned, *core, *projected, *leave), branch


def _project(
    setting: Setting, spec: Attention, rows: Rows
) -> tuple[Operations, tuple[Tensor, Tensor, Tensor]]:
    operations: list[Operation] = []
    tensors = []
    for letter, heads in (("q", spec.heads), ("k", spec.kv_heads), ("v", spec.kv_heads)):
        part = Linear(
            name=f"attention.{letter}",
            width_in=setting.architecture.hidden,
            width_out=heads * spec.head_dim,
            split="column",
            bias=spec.qkv_bias,
            target=f"{letter}_proj",
        )
        done, tensor = linear(setting, part, rows)
        operations.extend(done)
        tensors.append(tensor)
    return tuple(operations), (tensors[0], tensors[1], tensors[2])


def _position(
    setting: Setting, spec: Attention, query: Tensor, key: Tensor
) -> tuple[Operations, Tensor, Tensor]:
    """Query and key norms, then the rotary embedding; both write new tensors."""
    operations: list[Operation] = []
    if spec.qk_norm is not None:
        for letter, heads in (("q", spec.heads), ("k", spec.kv_heads)):
            whole = exact_div(heads * spec.head_dim, setting.tp)
            done, tensor = norm(
                setting,
                spec.qk_norm,
                name=f"attention.{letter}_norm",
                read=query if letter == "q" else key,
                width=spec.head_dim if spec.qk_norm_over == "head" else whole,
                modules=(),
            )
            operations.extend(done)
            query, key = (tensor, key) if letter == "q" else (query, tensor)
    if spec.rope:
        turned = (
            query.cast("attention.q_rotated", setting.format),
            key.cast("attention.k_rotated", setting.format),
        )
        operations.append(
            Operation(
                name="attention.rope", kind="elementwise", inputs=(query, key), outputs=turned
            )
        )
        query, key = turned
    return tuple(operations), query, key

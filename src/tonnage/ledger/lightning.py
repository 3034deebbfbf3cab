"""Lightning attention: linear attention with a fixed decay (arXiv 2401.04658; MiniMax-01)."""

from __future__ import annotations

from tonnage.algebra import Number, exact_div, flops_of
from tonnage.arch import LightningAttention
from tonnage.ledger.linear import Linear, Rows, gather, linear
from tonnage.ledger.operation import Collective, Operation, Operations, Tensor
from tonnage.ledger.recurrent import chunk_count, gated_norm, leave
from tonnage.plan import Setting


def lightning_attention(
    setting: Setting, spec: LightningAttention, normed: Tensor
) -> tuple[Operations, Tensor]:
    """Lightning attention from the normed input to the output projection.

    Args:
        setting: the run.
        spec: heads and widths.
        normed: ``[shard_tokens, hidden]``.

    Returns:
        The operations, and the branch ``[shard_tokens, hidden]`` before its residual sum.
    """
    hidden = setting.architecture.hidden
    width = spec.heads * spec.head_dim
    entry, full = gather(setting, normed, hidden)
    rows = Rows(read=full, kept=normed, tokens=setting.tokens, degree=setting.tp)

    def project(name: str, wide: Number) -> tuple[Operations, Tensor]:
        spec = Linear(name=name, width_in=hidden, width_out=wide, split="column", target="in_proj")
        return linear(setting, spec, rows)

    made, mixed = project("lightning.qkv", 3 * width)
    gates, gate = project("lightning.gate", width)
    activated = mixed.cast("lightning.heads", setting.format)
    activation = Operation(
        name=activated.name,
        kind="elementwise",
        inputs=(mixed,),
        outputs=(activated,),
        saves=(mixed,),
    )
    scan, context = _scan(setting, spec, activated)
    scaled, context = gated_norm(
        setting,
        "lightning.norm",
        context,
        gate,
        rows=setting.tokens,
        weight=exact_div(width, setting.tp),
    )
    out, branch = leave(setting, "lightning", context, width)
    return (*entry, *made, *gates, activation, scan, *scaled, *out), branch


def _scan(setting: Setting, spec: LightningAttention, heads: Tensor) -> tuple[Operation, Tensor]:
    """The scan over chunks, which keeps queries, keys and values; scores and states are made again.

    Four products of a chunk and head: scores, their weighted sum, the state's write and its
    read; squares are counted whole. The norm behind it spans all heads, so that tensor
    parallelism sums one statistic a token.
    """
    local = exact_div(spec.heads, setting.tp)
    chunks = chunk_count(setting, spec.chunk)
    square = 2 * spec.chunk**2 * spec.head_dim
    state = 2 * spec.chunk * spec.head_dim**2
    flops = flops_of(chunks) * local * 2 * (square + state)
    context = Tensor(
        name="lightning.context",
        elements=setting.tokens * local * spec.head_dim,
        format=setting.format,
    )
    states = Tensor(
        name="lightning.states", elements=chunks * local * spec.head_dim**2, format="fp32"
    )
    statistic = Tensor(name="lightning.statistic", elements=setting.tokens, format="fp32").bytes
    operation = Operation(
        name="lightning.scan",
        kind="attention",
        inputs=(heads,),
        outputs=(context, states),
        saves=(heads,),
        flops=flops,
        flops_backward=2 * flops,
        flops_inside=flops_of(chunks) * local * (square + state),
        collectives=(
            Collective(kind="all_reduce", axis="tp", bytes=statistic, phase="forward"),
            Collective(kind="all_reduce", axis="tp", bytes=statistic, phase="backward"),
        ),
    )
    return operation, context

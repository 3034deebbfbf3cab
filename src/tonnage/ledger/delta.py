"""The gated delta rule: Gated DeltaNet (arXiv 2412.06464) and Kimi Delta Attention (2510.26692).

Each value head carries a state of d_k × d_v numbers. A token decays it, reads what its key
finds there, and writes the difference to its value back. In training whole chunks of 64
tokens are turned into matrix products (arXiv 2412.06464, section 3.3).
"""

from __future__ import annotations

from typing import Final

from tonnage.algebra import Number, exact_div, flops_of
from tonnage.arch import GatedDelta
from tonnage.ledger.linear import Linear, Rows, gather, linear
from tonnage.ledger.operation import Operation, Operations, Tensor, Weight
from tonnage.ledger.recurrent import chunk_count, convolution, gated_norm, leave, vector
from tonnage.plan import Setting

CHUNK: Final = 64
"""Tokens of a chunk in flash-linear-attention, and in the classes of transformers."""


def gated_delta(setting: Setting, spec: GatedDelta, normed: Tensor) -> tuple[Operations, Tensor]:
    """The gated delta rule from the normed input to the output projection.

    Tensor parallelism splits heads, as Megatron-Core's GatedDeltaNet does.

    Args:
        setting: the run.
        spec: heads and widths.
        normed: ``[shard_tokens, hidden]``.

    Returns:
        The operations, and the branch ``[shard_tokens, hidden]`` before its residual sum.
    """
    values = spec.value_heads * spec.value_head_dim
    channels = 2 * spec.key_heads * spec.key_head_dim + values
    entry, full = gather(setting, normed, setting.architecture.hidden)
    made, mixed = _project(setting, "delta.qkv", normed, full, channels)
    writes, beta = _project(setting, "delta.beta", normed, full, spec.value_heads)
    steps, decay = _decay(setting, spec, normed, full)
    gates, gate = _project(setting, "delta.gate", normed, full, values, spec.gate_rank)
    conv, heads = convolution(
        setting, "delta.conv", mixed, channels=channels, taps=spec.conv_kernel
    )
    scan, context = _scan(setting, spec, heads, beta, decay)
    scaled, context = gated_norm(
        setting,
        "delta.norm",
        context,
        gate,
        rows=setting.tokens * exact_div(spec.value_heads, setting.tp),
        weight=spec.value_head_dim,
    )
    out, branch = leave(setting, "delta", context, values)
    return (*entry, *made, *writes, *steps, *gates, *conv, scan, *scaled, *out), branch


def _project(
    setting: Setting,
    name: str,
    normed: Tensor,
    full: Tensor,
    width: Number,
    rank: Number | None = None,
) -> tuple[Operations, Tensor]:
    """A column-parallel projection, through a latent of ``rank`` that every rank makes."""
    hidden = setting.architecture.hidden
    target = "in_proj"
    if rank is None:
        wide = Linear(name=name, width_in=hidden, width_out=width, split="column", target=target)
        rows = Rows(read=full, kept=normed, tokens=setting.tokens, degree=setting.tp)
        return linear(setting, wide, rows)
    down = Linear(name=f"{name}_down", width_in=hidden, width_out=rank, target=target)
    rows = Rows(read=normed, kept=normed, tokens=setting.shard_tokens, degree=1)
    reduced, latent = linear(setting, down, rows)
    entry, whole = gather(setting, latent, rank)
    up = Linear(name=name, width_in=rank, width_out=width, split="column", target=target)
    rows = Rows(read=whole, kept=latent, tokens=setting.tokens, degree=setting.tp)
    raised, output = linear(setting, up, rows)
    return (*reduced, *entry, *raised), output


def _decay(
    setting: Setting, spec: GatedDelta, normed: Tensor, full: Tensor
) -> tuple[Operations, Tensor]:
    if spec.decay == "head":
        return _project(setting, "delta.decay", normed, full, spec.value_heads)
    width = spec.key_heads * spec.key_head_dim
    return _project(setting, "delta.decay", normed, full, width, spec.gate_rank)


def _scan(
    setting: Setting, spec: GatedDelta, mixed: Tensor, beta: Tensor, decay: Tensor
) -> tuple[Operation, Tensor]:
    """The scan over chunks, with the norms of queries and keys and the gates inside.

    Exact: the tensors that flash-linear-attention (fla-core 0.6) hands to
    ``save_for_backward``: normalised queries and keys with their statistics, values, both
    gates before and after, and the inverted triangle of each chunk (Kimi's also has the
    scores). States are made again in backward, so none is kept; they exist for one layer.
    """
    heads = exact_div(spec.value_heads, setting.tp)
    values = heads * spec.value_head_dim
    context = Tensor(name="delta.context", elements=setting.tokens * values, format=setting.format)
    states = chunk_count(setting, CHUNK) * values * spec.key_head_dim
    forward, again = chunk_flops(spec)
    flops = flops_of(chunk_count(setting, CHUNK)) * heads * forward
    return Operation(
        name="delta.scan",
        kind="attention",
        inputs=(mixed, beta, decay),
        outputs=(
            context,
            Tensor(name="delta.states", elements=states, format=setting.format),
        ),
        saves=_kept_by_scan(setting, spec, mixed, beta, decay),
        weights=_decay_weights(setting, spec),
        flops=flops,
        flops_backward=2 * flops,
        flops_inside=flops_of(chunk_count(setting, CHUNK)) * heads * again,
    ), context


def chunk_flops(spec: GatedDelta) -> tuple[Number, Number]:
    """FLOPs of one chunk of one value head: forward, and those that backward repeats.

    Five products of C × C (scores of keys, scores of queries, the two sides of the WY
    representation, the weighted sum), three with the state (read for the correction, read
    for the output, write), and the inverse of a unit lower triangle. All squares are
    counted whole: a chunk is one tile. Backward makes W, U, the corrections, the states and,
    where they are not kept, the scores of queries again.
    """
    keys, values = spec.key_head_dim, spec.value_head_dim
    with_state = 2 * CHUNK * keys * values
    inverse = CHUNK * (CHUNK - 1) * (CHUNK - 2) // 3
    forward = 2 * CHUNK**2 * (3 * keys + 2 * values) + 3 * with_state + inverse
    scores = 2 * CHUNK**2 * keys if spec.decay == "head" else 0
    return forward, 2 * CHUNK**2 * (keys + values) + scores + 2 * with_state


def _kept_by_scan(
    setting: Setting, spec: GatedDelta, mixed: Tensor, beta: Tensor, decay: Tensor
) -> tuple[Tensor, ...]:
    tokens = setting.tokens
    heads = exact_div(spec.value_heads, setting.tp)
    triangles = CHUNK if spec.decay == "head" else 2 * CHUNK
    saves = [
        mixed.cast("delta.heads", setting.format),
        Tensor(
            name="delta.key_statistics",
            elements=2 * tokens * exact_div(spec.key_heads, setting.tp),
            format="fp32",
        ),
        beta,
        beta.cast("delta.beta_sigmoid", "fp32"),
        decay,
        Tensor(name="delta.triangles", elements=tokens * heads * triangles, format=setting.format),
    ]
    if spec.decay == "head":
        saves.append(decay.cast("delta.decay_sum", "fp32"))
    return tuple(saves)


def _decay_weights(setting: Setting, spec: GatedDelta) -> tuple[Weight, ...]:
    """The rate of each head, and the bias of each decay."""
    heads = exact_div(spec.value_heads, setting.tp)
    width = heads if spec.decay == "head" else heads * spec.key_head_dim
    return (
        vector(setting, "delta.rate", heads),
        vector(setting, "delta.step_bias", width),
    )

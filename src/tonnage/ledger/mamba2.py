"""Mamba-2: a state space model as matrix products over chunks (SSD, arXiv 2405.21060)."""

from __future__ import annotations

from tonnage.algebra import Number, exact_div, flops_of
from tonnage.arch import Mamba2
from tonnage.ledger.linear import Linear, Rows, gather, linear
from tonnage.ledger.operation import Operation, Operations, Tensor
from tonnage.ledger.recurrent import chunk_count, convolution, gated_norm, leave, vector
from tonnage.plan import Setting


def mamba2(setting: Setting, spec: Mamba2, normed: Tensor) -> tuple[Operations, Tensor]:
    """Mamba-2 from the normed input to the output projection.

    Tensor parallelism splits heads and groups, as Megatron-Core's MambaMixer does.

    Exact: the tensors that ``mamba_split_conv1d_scan_combined`` (mamba_ssm) keeps: the
    whole input projection, the scan's output and the norm's statistics. It convolves again
    in backward. Assumed: the output projection is not fused into that kernel, and so keeps
    its input (Megatron-Core; the class in transformers fuses it on one rank).

    Args:
        setting: the run.
        spec: heads, groups and widths.
        normed: ``[shard_tokens, hidden]``.

    Returns:
        The operations, and the branch ``[shard_tokens, hidden]`` before its residual sum.
    """
    inner = spec.heads * spec.head_dim
    channels = inner + 2 * spec.groups * spec.state
    entry, full = gather(setting, normed, setting.architecture.hidden)
    wide = Linear(
        name="mamba2.input",
        width_in=setting.architecture.hidden,
        width_out=inner + channels + spec.heads,
        split="column",
        bias=spec.bias,
        target="in_proj",
    )
    rows = Rows(read=full, kept=normed, tokens=setting.tokens, degree=setting.tp)
    made, projected = linear(setting, wide, rows)
    conv, mixed = convolution(
        setting,
        "mamba2.conv",
        projected,
        channels=channels,
        taps=spec.conv_kernel,
        bias=spec.conv_bias,
    )
    scan, context = _scan(setting, spec, projected, mixed)
    scaled, context = gated_norm(
        setting,
        "mamba2.norm",
        context,
        projected,
        rows=setting.tokens * exact_div(spec.groups, setting.tp),
        weight=exact_div(inner, setting.tp),
        in_kernel=True,
    )
    out, branch = leave(setting, "mamba2", context, inner, bias=spec.bias)
    return (*entry, *made, *conv, scan, *scaled, *out), branch


def _scan(
    setting: Setting, spec: Mamba2, projected: Tensor, mixed: Tensor
) -> tuple[Operation, Tensor]:
    """The scan over chunks. The fp32 state of each chunk exists for one layer and is not kept."""
    heads = exact_div(spec.heads, setting.tp)
    inner = heads * spec.head_dim
    chunks = chunk_count(setting, spec.chunk)
    forward, again = chunk_flops(spec, heads, exact_div(spec.groups, setting.tp))
    context = Tensor(name="mamba2.context", elements=setting.tokens * inner, format=setting.format)
    states = Tensor(name="mamba2.states", elements=chunks * inner * spec.state, format="fp32")
    operation = Operation(
        name="mamba2.scan",
        kind="attention",
        inputs=(mixed, projected),
        outputs=(context, states),
        saves=(projected,),
        weights=tuple(
            vector(setting, f"mamba2.{name}", heads) for name in ("rate", "step_bias", "skip")
        ),
        flops=flops_of(chunks) * forward,
        flops_backward=2 * flops_of(chunks) * forward,
        flops_inside=flops_of(chunks) * again,
    )
    return operation, context


def chunk_flops(spec: Mamba2, heads: Number, groups: Number) -> tuple[Number, Number]:
    """FLOPs of one chunk: forward, and those that backward repeats.

    Four products (arXiv 2405.21060, section 6): C·Bᵀ in each group; its masked square times
    x, the chunk's state, and what an earlier state adds to its output, in each head. Squares
    are counted whole: a chunk is worked on as tiles. Passing states from chunk to chunk is
    no matrix product. Backward makes C·Bᵀ and the states again.
    """
    square, state = 2 * spec.chunk**2, 2 * spec.chunk * spec.head_dim * spec.state
    scores = square * groups * spec.state
    forward = scores + heads * (square * spec.head_dim + 2 * state)
    return forward, scores + heads * state

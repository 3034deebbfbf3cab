"""Mamba: a selective scan over every channel (arXiv 2312.00752)."""

from __future__ import annotations

from typing import Final

from tonnage.algebra import Number, exact_div, flops_of
from tonnage.arch import Mamba
from tonnage.ledger.elementwise import norm
from tonnage.ledger.linear import Linear, Rows, gather, linear
from tonnage.ledger.operation import Collective, Operation, Operations, Tensor, Weight
from tonnage.ledger.recurrent import chunk_count, convolution, leave, vector
from tonnage.plan import Setting

CHUNK: Final = 2048
"""Tokens between two states that the CUDA kernel of mamba_ssm keeps."""


def mamba(setting: Setting, spec: Mamba, normed: Tensor) -> tuple[Operations, Tensor]:
    """Mamba from the normed input to the output projection.

    Tensor parallelism splits the channels; the small projection that makes step sizes, B
    and C from all channels is row-parallel, and its result is summed over the ranks.

    Args:
        setting: the run.
        spec: widths.
        normed: ``[shard_tokens, hidden]``.

    Returns:
        The operations, and the branch ``[shard_tokens, hidden]`` before its residual sum.
    """
    entry, full = gather(setting, normed, setting.architecture.hidden)
    wide = Linear(
        name="mamba.input",
        width_in=setting.architecture.hidden,
        width_out=2 * spec.inner,
        split="column",
        bias=spec.bias,
        target="in_proj",
    )
    rows = Rows(read=full, kept=normed, tokens=setting.tokens, degree=setting.tp)
    made, projected = linear(setting, wide, rows)
    conv, mixed = convolution(
        setting,
        "mamba.conv",
        projected,
        channels=spec.inner,
        taps=spec.conv_kernel,
        bias=spec.conv_bias,
    )
    selected, parameters = _select(setting, spec, projected, mixed)
    stepped, steps = _steps(setting, spec, parameters)
    scan, context = _scan(setting, spec, projected, mixed, parameters, steps)
    out, branch = leave(setting, "mamba", context, spec.inner, bias=spec.bias)
    return (*entry, *made, *conv, *selected, *stepped, scan, *out), branch


def _select(
    setting: Setting, spec: Mamba, projected: Tensor, mixed: Tensor
) -> tuple[Operations, Tensor]:
    """Step latent, B and C of each token, from all channels; normalised in Jamba.

    Without norms one kernel does it all and convolves again in backward
    (``mamba_inner_fn``), so that what is kept of the input is the convolution's.
    """
    small = Linear(
        name="mamba.parameters",
        width_in=spec.inner,
        width_out=spec.step_rank + 2 * spec.state,
        split="row",
        target="x_proj",
        narrow=False,
    )
    kept = projected if spec.norm is None else mixed
    rows = Rows(read=mixed, kept=kept, tokens=setting.tokens, degree=setting.tp)
    made, partial = linear(setting, small, rows)
    summed = Operation(
        name="mamba.parameters.reduce",
        kind="elementwise",
        collectives=(
            Collective(kind="all_reduce", axis="tp", bytes=partial.bytes, phase="forward"),
            Collective(kind="all_reduce", axis="tp", bytes=partial.bytes, phase="backward"),
        ),
    )
    if spec.norm is None:
        return (*made, summed), partial
    return _normalise(setting, spec, (*made, summed), partial)


def _normalise(
    setting: Setting, spec: Mamba, before: Operations, partial: Tensor
) -> tuple[Operations, Tensor]:
    """Three norms over pieces of one tensor; they write the three pieces of another."""
    assert spec.norm is not None
    operations = list(before)
    pieces = []
    for name, width in (("step", spec.step_rank), ("b", spec.state), ("c", spec.state)):
        piece = Tensor(name=f"mamba.{name}", elements=setting.tokens * width, format=partial.format)
        operations.append(
            Operation(name=piece.name, kind="elementwise", inputs=(partial,), outputs=(piece,))
        )
        done, output = norm(
            setting, spec.norm, name=f"mamba.{name}_norm", read=piece, width=width, modules=()
        )
        operations.extend(done)
        pieces.append(output)
    joined = partial.cast("mamba.normalised", setting.format)
    operations.append(
        Operation(name=joined.name, kind="elementwise", inputs=tuple(pieces), outputs=(joined,))
    )
    return tuple(operations), joined


def _steps(setting: Setting, spec: Mamba, parameters: Tensor) -> tuple[Operations, Tensor]:
    """A step size for each channel."""
    up = Linear(
        name="mamba.steps",
        width_in=spec.step_rank,
        width_out=spec.inner,
        split="column",
        bias=True,
        target="dt_proj",
        narrow=False,
    )
    rows = Rows(read=parameters, kept=parameters, tokens=setting.tokens, degree=setting.tp)
    return linear(setting, up, rows)


def _scan(
    setting: Setting,
    spec: Mamba,
    projected: Tensor,
    mixed: Tensor,
    parameters: Tensor,
    steps: Tensor,
) -> tuple[Operation, Tensor]:
    """The scan and its output gate.

    Three multiply-adds a token, channel and state: decay and add, write, read. Backward
    makes the states again from those kept every `CHUNK` tokens. Exact: what the kernels of
    mamba_ssm keep. Assumed: the output projection keeps its input, as one rank's fused
    kernel does not.
    """
    channels = exact_div(spec.inner, setting.tp)
    context = Tensor(
        name="mamba.context", elements=setting.tokens * channels, format=setting.format
    )
    saves = [
        projected,
        parameters,
        # B and C once more, contiguous.
        Tensor(name="mamba.b_c", elements=2 * setting.tokens * spec.state, format=setting.format),
        context.cast("mamba.ungated", setting.format),
        Tensor(
            name="mamba.states",
            elements=2 * chunk_count(setting, CHUNK) * channels * spec.state,
            format="fp32",
        ),
    ]
    if spec.norm is not None:
        saves.extend((mixed, steps))
    pairs = flops_of(setting.tokens) * channels * spec.state
    operation = Operation(
        name="mamba.scan",
        kind="elementwise",
        inputs=(mixed, steps, parameters, projected),
        outputs=(context,),
        saves=tuple(saves),
        weights=_scan_weights(setting, spec, channels),
        flops=6 * pairs,
        flops_backward=12 * pairs,
        flops_inside=4 * pairs,
    )
    return operation, context


def _scan_weights(setting: Setting, spec: Mamba, channels: Number) -> tuple[Weight, ...]:
    trains = setting.trains_base
    rates = Weight(name="mamba.rate", shape=(channels, spec.state), trains=trains)
    return rates, vector(setting, "mamba.skip", channels)

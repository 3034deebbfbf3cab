"""A gated short convolution, ``C · conv(B · x)`` (LFM2; ``Lfm2ShortConv`` in transformers)."""

from __future__ import annotations

from tonnage.algebra import exact_div
from tonnage.arch import ShortConvolution
from tonnage.ledger.linear import Linear, Rows, gather, linear
from tonnage.ledger.operation import Operation, Operations, Tensor
from tonnage.ledger.recurrent import convolution, leave
from tonnage.plan import Setting


def short_convolution(
    setting: Setting, spec: ShortConvolution, normed: Tensor
) -> tuple[Operations, Tensor]:
    """The gated convolution from the normed input to the output projection.

    Args:
        setting: the run.
        spec: its channels and taps.
        normed: ``[shard_tokens, hidden]``.

    Returns:
        The operations, and the branch ``[shard_tokens, hidden]`` before its residual sum.
    """
    hidden = setting.architecture.hidden
    entry, full = gather(setting, normed, hidden)
    wide = Linear(
        name="conv.input",
        width_in=hidden,
        width_out=3 * spec.channels,
        split="column",
        bias=spec.bias,
        target="in_proj",
    )
    rows = Rows(read=full, kept=normed, tokens=setting.tokens, degree=setting.tp)
    made, projected = linear(setting, wide, rows)
    first, gated = _times(setting, spec, "conv.gated", (projected,))
    conv, mixed = convolution(
        setting,
        "conv.conv",
        gated,
        channels=spec.channels,
        taps=spec.conv_kernel,
        bias=spec.bias,
        activated=False,
    )
    second, context = _times(setting, spec, "conv.context", (projected, mixed))
    out, branch = leave(setting, "conv", context, spec.channels, bias=spec.bias)
    return (*entry, *made, first, *conv, second, *out), branch


def _times(
    setting: Setting, spec: ShortConvolution, name: str, read: tuple[Tensor, ...]
) -> tuple[Operation, Tensor]:
    """A product of two thirds of the projection, or of one and the convolution's output."""
    channels = exact_div(spec.channels, setting.tp)
    output = Tensor(name=name, elements=setting.tokens * channels, format=setting.format)
    operation = Operation(name=name, kind="elementwise", inputs=read, outputs=(output,), saves=read)
    return operation, output

"""What recurrent mixers share: chunks, the short convolution, the gated norm, the way out."""

from __future__ import annotations

from tonnage.algebra import Number, ceil_div, exact_div, flops_of
from tonnage.ledger.linear import Linear, Rows, linear, scatter
from tonnage.ledger.operation import Operation, Operations, Tensor, Weight
from tonnage.plan import Setting


def chunk_count(setting: Setting, chunk: Number) -> Number:
    """Chunks of ``chunk`` positions in a micro-batch; a sequence's last one may be part full.

    Context parallelism is refused for recurrent mixers, so a sequence is whole on a rank.
    """
    return setting.mbs * ceil_div(setting.seq, chunk)


def vector(setting: Setting, name: str, width: Number) -> Weight:
    """A parameter of one number a head or channel (decay, step bias, skip)."""
    return Weight(name=name, shape=(width,), trains=setting.trains_base)


def convolution(
    setting: Setting,
    name: str,
    read: Tensor,
    *,
    channels: Number,
    taps: Number,
    bias: bool = False,
    activated: bool = True,
) -> tuple[Operations, Tensor]:
    """A causal convolution of each channel with its own few taps, then an activation.

    ``2 · taps`` FLOPs a channel and token, as 6·N·D counts them. The kernel (causal_conv1d,
    and fla's) keeps its input, and convolves again in backward to get the activation's.

    Args:
        setting: the run.
        name: name of the operation and of its output.
        read: what holds the channels, possibly among others.
        channels: channels over all tensor-parallel ranks, which split them.
        taps: taps of a channel.
        bias: whether a channel has a bias.
        activated: whether an activation follows.
    """
    local = exact_div(channels, setting.tp)
    trains = setting.trains_base
    weights = [Weight(name=f"{name}.weight", shape=(local, 1, taps), trains=trains)]
    if bias:
        weights.append(vector(setting, f"{name}.bias", local))
    output = Tensor(name=name, elements=setting.tokens * local, format=setting.format)
    flops = 2 * flops_of(setting.tokens) * local * taps
    operation = Operation(
        name=name,
        kind="elementwise",
        inputs=(read,),
        outputs=(output,),
        saves=(read,),
        weights=tuple(weights),
        flops=flops,
        flops_backward=2 * flops if trains else flops,
        flops_inside=flops if activated else 0,
    )
    return (operation,), output


def gated_norm(
    setting: Setting,
    name: str,
    read: Tensor,
    gate: Tensor,
    *,
    rows: Number,
    weight: Number,
    in_kernel: bool = False,
) -> tuple[Operations, Tensor]:
    """``norm(x) · act(gate)``: RMSNorm of the scan's output times an activated gate.

    A fused kernel keeps x, the gate and one statistic a row. One written in Python keeps
    fp32 copies of both, the normalised value and the activated gate.

    Args:
        setting: the run.
        name: name of the operation and of its output.
        read: x.
        gate: the gate, possibly among other things that one projection made.
        rows: groups of elements that have a statistic each.
        weight: elements of the norm's weight on this rank.
        in_kernel: the norm is a part of the scan's kernel, whatever the runtime's habit.
    """
    output = Tensor(name=name, elements=read.elements, format=setting.format)
    saves = [read, gate]
    if setting.runtime.norm == "eager" and not in_kernel:
        saves = [
            read.cast(f"{name}.input_fp32", "fp32"),
            output.cast(f"{name}.normalised", setting.format),
            output.cast(f"{name}.gate_fp32", "fp32"),
            output.cast(f"{name}.gate_activated", "fp32"),
        ]
    if setting.runtime.norm_statistics:
        saves.append(Tensor(name=f"{name}.statistics", elements=rows, format="fp32"))
    operation = Operation(
        name=name,
        kind="elementwise",
        inputs=(read, gate),
        outputs=(output,),
        saves=tuple(saves),
        weights=(vector(setting, f"{name}.weight", weight),),
    )
    return (operation,), output


def leave(
    setting: Setting, name: str, context: Tensor, width: Number, *, bias: bool = False
) -> tuple[Operations, Tensor]:
    """The output projection, row-parallel, and the sum of its partial results."""
    hidden = setting.architecture.hidden
    out = Linear(
        name=f"{name}.output",
        width_in=width,
        width_out=hidden,
        split="row",
        bias=bias,
        target="out_proj",
    )
    rows = Rows(read=context, kept=context, tokens=setting.tokens, degree=setting.tp)
    projected, partial = linear(setting, out, rows)
    summed, branch = scatter(setting, partial, hidden)
    return (*projected, *summed), branch

"""Hyper-connections: several residual streams, and the learnt mixtures between them.

Manifold-constrained hyper-connections (arXiv 2512.24880; ``DeepseekV4HyperConnection``).
Of n streams each part reads one mixture, writes its output into all of them, and mixes them
by an n × n matrix; the n + n + n² coefficients are projected from all streams, in fp32.
"""

from __future__ import annotations

from tonnage.algebra import Number, flops_of
from tonnage.ledger.operation import Operation, Operations, Tensor, Weight
from tonnage.plan import Setting


def collapse(
    setting: Setting, streams: Number, wide: Tensor, name: str
) -> tuple[Operations, Tensor, Tensor]:
    """The coefficients of one part, and the mixture of the streams that it reads.

    Written in Python, the norm in front keeps its fp32 input and output; fused, the streams
    alone, of which the rest is made again.

    Returns:
        The operations, the mixture ``[shard_tokens, hidden]`` and the coefficients.
    """
    count = 2 * streams + streams**2
    weights = _weights(setting, streams, name, outputs=count, scales=3)
    done, mixed = _coefficients(setting, wide, name, count, weights)
    narrow = Tensor(
        name=f"{name}.read",
        elements=setting.shard_tokens * setting.architecture.hidden,
        format=setting.stream,
    )
    join = Operation(
        name=f"{name}.collapse",
        kind="elementwise",
        inputs=(wide, mixed),
        outputs=(narrow,),
        saves=(wide, mixed),
    )
    return (done, join), narrow, mixed


def expand(
    setting: Setting, streams: Number, wide: Tensor, mixed: Tensor, branch: Tensor, name: str
) -> tuple[Operation, Tensor]:
    """Write a part's output into every stream and mix the streams: ``2 · n² · h`` FLOPs a token.

    Both factors of each product are kept: the streams, the output and the coefficients.
    """
    output = Tensor(name=name, elements=wide.elements, format=setting.stream)
    flops = 2 * flops_of(wide.elements) * streams
    operation = Operation(
        name=f"{name}.expand",
        kind="matmul",
        inputs=(wide, mixed, branch),
        outputs=(output,),
        saves=(wide, mixed, branch),
        flops=flops,
        flops_backward=2 * flops,
    )
    return operation, output


def collapse_head(setting: Setting, wide: Tensor) -> tuple[Operations, Tensor]:
    """The mixture of the streams that the final norm reads (``DeepseekV4HyperHead``)."""
    streams = setting.architecture.streams
    weights = _weights(setting, streams, "head.streams", outputs=streams, scales=1)
    done, mixed = _coefficients(setting, wide, "head.streams", streams, weights)
    narrow = Tensor(
        name="head.read",
        elements=setting.shard_tokens * setting.architecture.hidden,
        format=setting.stream,
    )
    join = Operation(
        name="head.collapse",
        kind="elementwise",
        inputs=(wide, mixed),
        outputs=(narrow,),
        saves=(wide, mixed),
    )
    return (done, join), narrow


def _weights(
    setting: Setting, streams: Number, name: str, *, outputs: Number, scales: int
) -> tuple[Weight, ...]:
    width = streams * setting.architecture.hidden
    trains = setting.plan.lora_rank is None
    shapes = (("fn", (outputs, width)), ("base", (outputs,)), ("scale", (scales,)))
    return tuple(
        Weight(name=f"{name}.{part}", shape=shape, trains=trains) for part, shape in shapes
    )


def _coefficients(
    setting: Setting, wide: Tensor, name: str, count: Number, weights: tuple[Weight, ...]
) -> tuple[Operation, Tensor]:
    """Norm and projection of all streams at once: ``2 · n · h · count`` FLOPs a token."""
    mixed = Tensor(
        name=f"{name}.coefficients", elements=setting.shard_tokens * count, format="fp32"
    )
    saves = [wide]
    if setting.runtime.norm == "eager":
        saves = [wide.cast(f"{name}.{part}", "fp32") for part in ("input_fp32", "normalised")]
    flops = 2 * flops_of(wide.elements) * count
    operation = Operation(
        name=f"{name}.coefficients",
        kind="matmul",
        inputs=(wide,),
        outputs=(mixed,),
        saves=tuple(saves),
        weights=weights,
        flops=flops,
        flops_backward=2 * flops,
    )
    return operation, mixed

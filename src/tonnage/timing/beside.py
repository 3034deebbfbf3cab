"""Tensor-parallel collectives that run beside a product, where a stack issues them so."""

from __future__ import annotations

from collections.abc import Sequence

from tonnage.algebra import Number, minimum, total
from tonnage.cluster import Cluster
from tonnage.ledger import Operation, Operations
from tonnage.plan import Setting
from tonnage.timing import constants
from tonnage.timing.collective import collective_seconds
from tonnage.timing.kernel import Rates, weight_seconds
from tonnage.timing.traffic import mesh_axes


def hidden_seconds(
    setting: Setting,
    operations: Operations,
    backward: Sequence[Number],
    rate: Rates,
    cluster: Cluster,
) -> Number:
    """Seconds of a backward pass' collectives that products hide, under sequence parallelism.

    The products that read a gathered input gather it again while they make its gradient, and sum
    that over the ranks while they make their weights' gradients. Both want the same
    multiprocessors, so that a share of what is hidden shows all the same.

    Args:
        setting: the run.
        operations: of a layer, the embedding or the head.
        backward: seconds of each one's backward pass.
        rate: of the device.
        cluster: the links.
    """
    axis = mesh_axes(setting)["tp"]
    hidden: Number = 0.0
    for entry in operations:
        if not any(c.kind == "all_gather" and c.phase == "forward" for c in entry.collectives):
            continue
        readers = _readers(entry, operations)
        late = total(weight_seconds(setting, rate, operations[place]) for place in readers)
        early = total(backward[place] for place in readers) - late
        for collective in entry.collectives:
            if readers and collective.phase == "backward" and collective.axis == "tp":
                seconds = collective_seconds(collective, axis, cluster)
                beside = early if collective.kind == "all_gather" else late
                hidden = hidden + minimum(seconds, beside)
    return (1.0 - constants.OVERLAP_LEAK) * hidden


def _readers(entry: Operation, operations: Operations) -> list[int]:
    """Where the products are that read what entering a tensor-parallel region has gathered."""
    names = {tensor.name for tensor in entry.outputs}
    return [
        place
        for place, op in enumerate(operations)
        if op.kind == "matmul" and op.inputs and op.inputs[0].name in names
    ]

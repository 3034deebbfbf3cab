"""Tensor-parallel collectives that run beside a product, where a stack issues them so."""

from __future__ import annotations

from tonnage.algebra import Number, minimum, total
from tonnage.cluster import Cluster
from tonnage.ledger import Operation, Operations
from tonnage.ledger.operation import Phase
from tonnage.plan import Setting
from tonnage.timing import constants
from tonnage.timing.collective import collective_seconds
from tonnage.timing.kernel import Rates, backward_seconds, weight_seconds
from tonnage.timing.traffic import mesh_axes


def hidden_seconds(
    setting: Setting, operations: Operations, phase: Phase, rate: Rates, cluster: Cluster
) -> Number:
    """Seconds of collectives that products hide.

    Backward, under sequence parallelism, the products that read a gathered input gather it again
    while they make its gradient, and sum that over the ranks while they make their weights'
    gradients. Both want the same multiprocessors, so that a share of what is hidden shows all the
    same.
    """
    if phase == "forward" or not (setting.sp and setting.runtime.tp_async):
        return 0.0
    axes = mesh_axes(setting)
    hidden: Number = 0.0
    for entry in operations:
        if not any(c.kind == "all_gather" and c.phase == "forward" for c in entry.collectives):
            continue
        readers = _readers(entry, operations)
        late = total(weight_seconds(setting, rate, reader) for reader in readers)
        early = total(backward_seconds(setting, rate, reader) for reader in readers) - late
        for collective in entry.collectives:
            if readers and collective.phase == phase and collective.axis == "tp":
                seconds = collective_seconds(collective, axes["tp"], cluster)
                beside = early if collective.kind == "all_gather" else late
                hidden = hidden + minimum(seconds, beside)
    return (1.0 - constants.OVERLAP_LEAK) * hidden


def _readers(entry: Operation, operations: Operations) -> Operations:
    """The products that read what entering a tensor-parallel region has gathered."""
    names = {tensor.name for tensor in entry.outputs}
    return tuple(
        op for op in operations if op.kind == "matmul" and op.inputs and op.inputs[0].name in names
    )

"""Buckets of gradients: how many collectives reduce the gradients of a stage."""

from __future__ import annotations

from tonnage.algebra import Number, maximum, minimum, total
from tonnage.dtype import dtype
from tonnage.ledger import Operations, StageLedger
from tonnage.ledger.data_parallel import AXES
from tonnage.ledger.joined import parameter
from tonnage.ledger.operation import Weight, weights_of
from tonnage.ledger.piece import RECOMPUTE, by_piece
from tonnage.plan import Setting


def buckets(setting: Setting, ledger: StageLedger, axis: str) -> Number:
    """Buckets that a stage's gradients fill, one at least.

    Args:
        setting: the run; its runtime's buckets have a size (`Runtime.reduce_bytes`).
        ledger: the stage.
        axis: whose replicas reduce them.
    """
    group = _group(axis)
    filled = (count * _filled(setting, piece, group) for piece, count in ledger.pieces())
    return maximum(total(filled), 1.0)


def parameters(setting: Setting, ledger: StageLedger, axis: str) -> Number:
    """Parameters of a stage that train and that an axis' ranks hold alike."""
    group = _group(axis)
    return total(count * _parameters(setting, piece, group) for piece, count in ledger.pieces())


def _group(axis: str) -> str:
    return "expert" if axis == AXES["expert"] else "dense"


@by_piece(*RECOMPUTE)
def _filled(setting: Setting, operations: Operations, group: str) -> Number:
    """Buckets that the gradients of a piece fill.

    DistributedDataParallel closes a bucket with the parameter that fills it and cuts none
    (``compute_bucket_assignment_by_size``): one that is larger has a bucket of its own. Autograd
    makes a gradient in the format of its weight.
    """
    sizes: dict[str, Number] = {}
    for weight in _trained(operations, group):
        name = parameter(setting, weight)
        size = dtype(setting.precision.weights).storage(weight.numel)
        sizes[name] = sizes.get(name, 0) + size
    return total(minimum(size / setting.runtime.reduce_bytes, 1.0) for size in sizes.values())


@by_piece(*RECOMPUTE)
def _parameters(setting: Setting, operations: Operations, group: str) -> int:
    """Parameters of a piece that train."""
    return len({parameter(setting, weight) for weight in _trained(operations, group)})


def _trained(operations: Operations, group: str) -> list[Weight]:
    return [each for each in weights_of(operations) if each.trains and each.group == group]

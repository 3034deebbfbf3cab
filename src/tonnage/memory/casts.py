"""Copies of weights that torch.autocast keeps until its context ends."""

from __future__ import annotations

from tonnage.algebra import Number, total
from tonnage.dtype import dtype
from tonnage.ledger import StageLedger, Weight
from tonnage.ledger.piece import sum_of
from tonnage.plan import Setting


def cached_casts(setting: Setting, ledger: StageLedger) -> Number:
    """At the loss: a narrow copy of every fp32 weight that trains and enters a product.

    ``at::autocast::cached_cast`` keeps the copies of leaves that need a gradient until the
    outermost context exits, after the loss. Without recomputation autograd keeps the same
    copies, and they count with the activations.
    """
    habits = setting.runtime
    if not habits.autocast or setting.gathers or setting.plan.recompute != "full":
        return 0
    return total(count * sum_of(setting, piece, _cast) for piece, count in ledger.pieces())


def _cast(setting: Setting, weight: Weight) -> Number:
    stored = weight.format or setting.precision.weights
    if not weight.trains or len(weight.shape) < 2 or stored == setting.precision.compute:
        return 0
    if weight.adapter and setting.runtime.adapter_kernel == "fused":
        return 0  # a custom kernel casts by itself
    return dtype(setting.precision.compute).storage(weight.numel)

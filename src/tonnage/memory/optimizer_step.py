"""What the optimizer's step needs beside the states it updates."""

from __future__ import annotations

from tonnage.algebra import Number, ceil_div, largest, where
from tonnage.dtype import dtype
from tonnage.ledger import StageLedger, Weight
from tonnage.ledger.piece import largest_weight
from tonnage.memory.gradients import made_bytes
from tonnage.memory.states import States, device_share, sharded
from tonnage.plan import Setting


def step_temporaries(setting: Setting, ledger: StageLedger, held: States) -> Number:
    """What the optimizer step needs beside the states.

    A foreach step makes one list of temporaries as large as what it updates (PyTorch's
    multi-tensor AdamW: the square roots of the second moments).
    """
    recipe = setting.precision
    temporaries: Number = 0
    if setting.plan.offload_parameters:
        return 0
    if setting.plan.optimizer_in_backward:
        pieces = ledger.pieces()
        return largest(largest_weight(setting, piece, made_bytes) for piece, _ in pieces)
    if setting.runtime.optimizer_step == "foreach":
        lists = setting.runtime.step_lists
        temporaries = lists * sharded(setting, ledger.pieces(), _stepped_bytes, setting.zero >= 1)
    if recipe.master and _narrower(recipe.gradients, recipe.master) and not recipe.accumulation:
        # Narrow gradients are copied to the master's format for the step.
        copied = sharded(setting, ledger.pieces(), _widened_bytes, setting.zero >= 1)
        temporaries = temporaries + copied
    temporaries = device_share(setting, temporaries)
    if setting.runtime.step_copies and setting.zero == 1:
        # The shard is copied, too, before it is gathered.
        copies = setting.runtime.step_copies * held.parameters
        copies = copies + ceil_div(held.parameters, setting.shard)
        temporaries = temporaries + where(setting.replicas > 1, copies, 0)
    return temporaries


def _narrower(one: str, other: str) -> bool:
    """Whether a number format has fewer bits than another."""
    return dtype(one).bytes < dtype(other).bytes


def _stepped_bytes(setting: Setting, weight: Weight) -> Number:
    """One temporary of the format that the optimizer steps a weight in."""
    recipe = setting.precision
    each = weight.format or recipe.master or recipe.weights
    return dtype(each).storage(weight.numel) if weight.trains else 0


def _widened_bytes(setting: Setting, weight: Weight) -> Number:
    """The gradient of one weight in the master's format."""
    return weight.numel * dtype(setting.precision.master or "fp32").bytes if weight.trains else 0

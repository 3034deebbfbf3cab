"""The optimizer: bytes of its states, and the traffic and temporaries of its step."""

from __future__ import annotations

from tonnage.algebra import Number, ceil_div, where
from tonnage.dtype import dtype
from tonnage.ledger.operation import Weight
from tonnage.plan import Setting
from tonnage.plan.optimizer import StateRule

BLOCK = 256
"""Elements that share an fp32 scale in 8-bit Adam (bitsandbytes from 0.44 on; 2048 before)."""

SMALLEST_QUANTISED = 4096
"""Tensors below this many elements keep fp32 states in 8-bit Adam (bitsandbytes)."""


SMALLEST_PAGED = 100_000
"""Tensors from this many elements on have paged states (bitsandbytes ``Optimizer2State``)."""


def state_bytes(setting: Setting, weight: Weight) -> Number:
    """Bytes of all optimizer states of one weight, before ZeRO shards them."""
    if not weight.trains:
        return 0
    size = sum(_one_state(rule, setting, weight) for _, rule in setting.optimizer.states)
    return where(weight.numel >= SMALLEST_PAGED, 0, size) if setting.optimizer.paged else size


def _one_state(rule: StateRule, setting: Setting, weight: Weight) -> Number:
    moment = dtype(weight.format or setting.precision.moments)
    matrix = len(weight.shape) == 2
    hidden_matrix = matrix and not weight.embedding
    if rule == "factored" and matrix:
        rows, columns = weight.shape
        return moment.storage((rows + columns) * weight.copies)
    if rule == "blockwise8":
        numel = weight.numel
        return where(numel < SMALLEST_QUANTISED, 4 * numel, numel + 4 * ceil_div(numel, BLOCK))
    if (rule == "hidden_matrices" and not hidden_matrix) or (rule == "rest" and hidden_matrix):
        return 0
    return moment.storage(weight.numel)


def step_traffic(setting: Setting, weight: Weight) -> Number:
    """Bytes that a fused step reads and writes for one weight, before ZeRO shards them.

    The gradient is read; the states and the master (or, without one, the weight) are read
    and written; with a master, the weight is written.
    """
    if not weight.trains:
        return 0
    recipe = setting.precision
    gradient = dtype(recipe.accumulation or recipe.gradients).bytes
    weights = dtype(recipe.weights).bytes
    master = 2 * dtype(recipe.master).bytes + weights if recipe.master else 2 * weights
    return weight.numel * (gradient + master) + 2 * state_bytes(setting, weight)

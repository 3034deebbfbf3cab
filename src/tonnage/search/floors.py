"""What a plan cannot be below, found with a part of the work of weighing it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tonnage.algebra import Number, largest, maximum
from tonnage.arch import Architecture
from tonnage.cluster import Cluster
from tonnage.estimation import Limits
from tonnage.ledger import StageLedger
from tonnage.memory.alive import live_activations
from tonnage.memory.states import passing_gradients, states
from tonnage.plan import Setting
from tonnage.search.group import Group
from tonnage.search.parts import Part, parts
from tonnage.timing.kernel import rates
from tonnage.timing.stage import layer_times, working_seconds

ROUNDING = 1e-12
"""Share by which a sum of seconds can be larger when it is summed in another order."""


def memory_floor(architecture: Architecture, group: Group, cluster: Cluster) -> NDArray[np.int64]:
    """Bytes that the tensors of the worst stage take at the least, by plan.

    The states in the optimizer's step, or while layers run the states that are there and the
    activations of the micro-batches in flight: no buffers, logits or temporaries.

    Raises:
        InputError, NotModelledError: as `tonnage.search.evaluate.evaluate`.
    """
    found = np.empty(len(group), np.int64)
    for part in parts(architecture, group, cluster):
        held = [_held(part.setting, ledger) for ledger, _ in part.runs()]
        found[part.where] = largest(held)
    return found


def _held(setting: Setting, ledger: StageLedger) -> Number:
    own = states(setting, ledger)
    weights = own.parameters + own.master_weights
    gradients = own.gradients - passing_gradients(setting, ledger)
    there = gradients if setting.runtime.gradient_buffer == "persistent" else 0
    steady = own.optimizer_states if setting.plan.iteration == "steady" else 0
    running = live_activations(setting, ledger) + there + steady
    return weights + maximum(gradients + own.optimizer_states, running)


def seconds_floor(
    architecture: Architecture, group: Group, cluster: Cluster, limits: Limits | None = None
) -> NDArray[np.float64]:
    """Seconds that a step takes at the least, by plan.

    The passes of the slowest stage, and of those before it once: no sends between stages, no
    data-parallel traffic, no optimizer.

    Raises:
        InputError, NotModelledError: as `tonnage.search.evaluate.evaluate`.
    """
    found = np.empty(len(group))
    for part in parts(architecture, group, cluster):
        found[part.where] = _busy(part, cluster, limits or Limits()) * (1 - ROUNDING)
    return found


def _busy(part: Part, cluster: Cluster, limits: Limits) -> Number:
    setting = part.setting
    rate = rates(setting, cluster.device, limits.efficiency)
    runs = part.runs()
    layers = layer_times(setting, [ledger for ledger, _ in runs], cluster, rate)
    works = [
        (working_seconds(setting, ledger, layers, cluster, rate), count) for ledger, count in runs
    ]
    slowest = largest(work for work, _ in works)
    before: Number = 0.0
    times: list[Number] = []
    for work, count in works:
        # The last of a run of equal stages waits longest for its first micro-batch.
        before = before + (count - 1) * work
        times.append(before + setting.grad_acc * work)
        before = before + work
    if setting.plan.schedule == "1f1b":
        return largest(times)
    # At the end of the loop all stages lie before: one pass through the whole pipeline.
    return setting.grad_acc * slowest + (before - slowest) / setting.plan.vpp

"""Seconds of data-parallel traffic that nothing hides, and of the optimizer's step."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Final

from tonnage.algebra import Number, ceil_div, largest, maximum, minimum, total
from tonnage.cluster import Cluster
from tonnage.dtype import dtype
from tonnage.ledger import StageLedger
from tonnage.ledger.operation import Phase
from tonnage.ledger.optimizer import step_traffic
from tonnage.ledger.piece import sum_of, trained_numel, weight_sums
from tonnage.plan import Setting
from tonnage.timing import constants
from tonnage.timing.collective import collective_seconds
from tonnage.timing.kernel import Rates
from tonnage.timing.passes import verification_seconds
from tonnage.timing.stage import StageTime
from tonnage.timing.traffic import Traffic

PHASES: Final[tuple[Phase, ...]] = ("forward", "backward")


def exposed_data_parallel(
    setting: Setting, ledger: StageLedger, stage: StageTime, cluster: Cluster
) -> Number:
    """Gradient and parameter traffic that compute does not hide.

    What happens once a step hides behind one micro-batch's pass, what happens in every
    micro-batch behind each. Of what is hidden, a share shows all the same.
    """
    windows = {"forward": stage.forward, "backward": stage.backward + stage.recompute}
    exposed: Number = 0.0
    for phase in PHASES:
        items = [t for t in stage.replicas if t.collective.phase == phase]
        busy = exchange_seconds(setting, ledger, items, cluster)
        busy = busy + total(verification_seconds(setting, item, cluster) for item in items)
        window = largest(item.count for item in items) * windows[phase]
        exposed = exposed + left_over(setting, phase, busy, window)
    return exposed


def left_over(setting: Setting, phase: Phase, busy: Number, window: Number) -> Number:
    """What shows of so many seconds of traffic beside so many seconds of compute."""
    habits = setting.runtime
    at_end = setting.zero == 1 and habits.sharded_reduce == "all-reduce"
    hides = {
        "forward": habits.overlap_param_gather,
        "backward": habits.overlap_grad_reduce and not at_end,
    }
    if not hides[phase]:
        return busy
    leak = constants.PREFETCH_LEAK if setting.zero == 3 else constants.OVERLAP_LEAK
    return maximum(busy - window, 0.0) + leak * minimum(busy, window)


def exchange_seconds(
    setting: Setting, ledger: StageLedger, items: Iterable[Traffic], cluster: Cluster
) -> Number:
    """All of some traffic of a stage, in pieces: a bucket for each layer."""
    layers = max(len(ledger.stage.layers), 1)
    bucket = setting.runtime.reduce_bytes
    seconds: Number = 0.0
    for item in items:
        pieces = ceil_div(item.collective.bytes, bucket) if bucket and setting.zero == 0 else layers
        pieces = maximum(pieces, 1)
        piece = dataclasses.replace(item.collective, bytes=item.collective.bytes / pieces)
        once = collective_seconds(piece, item.axis, cluster)
        seconds = seconds + item.count * pieces * once
    return seconds


def optimizer_seconds(setting: Setting, ledger: StageLedger, rate: Rates) -> Number:
    """The step's memory traffic over bandwidth, on this rank's shard of the states.

    Beside the step itself, the gradients are cleared, all that the rank holds of them.
    """
    sums: dict[str, Number] = {"dense": 0, "expert": 0}
    cleared: Number = 0
    recipe = setting.precision
    gradient = dtype(recipe.accumulation or recipe.gradients).bytes
    for piece, count in ledger.pieces():
        for (group, _), moved in weight_sums(setting, piece, step_traffic).items():
            sums[group] = sums[group] + count * moved
        if setting.zero < 2:
            cleared = cleared + count * gradient * sum_of(setting, piece, trained_numel)
    if setting.zero >= 1:
        shares = (setting.shard, setting.expert_shard)
        sums = {
            group: ceil_div(sums[group], share)
            for group, share in zip(("dense", "expert"), shares, strict=True)
        }
    stepped = (1.0 - setting.plan.offload_optimizer) * total(sums.values())
    return (stepped + cleared) / rate.memory

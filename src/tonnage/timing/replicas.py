"""Seconds of data-parallel traffic that nothing hides, and of the optimizer's step."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
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
from tonnage.timing.host_memory import NO_COPIES, steps_on_host, unit_copies
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
    exposed: Number = 0.0
    for _, busy, window in _passes(setting, ledger, stage, cluster):
        exposed = exposed + left_over(setting, busy, window)
    return exposed


def left_over(setting: Setting, busy: Number, window: Number) -> Number:
    """What shows of so many seconds of traffic beside so many seconds that may hide it."""
    leak = constants.PREFETCH_LEAK if setting.zero == 3 else constants.OVERLAP_LEAK
    return maximum(busy - window, 0.0) + leak * minimum(busy, window)


def exposed_units(
    setting: Setting, ledger: StageLedger, stage: StageTime, cluster: Cluster
) -> Number:
    """Copies of parameters and gradients to and from the host's memory that nothing hides.

    A unit's parameters come before they are gathered, its gradients leave once they are
    reduced, one unit ahead at most: copies have what those collectives leave of a pass, and
    what copies of activations leave of the link.
    """
    copies = unit_copies(setting, ledger, cluster)
    if copies is NO_COPIES:
        return 0.0
    exposed: Number = 0.0
    for phase, busy, window in _passes(setting, ledger, stage, cluster):
        taken = maximum(busy, setting.turns * stage.away)
        exposed = exposed + maximum(copies[phase] - maximum(window - taken, 0.0), 0.0)
    return exposed


def _passes(
    setting: Setting, ledger: StageLedger, stage: StageTime, cluster: Cluster
) -> Iterator[tuple[Phase, Number, Number]]:
    """Each pass with the seconds of its collectives in a step, and those that may hide them."""
    windows = {"forward": stage.forward, "backward": stage.backward + stage.recompute}
    for phase in PHASES:
        items = [t for t in stage.replicas if t.collective.phase == phase]
        busy = exchange_seconds(setting, ledger, items, cluster)
        busy = busy + total(verification_seconds(setting, item, cluster) for item in items)
        count = largest(item.count for item in items)
        yield phase, busy, count * windows[phase] if hides(setting, phase) else 0.0


def hides(setting: Setting, phase: Phase) -> bool:
    """Whether compute of a pass may hide what replicas exchange in it."""
    habits = setting.runtime
    if phase == "forward":
        return habits.overlap_param_gather
    at_end = setting.zero == 1 and habits.sharded_reduce == "all-reduce"
    return habits.overlap_grad_reduce and not at_end


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
    stepped = (1.0 - steps_on_host(setting)) * total(sums.values())
    return (stepped + cleared) / rate.memory

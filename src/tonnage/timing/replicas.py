"""Seconds of data-parallel traffic that nothing hides, and of the optimizer's step."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Final

from tonnage.algebra import Number, ceil_div, largest, maximum, minimum, total, where
from tonnage.cluster import Cluster
from tonnage.dtype import dtype
from tonnage.ledger import StageLedger
from tonnage.ledger.operation import Phase
from tonnage.ledger.optimizer import step_traffic
from tonnage.ledger.piece import sum_of, trained_numel, weight_sums
from tonnage.plan import Setting
from tonnage.timing import constants
from tonnage.timing.buckets import buckets, parameters
from tonnage.timing.collective import collective_seconds
from tonnage.timing.host_memory import NO_COPIES, steps_on_host, unit_copies
from tonnage.timing.kernel import Rates
from tonnage.timing.stage import StageTime
from tonnage.timing.traffic import Traffic
from tonnage.timing.verification import verification_seconds

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
        busy = busy + _host_seconds(setting, ledger, items, cluster)
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
    """All of some traffic of a stage, one collective after the other."""
    seconds: Number = 0.0
    for item in items:
        _, pieces = _pieces(setting, ledger, item.collective.axis)
        piece = dataclasses.replace(item.collective, bytes=item.collective.bytes / pieces)
        seconds = seconds + item.count * pieces * collective_seconds(piece, item.axis, cluster)
    return seconds


def _host_seconds(
    setting: Setting, ledger: StageLedger, items: Iterable[Traffic], cluster: Cluster
) -> Number:
    """What the host adds to some traffic: checks of the calls, and copies of what was gathered."""
    seconds: Number = 0.0
    for item in items:
        calls, _ = _pieces(setting, ledger, item.collective.axis)
        called = dataclasses.replace(item, count=item.count * calls)
        seconds = seconds + verification_seconds(setting, called, cluster)
        if item.collective.kind == "all_gather" and setting.runtime.gathered_slices:
            seconds = seconds + _sorted_seconds(setting, ledger, item)
    return seconds


def exchanged_by_layer(setting: Setting) -> bool:
    """Whether each layer's replicas exchange by themselves: not in buckets, nor all at once."""
    habits = setting.runtime
    bucketed = setting.zero == 0 and bool(habits.reduce_bytes)
    return not bucketed and not (setting.zero == 1 and habits.sharded_reduce == "all-reduce")


def _pieces(setting: Setting, ledger: StageLedger, axis: str) -> tuple[Number, Number]:
    """In how many calls an axis' replicas exchange their tensors, and in how many collectives.

    Replicated gradients go in buckets where the stack has them. What is reduced whole once
    backward is over is gathered whole, too. Else each layer has its own, which are not told from
    one call (`Runtime.verified_collectives`).
    """
    habits = setting.runtime
    if exchanged_by_layer(setting):
        return 1, max(len(ledger.stage.layers), 1)
    if setting.zero == 1:
        return 1, 1
    calls = buckets(setting, ledger, axis)
    if habits.bucket_tensors == "one":
        return calls, calls
    return calls, maximum(parameters(setting, ledger, axis), 1)


def _sorted_seconds(setting: Setting, ledger: StageLedger, item: Traffic) -> Number:
    """The host copies each rank's slice of each gathered parameter where it belongs."""
    slices = item.axis.size * parameters(setting, ledger, item.collective.axis)
    return where(item.axis.size > 1, constants.HOST_SLICE * slices, 0.0)


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

"""Seconds of data-parallel traffic that nothing hides, and of the optimizer's step."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from tonnage.algebra import Number, ceil_div, largest, maximum, minimum, total, where
from tonnage.cluster import Cluster
from tonnage.dtype import dtype
from tonnage.ledger import StageLedger
from tonnage.ledger.optimizer import step_traffic
from tonnage.ledger.piece import sum_of, trained_numel, weight_sums
from tonnage.plan import Setting
from tonnage.timing import constants
from tonnage.timing.buckets import buckets, parameters
from tonnage.timing.collective import collective_seconds
from tonnage.timing.kernel import Rates
from tonnage.timing.stage import StageTime
from tonnage.timing.traffic import Traffic
from tonnage.timing.verification import verification_seconds


def exposed_data_parallel(
    setting: Setting, ledger: StageLedger, stage: StageTime, cluster: Cluster
) -> Number:
    """Gradient and parameter traffic that compute does not hide.

    What happens once a step hides behind one micro-batch's pass, what happens in every
    micro-batch behind each. Of what is hidden, a share shows all the same.
    """
    habits = setting.runtime
    at_end = setting.zero == 1 and habits.sharded_reduce == "all-reduce"
    hides = {
        "forward": habits.overlap_param_gather,
        "backward": habits.overlap_grad_reduce and not at_end,
    }
    leak = constants.PREFETCH_LEAK if setting.zero == 3 else constants.OVERLAP_LEAK
    windows = {"forward": stage.forward, "backward": stage.backward + stage.recompute}
    exposed: Number = 0.0
    for phase in ("forward", "backward"):
        items = [t for t in stage.replicas if t.collective.phase == phase]
        busy = _seconds(setting, ledger, items, cluster)
        if not hides[phase]:
            exposed = exposed + busy
            continue
        window = largest(item.count for item in items) * windows[phase]
        hidden = minimum(busy, window)
        exposed = exposed + maximum(busy - window, 0.0) + leak * hidden
    return exposed


def _seconds(
    setting: Setting, ledger: StageLedger, items: Iterable[Traffic], cluster: Cluster
) -> Number:
    """All of them, one after the other."""
    seconds: Number = 0.0
    for item in items:
        calls, pieces = _pieces(setting, ledger, item.collective.axis)
        piece = dataclasses.replace(item.collective, bytes=item.collective.bytes / pieces)
        once = collective_seconds(piece, item.axis, cluster)
        called = dataclasses.replace(item, count=item.count * calls)
        seconds = seconds + item.count * pieces * once
        seconds = seconds + verification_seconds(setting, called, cluster)
        if item.collective.kind == "all_gather" and setting.runtime.gathered_slices:
            seconds = seconds + _sorted_seconds(setting, ledger, item)
    return seconds


def _pieces(setting: Setting, ledger: StageLedger, axis: str) -> tuple[Number, Number]:
    """In how many calls an axis' replicas exchange their tensors, and in how many collectives.

    Replicated gradients go in buckets where the stack has them. What is reduced whole once
    backward is over is gathered whole, too. Else each layer has its own, which are not told from
    one call (`Runtime.verified_collectives`).
    """
    habits = setting.runtime
    if setting.zero == 0 and habits.reduce_bytes:
        calls = buckets(setting, ledger, axis)
        if habits.bucket_tensors == "one":
            return calls, calls
        return calls, maximum(parameters(setting, ledger, axis), 1)
    if setting.zero == 1 and habits.sharded_reduce == "all-reduce":
        return 1, 1
    return 1, max(len(ledger.stage.layers), 1)


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
    stepped = (1.0 - setting.plan.offload_optimizer) * total(sums.values())
    return (stepped + cleared) / rate.memory

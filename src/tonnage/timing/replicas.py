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
from tonnage.timing.buckets import buckets, weights_reduced
from tonnage.timing.collective import collective_seconds
from tonnage.timing.kernel import Rates
from tonnage.timing.passes import verification_seconds
from tonnage.timing.stage import StageTime
from tonnage.timing.traffic import Traffic


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
    """All of them, in pieces: a bucket, or a layer's."""
    layers = max(len(ledger.stage.layers), 1)
    bucketed = setting.runtime.reduce_bytes > 0 and setting.zero == 0
    seconds: Number = 0.0
    for item in items:
        calls = buckets(setting, ledger, item.axis.name) if bucketed else 1
        whole = setting.zero == 1 and setting.runtime.sharded_reduce == "all-reduce"
        pieces = calls if bucketed else 1 if whole else layers
        if bucketed and setting.runtime.name == "nanotron":
            pieces = weights_reduced(setting, ledger, item.axis.name)
        piece = dataclasses.replace(item.collective, bytes=item.collective.bytes / pieces)
        once = collective_seconds(piece, item.axis, cluster)
        if item.collective.kind == "all_gather" and setting.runtime.name == "nanotron":
            slices = weights_reduced(setting, ledger, item.axis.name) * item.axis.size
            seconds = seconds + where(item.axis.size > 1, slices * constants.HOST_SLICE, 0.0)
        each = dataclasses.replace(item, count=item.count * calls)
        checked = verification_seconds(setting, each, cluster)
        seconds = seconds + item.count * pieces * once + checked
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

"""One plan on clusters of several sizes: strong scaling (the same batch) or weak (more of it)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tonnage.arch import Architecture
from tonnage.cluster import Cluster
from tonnage.errors import InputError
from tonnage.estimation import Estimate, Limits, estimate
from tonnage.estimation.limits import limits_of
from tonnage.plan import Plan
from tonnage.plan.nouns import check_clusters, check_nouns


@dataclass(frozen=True, kw_only=True)
class ScalePoint:
    """A plan on one cluster of the list.

    Attributes:
        gpus: devices.
        device: their name.
        gbs: sequences in a step; None where the plan cannot run.
        answer: the estimate; None where the plan cannot run.
        efficiency: tokens per second of one device, over the first cluster's.
        refused: why the plan cannot run here; empty where it can.
    """

    gpus: int
    device: str
    gbs: int | None
    answer: Estimate | None
    efficiency: float | None
    refused: str

    def to_dict(self) -> dict[str, Any]:
        """The point as JSON takes it: SI bytes and seconds."""
        found: dict[str, Any] = {
            "gpus": self.gpus,
            "device": self.device,
            "gbs": self.gbs,
            "efficiency": self.efficiency,
            "refused": self.refused or None,
        }
        if self.answer is not None:
            step, memory = self.answer.step, self.answer.memory
            found |= {
                "dp": self.answer.plan.dp,
                "grad_acc": self.answer.plan.grad_acc,
                "seconds": step.seconds,
                "tokens_per_second": step.tokens_per_second,
                "tokens_per_second_per_gpu": step.tokens_per_second_per_gpu,
                "mfu": step.mfu,
                "mfu_causal": step.mfu_causal,
                "peak_bytes": memory.peak_bytes.device,
                "capacity_bytes": memory.capacity_bytes,
                "fits": self.answer.fits,
                "run": None if self.answer.run is None else dataclasses.asdict(self.answer.run),
            }
        return found


def scaling(
    architecture: Architecture,
    plan: Plan,
    clusters: Sequence[Cluster],
    limits: Limits | None = None,
    *,
    weak: bool = False,
    prices: Mapping[str, float] | None = None,
) -> tuple[ScalePoint, ...]:
    """Estimate a plan on each cluster; data parallelism takes what the other degrees leave.

    Args:
        architecture: what is trained.
        plan: the degrees that stay; ``dp`` and ``grad_acc`` follow from the cluster.
        clusters: in the order of the table; efficiency is over the first.
        limits: as for an estimate.
        weak: the global batch grows with the devices, instead of staying.
        prices: money for a GPU-hour by the device's name, ``""`` for every other; over the
            limits' own.

    Raises:
        InputError: the plan cannot run on the first cluster, or says what follows from each.
    """
    check_nouns(architecture=architecture, plan=plan)
    check_clusters(clusters)
    for field in ("dp", "grad_acc"):
        if getattr(plan, field) is not None:
            raise InputError(
                field=field,
                value=getattr(plan, field),
                problem="follows from the number of GPUs",
                accepted=f"leave {field} out, and give gbs",
            )
    within = [_priced(limits_of(limits), prices or {}, each) for each in clusters]
    first = estimate(architecture, plan, clusters[0], within[0])
    points = [_point(clusters[0], first, first)]
    for cluster, own in zip(clusters[1:], within[1:], strict=True):
        batch = first.plan.gbs or 1
        try:
            if weak:
                batch = _grown(batch, clusters[0].gpus, cluster.gpus)
            changed = dataclasses.replace(plan, gbs=batch)
            answer = estimate(architecture, changed, cluster, own)
        except InputError as error:
            points.append(_refused(cluster, error))
        else:
            points.append(_point(cluster, answer, first))
    return tuple(points)


def _priced(limits: Limits, prices: Mapping[str, float], cluster: Cluster) -> Limits:
    price = prices.get(cluster.device.name, prices.get("", limits.price))
    return dataclasses.replace(limits, price=price)


def _grown(batch: int, before: int, after: int) -> int:
    """The batch of the first cluster, grown with the number of devices.

    Raises:
        InputError: that is no whole number of sequences.
    """
    if batch * after % before:
        raise InputError(
            field="gbs",
            value=batch,
            problem=f"times {after} GPUs over {before} is no whole number",
            accepted=f"a multiple of {before}",
        )
    return batch * after // before


def _point(cluster: Cluster, answer: Estimate, first: Estimate) -> ScalePoint:
    per_gpu = answer.step.tokens_per_second_per_gpu
    return ScalePoint(
        gpus=cluster.gpus,
        device=cluster.device.name,
        gbs=answer.plan.gbs,
        answer=answer,
        efficiency=per_gpu / first.step.tokens_per_second_per_gpu,
        refused="",
    )


def _refused(cluster: Cluster, error: InputError) -> ScalePoint:
    return ScalePoint(
        gpus=cluster.gpus,
        device=cluster.device.name,
        gbs=None,
        answer=None,
        efficiency=None,
        refused=error.message,
    )

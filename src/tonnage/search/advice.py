"""What would shorten a step: rules over its largest parts, each tried before it is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tonnage.arch import Architecture
from tonnage.cluster import Cluster, host_of
from tonnage.estimation import Estimate, Limits
from tonnage.mesh import axes, axis_link
from tonnage.plan import Plan
from tonnage.search.changes import Change, weigh

WORTH: Final = 0.01
"""Share of a step: what is smaller is not looked at, and what saves less is not told."""

PARTS: Final = 2
"""Parts that are looked at: the largest, and the largest that is not compute."""

TOLD: Final = 3
"""Changes that are told at most."""

NARROWER: Final = {"fp8": "fp8", "fp4": "nvfp4"}
"""Recipes with narrower products, by the peak that a device must have for them."""

Move: TypeAlias = tuple[dict[str, Any], str]


@dataclass(frozen=True, kw_only=True)
class Advice:
    """A change that shortens a step, found from one of its parts.

    Attributes:
        part: the part that it was looked for.
        share: that part's share of the step.
        why: what makes the part as large as it is.
        change: the change, weighed.
    """

    part: str
    share: float
    why: str
    change: Change

    def to_dict(self) -> dict[str, Any]:
        """The advice as JSON takes it."""
        return {
            "part": self.part,
            "share": self.share,
            "why": self.why,
            **self.change.to_dict(),
        }


def advice(
    architecture: Architecture,
    cluster: Cluster,
    before: Estimate,
    limits: Limits | None = None,
) -> tuple[Advice, ...]:
    """Changes that shorten a step and fit, the largest saving first; each has been estimated.

    Args:
        architecture: what is trained.
        cluster: on what.
        before: the estimate of the plan as it is.
        limits: as for the estimate.
    """
    found: dict[str, Advice] = {}
    for part in _parts(before):
        share = before.step.breakdown[part] / before.step.seconds
        for fields, alters in _moves(part, before.plan, cluster):
            change = weigh(architecture, before, cluster, limits, fields, alters)
            if change is None or not change.answer.fits or not change.fields:
                continue
            if -change.seconds < WORTH * before.step.seconds:
                continue
            why = _why(part, before.plan, cluster)
            found.setdefault(
                repr(change.fields), Advice(part=part, share=share, why=why, change=change)
            )
    ordered = sorted(found.values(), key=lambda each: each.change.seconds)
    return tuple(ordered[:TOLD])


def _parts(before: Estimate) -> list[str]:
    """The largest part, and the largest beside compute, where they are worth a look."""
    sizes = sorted(before.step.breakdown.items(), key=lambda item: -item[1])
    worth = [name for name, size in sizes if size >= WORTH * before.step.seconds]
    beside = [name for name in worth if name != "compute"]
    return list(dict.fromkeys([*worth[:1], *beside[:1]]))[:PARTS]


def _moves(part: str, plan: Plan, cluster: Cluster) -> Iterator[Move]:
    """Fields to change for the sake of one part, and what else each alters of the training."""
    yield from _RULES[part](plan, cluster)


def _compute(plan: Plan, cluster: Cluster) -> Iterator[Move]:
    """Fuller kernels, fused ones, or narrower products."""
    yield {"mbs": plan.mbs * 2}, ""
    yield from _halved(plan, "tp")
    if not plan.compile:
        yield {"compile": True}, ""
    for peak, recipe in NARROWER.items():
        if peak in cluster.device.peak and plan.precision == "bf16-mixed":
            yield {"precision": recipe}, f"products are made in {recipe}"


def _recompute(plan: Plan, cluster: Cluster) -> Iterator[Move]:
    del cluster
    yield {"recompute": "none"}, ""
    if plan.recompute == "full":
        yield {"recompute": "selective"}, ""


def _tensor(plan: Plan, cluster: Cluster) -> Iterator[Move]:
    """Smaller groups, down to one domain, and collectives that run beside the products."""
    yield from _halved(plan, "tp")
    if plan.tp > cluster.scale_up_domain:
        inside = cluster.scale_up_domain
        yield {"tp": inside}, ""
        yield {"tp": inside, "pp": plan.pp * (plan.tp // inside)}, ""
    if not plan.tp_comm_overlap:
        yield {"tp_comm_overlap": True}, ""


def _context(plan: Plan, cluster: Cluster) -> Iterator[Move]:
    del cluster
    yield from _halved(plan, "cp")


def _expert(plan: Plan, cluster: Cluster) -> Iterator[Move]:
    yield from _halved(plan, "ep")
    if plan.ep > cluster.scale_up_domain:
        yield {"ep": cluster.scale_up_domain}, ""
    if (plan.etp or 1) > 1:
        yield {"etp": 1}, ""


def _bubble(plan: Plan, cluster: Cluster) -> Iterator[Move]:
    """More and smaller pieces, or fewer stages."""
    del cluster
    yield {"vpp": plan.vpp * 2}, ""
    if plan.mbs % 2 == 0:
        yield {"mbs": plan.mbs // 2}, ""
    yield from _halved(plan, "pp")


def _sends(plan: Plan, cluster: Cluster) -> Iterator[Move]:
    del cluster
    yield from _halved(plan, "vpp")
    yield from _halved(plan, "pp")


def _data(plan: Plan, cluster: Cluster) -> Iterator[Move]:
    """Traffic that runs beside the compute, less of it, or a larger batch over it."""
    yield {"overlap_grad_reduce": True, "overlap_param_gather": True}, ""
    yield {"mbs": plan.mbs * 2}, ""
    for stage in range(plan.zero or 0):
        yield {"zero": stage}, ""
    if plan.zero == 3 and plan.hsdp_shard is None:
        yield {"hsdp_shard": cluster.scale_up_domain}, ""


def _optimizer(plan: Plan, cluster: Cluster) -> Iterator[Move]:
    del cluster
    if plan.zero == 0:
        yield {"zero": 1}, ""


def _host(plan: Plan, cluster: Cluster) -> Iterator[Move]:
    """Less to issue, or more to do for each issue."""
    del cluster
    if not plan.cuda_graphs:
        yield {"cuda_graphs": True}, ""
    if not plan.compile:
        yield {"compile": True}, ""
    yield {"mbs": plan.mbs * 2}, ""


def _offload(plan: Plan, cluster: Cluster) -> Iterator[Move]:
    """Less on the host, or a larger batch over each copy."""
    del cluster
    for field in ("offload_parameters", "offload_activations"):
        if getattr(plan, field):
            yield {field: False}, ""
    if plan.offload_optimizer:
        yield {"offload_optimizer": 0.0}, ""
    yield {"mbs": plan.mbs * 2}, ""


def _halved(plan: Plan, axis: str) -> Iterator[Move]:
    degree = getattr(plan, axis) or 1
    if degree % 2 == 0:
        yield {axis: degree // 2}, ""


_RULES: Final = {
    "compute": _compute,
    "recompute": _recompute,
    "tensor_parallel": _tensor,
    "context_parallel": _context,
    "expert_parallel": _expert,
    "pipeline_sends": _sends,
    "pipeline_bubble": _bubble,
    "data_parallel": _data,
    "optimizer": _optimizer,
    "host": _host,
    "offload": _offload,
}
"""What to try for each part of a step (`tonnage.timing.step.PARTS`)."""

_AXES: Final[Mapping[str, str]] = {
    "tensor_parallel": "tp",
    "context_parallel": "cp",
    "expert_parallel": "ep",
    "pipeline_sends": "pp",
    "data_parallel": "dp_cp",
}


def _why(part: str, plan: Plan, cluster: Cluster) -> str:
    """What makes a part as large as it is, in one clause."""
    if part in _AXES:
        return _axis_clause(_AXES[part], plan, cluster)
    clauses = {
        "compute": f"products and kernels of micro-batches of {plan.mbs} x {plan.seq} tokens",
        "recompute": f"recompute {plan.recompute} repeats forward work",
        "pipeline_bubble": f"pp {plan.pp} with vpp {plan.vpp} and {plan.grad_acc} micro-batches",
        "optimizer": f"zero {plan.zero}, over {plan.grad_acc} micro-batches a step",
        "host": "the host issues a layer's work more slowly than the device does it",
        "offload": f"{cluster.gpus_per_node} devices of a host share its memory, and "
        f"{host_of(cluster).link.name} leads there",
    }
    return clauses[part]


def _axis_clause(name: str, plan: Plan, cluster: Cluster) -> str:
    found = axes(tp=plan.tp, cp=plan.cp, dp=plan.dp or 1, pp=plan.pp, ep=plan.ep, etp=plan.etp or 1)
    link = axis_link(found[name], cluster)
    size = int(found[name].size)
    label = f"{name.replace('dp_cp', 'dp')} {size}"
    if link is None:
        return label
    if link is cluster.network:
        return f"{label} crosses domains of {cluster.scale_up_domain}, over {link.name}"
    return f"{label} inside a domain, over {link.name}"

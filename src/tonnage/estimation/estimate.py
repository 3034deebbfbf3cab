"""Architecture + plan + cluster -> estimate: will it fit, how long will it take, and why."""

from __future__ import annotations

from tonnage.algebra import Number
from tonnage.arch import Architecture
from tonnage.cluster import Cluster
from tonnage.dtype import dtype
from tonnage.errors import InputError
from tonnage.estimation.answer import (
    ClusterPart,
    CommunicationPart,
    Estimate,
    FlopsPart,
    LargestPart,
    MemoryPart,
    ModelPart,
    PeakBytes,
    StagePart,
    StepPart,
)
from tonnage.estimation.host_notes import NO_CAPACITY, host_notes
from tonnage.estimation.limits import Limits, limits_of
from tonnage.estimation.run import failure_notes, run_part
from tonnage.ledger import StageLedger, parameters, sequence_flops, stage_ledgers
from tonnage.memory import StageMemory, outside, reserved_by_stage, stage_memory
from tonnage.memory.outside import RESERVED_SHARE, RESERVED_SHARE_WORST
from tonnage.memory.reserved import replays
from tonnage.memory.uncertain import uncertain
from tonnage.mesh import Mesh
from tonnage.plan import Plan, Resolved, Setting, resolve
from tonnage.plan.precision import check_peaks
from tonnage.plan.schedule import OVERLAPPED, SPLITS
from tonnage.timing import Efficiency, StepTime, interval, step_time, sustained_flops
from tonnage.timing.clocks import Costs
from tonnage.timing.constants import EXPERT_HIDDEN
from tonnage.timing.efficiency import measured
from tonnage.timing.stage import stage_traffic


def estimate(
    architecture: Architecture, plan: Plan, cluster: Cluster, limits: Limits | None = None
) -> Estimate:
    """Weigh a run: memory, FLOPs, communication and time.

    Args:
        architecture: what is trained.
        plan: how; blanks are filled in and listed among the assumptions.
        cluster: on what.
        limits: memory limit and margin, length of the run, efficiencies.

    Raises:
        InputError: the plan is impossible, or a figure it needs is not published.
        NotModelledError: it asks for something that is not accounted for.
    """
    limits = limits_of(limits)
    resolved = resolve(plan, architecture, cluster)
    check_peaks(resolved.setting.precision, cluster.device)
    ledgers = stage_ledgers(resolved.setting, resolved.stages)
    memory = _memory(resolved, ledgers, cluster, limits)
    flops = _flops(resolved)
    timed = step_time(resolved.setting, ledgers, cluster, limits.efficiency)
    step = _step(resolved, cluster, flops, timed)
    return Estimate(
        model=_model(architecture),
        cluster=ClusterPart(
            device=cluster.device.name,
            gpus=cluster.gpus,
            nodes=cluster.nodes,
            gpus_per_node=cluster.gpus_per_node,
        ),
        plan=resolved.plan,
        fits=memory.headroom_bytes >= 0,
        fits_by="replay" if replays(resolved.setting) else "closed form",
        memory=memory,
        flops=flops,
        step=step,
        communication=_communication(resolved.setting, ledgers, timed),
        assumptions=(
            *resolved.assumptions,
            *_assumptions(resolved, cluster, limits),
            *failure_notes(limits.failures),
        ),
        not_modelled=_not_modelled(resolved, memory, fails=limits.failures is not None),
        run=run_part(step, resolved.setting, cluster, limits),
    )


def _model(architecture: Architecture) -> ModelPart:
    count = parameters(architecture)
    return ModelPart(
        name=architecture.name,
        family=architecture.family,
        parameters=count.total,
        active_parameters=count.active,
    )


def _memory(
    resolved: Resolved, ledgers: tuple[StageLedger, ...], cluster: Cluster, limits: Limits
) -> MemoryPart:
    setting = resolved.setting
    beyond = outside(setting, cluster.device)
    capacity = usable_bytes(cluster, limits)
    found = [stage_memory(setting, ledger) for ledger in ledgers]
    reserved = reserved_by_stage(
        setting,
        ledgers,
        tuple(found),
        Costs(setting, cluster, limits.efficiency),
        capacity - int(beyond.bytes),
    )
    stages = tuple(
        _stage(resolved, ledger, memory, held, int(beyond.bytes))
        for ledger, memory, held in zip(ledgers, found, reserved, strict=True)
    )
    worst = max(stages, key=lambda stage: stage.peak_bytes.device)
    allocated = worst.peak_bytes.allocated
    down, up = worst.slack_bytes
    return MemoryPart(
        worst_rank=worst.first_rank,
        worst_stage=worst.stage,
        peak_instant=worst.peak_instant,
        peak_bytes=worst.peak_bytes,
        capacity_bytes=capacity,
        headroom_bytes=capacity - worst.peak_bytes.device,
        categories=worst.categories,
        outside_bytes=int(beyond.bytes),
        outside={
            "context": beyond.context,
            "libraries": beyond.libraries,
            "communicators": int(beyond.communicators),
        },
        range_bytes=(
            allocated - down + int(beyond.bytes),
            up
            + max(
                int(allocated * (1 + RESERVED_SHARE_WORST)) + int(beyond.bytes),
                worst.peak_bytes.device,
            ),
        ),
        stages=stages,
    )


def _stage(
    resolved: Resolved, ledger: StageLedger, memory: StageMemory, reserved: int, beyond: int
) -> StagePart:
    plan = resolved.plan
    mesh = Mesh(tp=plan.tp, cp=plan.cp, dp=plan.dp or 1, pp=plan.pp, ep=plan.ep, etp=plan.etp or 1)
    peak = memory.peak
    categories = {name: int(size) for name, size in peak.categories.items()}
    allocated = sum(categories.values())
    return StagePart(
        stage=memory.stage,
        first_rank=mesh.stage_first_rank(memory.stage),
        layers=len(ledger.stage.layers),
        peak_instant=peak.when,
        peak_bytes=PeakBytes(allocated=allocated, reserved=reserved, device=reserved + beyond),
        categories=categories,
        instants={instant.when: int(instant.allocated) for instant in memory.instants},
        unsure={
            each.name: (int(each.below), int(each.above))
            for each in uncertain(resolved.setting, ledger)
        },
    )


def usable_bytes(cluster: Cluster, limits: Limits) -> int:
    """What a run may use of one device: what the driver reports, less limit and margin.

    Raises:
        InputError: the margin leaves nothing.
    """
    usable = cluster.device.usable_bytes
    if limits.memory_limit is not None:
        usable = min(usable, limits.memory_limit)
    margin = limits.margin.of(usable) if limits.margin is not None else 0
    if margin >= usable:
        raise InputError(
            field="margin",
            value=margin,
            problem=f"leaves nothing of {usable} bytes",
            accepted="less than the device's memory",
        )
    return usable - margin


def _flops(resolved: Resolved) -> FlopsPart:
    plan, setting = resolved.plan, resolved.setting
    sequences, tokens = plan.gbs or 1, plan.seq or 1
    square = sequence_flops(setting, resolved.stages, causal=False)
    half = sequence_flops(setting, resolved.stages, causal=True)
    return FlopsPart(
        per_token=square.model / tokens,
        model_per_step=float(square.model * sequences),
        hardware_per_step=float(square.hardware * sequences),
        per_token_causal=half.model / tokens,
        model_per_step_causal=float(half.model * sequences),
        hardware_per_step_causal=float(half.hardware * sequences),
    )


def _step(
    resolved: Resolved,
    cluster: Cluster,
    flops: FlopsPart,
    timed: StepTime,
) -> StepPart:
    setting, plan = resolved.setting, resolved.plan
    seconds = float(timed.seconds)
    peak = cluster.device.peak_flops(setting.precision.matmul, field="precision") * cluster.gpus
    executed = flops.hardware_per_step_causal if setting.causal else flops.hardware_per_step
    bound = executed / peak
    low, high = interval(seconds, timed.parts, experts=setting.architecture.is_moe)
    tokens = (plan.gbs or 1) * (plan.seq or 1)
    return StepPart(
        seconds=seconds,
        lower_bound_seconds=bound,
        range_seconds=(min(max(float(low), bound), seconds), float(high)),
        tokens_per_step=tokens,
        tokens_per_second=tokens / seconds,
        tokens_per_second_per_gpu=tokens / seconds / cluster.gpus,
        mfu=flops.model_per_step / seconds / peak,
        hfu=flops.hardware_per_step / seconds / peak,
        mfu_causal=flops.model_per_step_causal / seconds / peak,
        hfu_causal=flops.hardware_per_step_causal / seconds / peak,
        breakdown={part: float(value) for part, value in timed.parts.items()},
        largest=_largest(timed),
    )


def _largest(timed: StepTime) -> LargestPart:
    part, size = max(timed.parts.items(), key=lambda item: float(item[1]))
    return LargestPart(part=part, seconds=float(size), share=float(size / timed.seconds))


def _communication(
    setting: Setting, ledgers: tuple[StageLedger, ...], timed: StepTime
) -> tuple[CommunicationPart, ...]:
    """The busiest stage of each kind and axis."""
    found: dict[tuple[str, str, int], tuple[Number, Number]] = {}
    for ledger, stage in zip(ledgers, timed.stages, strict=True):
        sums: dict[tuple[str, str, int], tuple[Number, Number]] = {}
        for item in (*stage_traffic(setting, ledger), *stage.replicas):
            if int(item.axis.size) == 1 or item.bytes == 0:
                continue
            key = (str(item.collective.kind), item.axis.name, int(item.axis.size))
            sent, count = sums.get(key, (0, 0))
            sums[key] = (sent + item.bytes, count + item.count)
        for key, pair in sums.items():
            found[key] = max(found.get(key, (0, 0)), pair)
    return tuple(
        CommunicationPart(
            kind=kind, axis=axis, group_size=size, bytes_per_rank=round(sent), count=int(count)
        )
        for (kind, axis, size), (sent, count) in sorted(found.items(), key=lambda kv: -kv[1][0])
    )


def _rate_note(setting: Setting, cluster: Cluster, efficiency: Efficiency) -> str:
    """What products are taken to sustain, and why."""
    name = setting.precision.matmul
    rate = sustained_flops(cluster.device, name, efficiency)
    share = rate / cluster.device.peak_flops(name)
    why = "its ceiling or its power limit"
    if efficiency.compute:
        why = "as asked for"
    elif measured(cluster.device, name, "product_share") is not None:
        why = "as measured on this device"
    return f"products sustain {share:.0%} of dense {name} peak inside a step: {why}"


def _reserved_note(setting: Setting) -> str:
    """How the allocator's memory is found."""
    share = (
        f"reserved memory is allocated plus {RESERVED_SHARE:.0%}, at worst "
        f"{RESERVED_SHARE_WORST:.0%}, for what the allocator cannot reuse, and freed blocks that "
        "nothing asked for around the peak fits into"
    )
    if not replays(setting):
        return share
    return f"the fullest stage's allocations are replayed; where a stage's are not, {share}"


def _assumptions(resolved: Resolved, cluster: Cluster, limits: Limits) -> tuple[str, ...]:
    setting = resolved.setting
    notes = [
        _rate_note(setting, cluster, limits.efficiency),
        "the range of the time should hold nine of ten runs (docs/scoreboard.md)",
        _reserved_note(setting),
        f"a {cluster.device.name} lets a process use {cluster.device.usable_bytes} bytes: "
        f"{cluster.device.source_of('usable_bytes')}",
        f"MFU and HFU are over the dense {dtype(setting.precision.matmul).peak} peak and count "
        "the whole square of attention; the causal figures count half of it",
    ]
    if setting.architecture.is_moe and setting.plan.moe_imbalance == 1.0:
        notes.append("tokens are spread evenly over the experts")
    if setting.plan.packing and setting.plan.document is None:
        notes.append("document not given: packed documents may be as long as the sequence")
    if setting.plan.iteration == "steady":
        notes.append(
            "a later step: optimizer states exist (the first step has none before its end)"
        )
    notes += _schedule_notes(setting)
    notes += host_notes(setting, cluster)
    context = setting.architecture.max_positions
    if context is not None and setting.seq > context:
        notes.append(f"seq {setting.seq} is beyond the context of {context} that the config names")
    return tuple(notes)


def _schedule_notes(setting: Setting) -> list[str]:
    """What is taken for granted of schedules that put weights' gradients off."""
    schedule = setting.plan.schedule
    if schedule not in SPLITS or setting.plan.pp == 1:
        return []
    notes = [
        f"{schedule} puts off the weights' gradients of the layers' products; the embedding, the "
        "head and the norms make theirs at once"
    ]
    if schedule in OVERLAPPED and setting.architecture.is_moe:
        notes.append(
            f"{schedule} hides {EXPERT_HIDDEN:.0%} of the experts' exchange, in the passes that "
            "run alone too"
        )
    return notes


_TIME_ONLY = {
    "compile": "what torch.compile changes in memory: fewer kept tensors, other temporaries "
    "(its time is counted)",
}
"""What a plan may ask for that is accounted for in time and not in memory."""


def _in_bounds(memory: MemoryPart) -> list[str]:
    """What the worst stage's range is wider by."""
    return [
        f"{name} (the range holds {low / 2**30:.2f} GiB less to {high / 2**30:.2f} GiB more)"
        for name, (low, high) in memory.stages[memory.worst_stage].unsure.items()
    ]


def _not_modelled(resolved: Resolved, memory: MemoryPart, *, fails: bool) -> tuple[str, ...]:
    architecture = resolved.setting.architecture
    missing = ["the data loader and logging"]
    if not replays(resolved.setting):
        missing.append("fragmentation by replay of the allocations")
    missing += ["stragglers"] if fails else ["checkpoints", "stragglers and failures"]
    missing += _in_bounds(memory)
    missing += [text for name, text in _TIME_ONLY.items() if getattr(resolved.plan, name)]
    plan = resolved.setting.plan
    if plan.schedule == "dualpipe":
        missing.append("the sum of gradients over DualPipe's two copies of the model")
    if plan.held_on_host:
        missing.append(NO_CAPACITY)
    if architecture.vision is not None:
        missing.append(
            "the vision tower's FLOPs and activations: text tokens only (its weights are counted)"
        )
    if architecture.mtp_layers and not resolved.plan.mtp:
        missing.append(
            f"{architecture.mtp_layers} multi-token-prediction layers that the config names: "
            "not trained"
        )
    if architecture.has_indexer:
        missing.append("the loss that trains an indexer: its weights are held and do not train")
    return tuple(missing)

"""The memory of an estimate: verdict, bytes at the peak, pipeline stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from tonnage.quantity import GIB, format_count, format_percent
from tonnage.report.bars import gauge
from tonnage.report.layout import INDENT, ascii_only, bar_rows, facts, heading, listing, print_block

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.estimation import Estimate


def gib(size: float) -> str:
    """Memory as a column of GiB shows it."""
    return "<0.01" if 0 < size < 0.005 * GIB else f"{size / GIB:.2f}"


def print_verdict(screen: Console, answer: Estimate) -> None:
    """Fits or not, where, when, and how much room is left."""
    memory, cluster, model = answer.memory, answer.cluster, answer.model
    peak, capacity = memory.peak_bytes.device, memory.capacity_bytes
    word, style = ("fits", "green") if answer.fits else ("does not fit", "red")
    active = (
        f", {format_count(model.active_parameters)} active"
        if model.active_parameters != model.parameters
        else ""
    )
    size = f"{format_count(model.parameters)} parameters{active}"
    nodes = f"{cluster.nodes} node{'s' if cluster.nodes > 1 else ''}"
    name = Text.assemble((model.name, "bold"), " ", (word, f"bold {style}"))
    print_block(screen, name + Text(f" on {cluster.gpus} x {cluster.device}"), indent=0)
    for line in (f"{size}; {nodes} of {cluster.gpus_per_node}", plan_line(answer)):
        print_block(screen, Text(line, "dim"), indent=0)
    screen.print()
    print_block(screen, _gauge(screen, peak / capacity, style))
    room = (
        f"headroom {gib(memory.headroom_bytes)} GiB"
        if answer.fits
        else f"{gib(-memory.headroom_bytes)} GiB too much"
    )
    peaks = (f"peak {gib(peak)} of {gib(capacity)} GiB, ", (room, f"bold {style}"))
    print_block(screen, Text.assemble(*peaks, f"; range {_range(answer)} GiB"))
    place = f", stage {memory.worst_stage} of {len(memory.stages)}" if _staged(answer) else ""
    print_block(screen, f"at: {memory.peak_instant}, on rank {memory.worst_rank}{place}")
    if memory.range_bytes[0] <= capacity < memory.range_bytes[1]:
        warning = "too close to call: the range crosses the capacity"
        print_block(screen, Text(warning, "bold yellow"))


def _gauge(screen: Console, share: float, style: str) -> Text:
    """How much of the capacity the peak takes."""
    width = min(screen.width, 80) - 2 * INDENT - len(" 100.0%")
    filled, empty = gauge(share, width, ascii_only=ascii_only(screen))
    return Text.assemble((filled, style), (empty, "dim"), f" {format_percent(share):>6}")


def print_peak(screen: Console, answer: Estimate) -> None:
    """Bytes by category at the peak of the worst rank, and the three counters."""
    memory = answer.memory
    peak = memory.peak_bytes
    heading(screen, f"Memory of rank {memory.worst_rank} at its peak", "GiB, share of device")
    rows = [(name, float(size), gib(size)) for name, size in memory.categories.items()]
    bar_rows(screen, rows, whole=peak.device, style="cyan")
    parts = ", ".join(f"{name} {gib(size)}" for name, size in memory.outside.items())
    screen.print()
    facts(
        screen,
        (
            ("allocated", gib(peak.allocated), "tensors: the sum of the rows above"),
            ("reserved", gib(peak.reserved), "held by the allocator"),
            ("outside", gib(memory.outside_bytes), parts),
            ("device", gib(peak.device), f"reserved + outside; range {_range(answer)}"),
            ("capacity", gib(memory.capacity_bytes), "of one device, less limit and margin"),
        ),
    )


def print_stages(screen: Console, answer: Estimate) -> None:
    """One row a pipeline stage, where there is more than one."""
    if not _staged(answer):
        return
    memory = answer.memory
    heading(screen, "Pipeline stages", "GiB at the peak of each")
    rows = []
    for stage in memory.stages:
        peak = stage.peak_bytes
        style = "bold" if stage.stage == memory.worst_stage else ""
        cells = (
            str(stage.stage),
            str(stage.first_rank),
            str(stage.layers),
            gib(peak.allocated),
            gib(peak.reserved),
            gib(peak.device),
            gib(memory.capacity_bytes - peak.device),
            stage.peak_instant,
        )
        rows.append([Text(cell, style) for cell in cells])
    listing(
        screen,
        (
            ("stage", "right"),
            ("rank", "right"),
            ("layers", "right"),
            ("allocated", "right"),
            ("reserved", "right"),
            ("device", "right"),
            ("headroom", "right"),
            ("peak at", "left"),
        ),
        rows,
    )


def plan_line(answer: Estimate) -> str:
    """What decides most of the answer, in one line."""
    plan = answer.plan
    degrees = {name: getattr(plan, name) for name in ("tp", "pp", "vpp", "cp", "ep", "dp")}
    parts = [f"{name} {size}" for name, size in degrees.items() if size != 1]
    parts += [f"zero {plan.zero}", str(plan.precision), plan.optimizer]
    parts += [f"recompute {plan.recompute}", f"{plan.attention} attention", plan.runtime]
    return ", ".join(parts)


def _staged(answer: Estimate) -> bool:
    return len(answer.memory.stages) > 1


def _range(answer: Estimate) -> str:
    low, high = answer.memory.range_bytes
    return f"{gib(low)} to {gib(high)}"

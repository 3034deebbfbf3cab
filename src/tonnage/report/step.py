"""The step of an estimate: seconds, FLOPs, where the time goes, what is sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tonnage.quantity import (
    format_bytes,
    format_count,
    format_flops,
    format_percent,
    format_seconds,
)
from tonnage.report.layout import bar_rows, facts, heading, listing

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.estimation import Estimate
    from tonnage.estimation.answer import FailuresPart, RunPart


def print_step(screen: Console, answer: Estimate) -> None:
    """Seconds and tokens, then where the seconds go."""
    step = answer.step
    low, high = step.range_seconds
    heading(screen, "Step")
    facts(
        screen,
        (
            (
                "seconds",
                format_seconds(step.seconds),
                f"range {format_seconds(low)} to {format_seconds(high)}; "
                f"at least {format_seconds(step.lower_bound_seconds)}",
            ),
            ("tokens", format_count(step.tokens_per_step), _batch(answer)),
            ("tokens/s", format_count(step.tokens_per_second), ""),
            ("tokens/s/GPU", format_count(step.tokens_per_second_per_gpu), ""),
        ),
    )
    screen.print()
    rows = [(name, size, format_seconds(size)) for name, size in step.breakdown.items()]
    bar_rows(screen, rows, whole=step.seconds, style="magenta")


def _batch(answer: Estimate) -> str:
    plan = answer.plan
    return (
        f"gbs {plan.gbs} = mbs {plan.mbs} · grad_acc {plan.grad_acc} · dp {plan.dp}; seq {plan.seq}"
    )


def print_flops(screen: Console, answer: Estimate) -> None:
    """FLOPs and utilisation under both conventions of attention."""
    flops, step = answer.flops, answer.step
    heading(screen, "FLOPs", "forward and backward, attention counted in full or causally (half)")
    listing(
        screen,
        (("", "left"), ("full", "right"), ("causal", "right"), ("", "left")),
        (
            _pair("per token", flops.per_token, flops.per_token_causal, "model"),
            _pair("model, per step", flops.model_per_step, flops.model_per_step_causal),
            _pair(
                "hardware, per step",
                flops.hardware_per_step,
                flops.hardware_per_step_causal,
                "with recomputation",
            ),
            ("MFU", format_percent(step.mfu), format_percent(step.mfu_causal), "model / peak"),
            ("HFU", format_percent(step.hfu), format_percent(step.hfu_causal), "hardware / peak"),
        ),
    )


def _pair(name: str, full: float, causal: float, remark: str = "") -> tuple[str, str, str, str]:
    return name, format_flops(full), format_flops(causal), remark


def print_communication(screen: Console, answer: Estimate) -> None:
    """What a rank of the busiest stage sends in a step."""
    if not answer.communication:
        return
    heading(screen, "Communication", "what one rank of the busiest stage sends in a step")
    listing(
        screen,
        (
            ("kind", "left"),
            ("axis", "left"),
            ("ranks", "right"),
            ("count", "right"),
            ("sent", "right"),
        ),
        [
            (
                part.kind,
                part.axis,
                str(part.group_size),
                str(part.count),
                format_bytes(part.bytes_per_rank),
            )
            for part in answer.communication
        ],
    )


def print_run(screen: Console, answer: Estimate) -> None:
    """The whole run, where its length was given."""
    run = answer.run
    if run is None:
        return
    heading(screen, "Run")
    facts(
        screen,
        (
            ("tokens", format_count(run.tokens), ""),
            ("steps", f"{run.steps:,}", ""),
            ("days", f"{run.days:,.2f}", f"at {format_seconds(answer.step.seconds)} a step"),
            ("GPU-hours", f"{run.gpu_hours:,.0f}", f"of {answer.cluster.gpus} GPUs"),
            *(_failures(run.failures) if run.failures else ()),
            *(_cost(run) if run.cost is not None else ()),
        ),
    )


def _failures(part: FailuresPart) -> Iterable[tuple[str, str, str]]:
    """The run again, with failures."""
    return (
        (
            "failures",
            f"{part.expected:,.1f}",
            f"one in {format_seconds(part.job_mtbf_seconds)}; of a GPU one in "
            f"{part.gpu_mtbf_seconds / 3600:,.0f} h",
        ),
        (
            "checkpoint",
            format_bytes(part.checkpoint_bytes),
            f"{format_seconds(part.checkpoint_seconds)} to write, every "
            f"{format_seconds(part.interval_seconds)} or {part.interval_steps:,} steps (Daly)",
        ),
        (
            "days with failures",
            f"{part.days:,.2f}",
            f"{format_percent(part.goodput)} of them go into steps that count",
        ),
        ("GPU-hours with failures", f"{part.gpu_hours:,.0f}", ""),
    )


def _cost(run: RunPart) -> Iterable[tuple[str, str, str]]:
    hours = ", with failures" if run.failures else ""
    return (("cost", f"{run.cost:,.0f}", f"at {run.price:g} a GPU-hour{hours}"),)

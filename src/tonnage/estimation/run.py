"""The whole run: its steps, days, GPU-hours and cost, with failures where they are asked for."""

from __future__ import annotations

import dataclasses
import math

from tonnage.cluster import Cluster
from tonnage.errors import InputError
from tonnage.estimation.answer import FailuresPart, RunPart, StepPart
from tonnage.estimation.limits import RESTART, Failures, Limits
from tonnage.memory import checkpoint_bytes
from tonnage.plan import Setting
from tonnage.quantity import format_seconds
from tonnage.timing.failures import daly_interval, expected_seconds

SECONDS_PER_DAY = 86_400.0

LONGEST = 1e12
"""Seconds of a run that comes to an end: 30,000 years."""


def run_part(step: StepPart, setting: Setting, cluster: Cluster, limits: Limits) -> RunPart | None:
    """The run, where its length was given.

    Raises:
        InputError: failures come so fast that it never ends.
    """
    if limits.tokens is None and limits.steps is None:
        return None
    steps = limits.steps or -(-(limits.tokens or 0) // step.tokens_per_step)
    seconds = steps * step.seconds
    run = RunPart(
        tokens=limits.tokens or steps * step.tokens_per_step,
        steps=steps,
        seconds=seconds,
        days=seconds / SECONDS_PER_DAY,
        gpu_hours=seconds * cluster.gpus / 3600.0,
    )
    if limits.failures is not None:
        part = failures_part(seconds, step.seconds, setting, cluster, limits.failures)
        run = dataclasses.replace(run, failures=part)
    if limits.price is not None:
        hours = run.gpu_hours if run.failures is None else run.failures.gpu_hours
        run = dataclasses.replace(run, price=limits.price, cost=limits.price * hours)
    return run


def failure_notes(failures: Failures | None) -> tuple[str, ...]:
    """What is assumed of failures, in sentences."""
    if failures is None:
        return ()
    notes = [
        "failures come at a constant rate and each stops the whole job, which waits while a "
        "checkpoint is written (Daly 2006); a node's failures count among its GPUs'",
    ]
    if failures.restart is None:
        notes.append(f"a restart takes {format_seconds(RESTART)}: not given")
    return tuple(notes)


def failures_part(
    work: float, step: float, setting: Setting, cluster: Cluster, failures: Failures
) -> FailuresPart:
    """What failures make of a run of so many seconds, checkpointed at Daly's interval.

    Args:
        work: seconds of all steps.
        step: seconds of one.
        setting: for the size of a checkpoint.
        cluster: for the number of devices.
        failures: how often they fail, and how fast a checkpoint is written.

    Raises:
        InputError: failures come so fast that the run never ends.
    """
    mtbf = failures.mtbf / cluster.gpus
    size = int(checkpoint_bytes(setting))
    write = size / failures.checkpoint_bandwidth
    restart = RESTART if failures.restart is None else failures.restart
    # A checkpoint is taken between two steps.
    every = max(1, round(daly_interval(write, mtbf) / step))
    seconds = expected_seconds(work, interval=every * step, write=write, restart=restart, mtbf=mtbf)
    if not seconds <= LONGEST:
        raise InputError(
            field="mtbf",
            value=failures.mtbf,
            problem=f"seconds over {cluster.gpus} GPUs is a failure every {mtbf:.3g} s: "
            "the run never ends",
            accepted="rarer failures, or faster checkpoints and restarts",
        )
    return FailuresPart(
        gpu_mtbf_seconds=failures.mtbf,
        job_mtbf_seconds=mtbf,
        checkpoint_bytes=size,
        checkpoint_seconds=write,
        interval_seconds=every * step,
        interval_steps=every,
        restart_seconds=restart,
        expected=seconds / mtbf,
        seconds=seconds,
        days=seconds / SECONDS_PER_DAY,
        gpu_hours=seconds * cluster.gpus / 3600.0,
        goodput=work / seconds if math.isfinite(seconds) else 0.0,
    )

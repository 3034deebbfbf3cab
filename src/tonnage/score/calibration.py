"""Measured steps -> the constants of the time model for the device that they ran on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tonnage.cluster import Cluster, Device
from tonnage.cluster.measured import NETWORK_CONSTANTS
from tonnage.errors import InputError
from tonnage.ledger import StageLedger, stage_ledgers
from tonnage.plan import Setting, resolve
from tonnage.score import measured
from tonnage.score.case import case
from tonnage.score.row import Row
from tonnage.timing import constants, step_time
from tonnage.timing.calibration import (
    device_unknowns,
    format_unknowns,
    link_unknowns,
    with_constants,
)
from tonnage.timing.collective import network_hop
from tonnage.timing.fit import Fit, Unknown, fit

LINKS = ("scale_up", "network")


@dataclass(frozen=True, kw_only=True)
class MeasuredStep:
    """A row that can be fitted: what the ledger reads of it, where it ran, and its seconds."""

    row: Row
    setting: Setting
    ledgers: tuple[StageLedger, ...]
    cluster: Cluster
    seconds: float


@dataclass(frozen=True, kw_only=True)
class StepCalibration:
    """A device with the constants that steps determine.

    Attributes:
        device: the device and its links; what the rows do not determine is left out.
        fit: every constant, determined or not.
        refused: rows that could not be used, and why, by name.
    """

    device: Device
    fit: Fit
    refused: dict[str, str]


def calibrate_steps(
    rows: Iterable[Row], seen: Callable[[], None] = lambda: None
) -> StepCalibration:
    """Fit the constants of one device to measured steps.

    The constants are those of `tonnage.timing.calibration.calibrate`, and the network's two;
    the model is `tonnage.timing.step_time`, whole.

    Args:
        rows: measured rows, all of one device.
        seen: called after each evaluation of the model.

    Raises:
        InputError: no row can be used, or they are of several devices.
    """
    steps, refused = _read(rows)
    device = _device(steps)
    unknowns = _unknowns(steps, device)

    def predict(values: Mapping[str, float]) -> Any:
        own = with_measured(device, values)
        return np.array([_seconds(step, own) for step in steps], dtype=np.float64)

    found = fit(unknowns, predict, [step.seconds for step in steps], seen)
    known = {each.name: each.value for each in found.constants if each.determined}
    return StepCalibration(device=with_measured(device, known), fit=found, refused=refused)


def with_measured(device: Device, values: Mapping[str, float]) -> Device:
    """A device with constants put over its own and those of its links (``network.share``)."""
    links = {}
    for role in LINKS:
        own = {
            name.removeprefix(f"{role}."): value
            for name, value in values.items()
            if name.startswith(f"{role}.")
        }
        link = getattr(device, role)
        links[role] = dataclasses.replace(link, measured={**link.measured, **own})
    plain = {name: v for name, v in values.items() if name.split(".")[0] not in LINKS}
    return dataclasses.replace(with_constants(device, plain), **links)


def _read(rows: Iterable[Row]) -> tuple[list[MeasuredStep], dict[str, str]]:
    steps: list[MeasuredStep] = []
    refused: dict[str, str] = {}
    for row in rows:
        seconds = measured.step_seconds(row)
        if seconds is None:
            continue
        try:
            asked = case(row)
            if asked.refused:
                refused[row.name] = "; ".join(asked.refused)
                continue
            resolved = resolve(asked.plan, asked.architecture, asked.cluster)
        except InputError as error:
            refused[row.name] = error.message
            continue
        steps.append(
            MeasuredStep(
                row=row,
                setting=resolved.setting,
                ledgers=stage_ledgers(resolved.setting, resolved.stages),
                cluster=asked.cluster,
                seconds=seconds,
            )
        )
    return steps, refused


def _device(steps: Sequence[MeasuredStep]) -> Device:
    devices = {step.cluster.device.name: step.cluster.device for step in steps}
    if len(devices) == 1:
        return next(iter(devices.values()))
    problem = "are rows of several devices" if devices else "is no row with a measured step"
    raise InputError(
        field="from",
        value=", ".join(devices),
        problem=problem,
        accepted="rows of one device with step_time_s, or tok_s_gpu and gbs",
        hint="--device names the one whose rows count" if devices else "",
    )


def _unknowns(steps: Sequence[MeasuredStep], device: Device) -> list[Unknown]:
    """Every constant, from what the steps are timed with now."""
    recipes = [step.setting.precision for step in steps]
    found = [
        each
        for name in dict.fromkeys(recipe.compute for recipe in recipes)
        for each in format_unknowns(device, name).values()
    ]
    # A narrow recipe makes only its products in the narrow format, attention not.
    found += [
        each
        for name, wide in dict.fromkeys((r.matmul, r.compute) for r in recipes)
        for key, each in format_unknowns(device, name, wide_format=wide).items()
        if name != wide and key.startswith("product_")
    ]
    found += device_unknowns(device).values()
    wide = dataclasses.replace(steps[0].cluster, device=device)
    found += [_named(each, "scale_up") for each in link_unknowns(wide).values()]
    starts = {"share": constants.NETWORK_SHARE, "hop": network_hop(wide)}
    found += [
        Unknown(
            name=f"network.{each.name}",
            start=starts[each.name],
            least=each.least,
            most=each.most,
        )
        for each in NETWORK_CONSTANTS
    ]
    return list({each.name: each for each in found}.values())


def _named(unknown: Unknown, role: str) -> Unknown:
    return dataclasses.replace(unknown, name=f"{role}.{unknown.name}")


def _seconds(step: MeasuredStep, device: Device) -> float:
    """The step's time with the device's constants; links keep the bandwidth of the row."""
    cluster = step.cluster
    own = dataclasses.replace(
        cluster,
        device=device,
        scale_up=dataclasses.replace(cluster.scale_up, measured=device.scale_up.measured),
        network=dataclasses.replace(cluster.network, measured=device.network.measured),
    )
    return float(step_time(step.setting, step.ledgers, own).seconds)

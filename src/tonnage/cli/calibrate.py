"""``tonnage calibrate``: the time model's constants of one device, from measurements."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from tonnage.cli.output import JsonFlag, print_json
from tonnage.cli.written import check_place
from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.cluster import Device
    from tonnage.timing.fit import Fit

_SLOWEST = "250ms"


def calibrate(
    *,
    out: Annotated[
        Path | None,
        Parameter(
            metavar="FILE", help="Write the device as TOML, for --device-file.", show_default=False
        ),
    ] = None,
    from_: Annotated[
        list[Path] | None,
        Parameter(
            name="--from",
            metavar="FILE",
            help="Fit to the measured steps of CSV files, as tonnage score reads them.",
            negative_iterable="",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        Parameter(
            metavar="NAME",
            help="With --from: the device whose rows count. Else: the catalog's name of this one.",
            show_default=False,
        ),
    ] = None,
    device_file: Annotated[
        str | None,
        Parameter(metavar="FILE", help="This device's published figures.", show_default=False),
    ] = None,
    on: Annotated[
        str | None,
        Parameter(
            metavar="DEVICE",
            help="Where to measure, as PyTorch names it: cuda, cpu; the accelerator if left out.",
            show_default=False,
        ),
    ] = None,
    dtypes: Annotated[
        str | None,
        Parameter(
            metavar="NAME,...",
            help="Formats: bf16, fp16, fp32; bf16 if left out, fp32 on a processor.",
            show_default=False,
        ),
    ] = None,
    slowest: Annotated[
        str, Parameter(metavar="TIME", help="The longest call that is measured.")
    ] = _SLOWEST,
    as_json: JsonFlag = False,
) -> int:
    """Measure this device, or fit it to measured steps; write a device file.

    Under torchrun the collectives of its processes are measured too.
    """
    if out is not None:
        check_place("out", out)
    if from_:
        _only_with_a_device({"device_file": device_file, "on": on, "dtypes": dtypes})
        found, fits, refused = _from_rows(from_, device)
    else:
        answer = _here(on, _base(device, device_file), dtypes, slowest)
        if answer is None:  # another rank tells
            return 0
        found, fits, refused = answer[0], answer[1], {}
    if out is not None:
        _write(out, found, fits)
    if as_json:
        print_json(_json(found, fits, refused))
    else:
        from tonnage.report.calibration import print_calibration

        print_calibration(found, fits, refused, written=None if out is None else str(out))
    return 0


def _only_with_a_device(given: Mapping[str, object]) -> None:
    for field, value in given.items():
        if value is not None:
            raise InputError(
                field=field,
                value=value,
                problem="says how to measure, and --from measures nothing",
                accepted="one of the two",
            )


def _from_rows(
    files: list[Path], device: str | None
) -> tuple[Device, dict[str, Fit], dict[str, str]]:
    from tonnage.cluster import find_device
    from tonnage.report.progress import progress
    from tonnage.score import read_rows
    from tonnage.score.calibration import calibrate_steps

    rows = [row for file in files for row in read_rows(file)]
    if device is not None:
        wanted = find_device(device, field="device")
        rows = [row for row in rows if _runs_on(row.text("gpu"), wanted)]
    with progress(None, "evaluations", stream=sys.stderr) as seen:
        answer = calibrate_steps(rows, seen)
    return answer.device, {"steps": answer.fit}, answer.refused


def _runs_on(name: str, wanted: Device) -> bool:
    from tonnage.cluster import find_device

    try:
        return find_device(name).name == wanted.name
    except InputError:
        return False


def _base(name: str | None, file: str | None) -> Device | None:
    from tonnage.cluster import find_device, load_device_file

    if name is not None and file is not None:
        raise InputError(field="device", value=name, problem="is given beside a device file")
    if file is not None:
        return load_device_file(file)
    return None if name is None else find_device(name, field="device")


def _here(
    on: str | None, base: Device | None, dtypes: str | None, slowest: str
) -> tuple[Device, dict[str, Fit]] | None:
    from tonnage.dtype import dtype
    from tonnage.quantity import parse_seconds

    names = [] if dtypes is None else [name.strip() for name in dtypes.split(",")]
    formats = [dtype(name, field="dtypes").name for name in names]
    longest = parse_seconds(slowest, field="slowest")
    # PyTorch is slow to import: what can be refused without it has been by here.
    from tonnage.pytorch.calibrate import calibrate_here
    from tonnage.report.progress import progress

    with progress(None, "measurements", stream=sys.stderr) as seen:
        answer = calibrate_here(
            on=on,
            base=base,
            formats=formats,
            slowest=longest,
            seen=seen,
        )
    return None if answer is None else (answer.device, answer.fits)


def _write(path: Path, device: Device, fits: Mapping[str, Fit]) -> None:
    from tonnage.cluster import device_toml

    notes = ["Written by tonnage calibrate; constants that nothing determined are left out."]
    notes += [
        f"{name}: {found.rows} measurements, mean error {found.before:.1%} before the fit and "
        f"{found.after:.1%} after"
        for name, found in fits.items()
    ]
    try:
        path.write_text(device_toml(device, notes), encoding="utf-8")
    except OSError as error:
        raise InputError(
            field="out", value=str(path), problem=f"cannot be written: {error.strerror}"
        ) from None


def _json(device: Device, fits: Mapping[str, Fit], refused: Mapping[str, str]) -> dict[str, Any]:
    return {
        "device": device.name,
        "measured": dict(device.measured),
        "scale_up": dict(device.scale_up.measured),
        "network": dict(device.network.measured),
        "fits": {
            name: {
                "measurements": found.rows,
                "mean_error_before": found.before,
                "mean_error": found.after,
                "constants": [
                    {
                        "name": each.name,
                        "value": each.value,
                        "relative_error": each.error if each.determined else None,
                        "determined": each.determined,
                    }
                    for each in found.constants
                ],
            }
            for name, found in fits.items()
        },
        "refused": dict(refused),
    }

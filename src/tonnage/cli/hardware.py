"""``tonnage hardware``: devices with their peaks and ridge points, and where figures come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tonnage.cli.output import JsonFlag, print_json

if TYPE_CHECKING:
    from tonnage.cluster import Device


def hardware(
    name: Annotated[str, Parameter(help="One device, for all of its figures and sources.")] = "",
    /,
    *,
    device_file: Annotated[
        str | None,
        Parameter(metavar="FILE", help="One device as TOML, in place of NAME.", show_default=False),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """List devices with their dense peaks and ridge points, or all that is known of one."""
    from tonnage.cluster import DEVICES
    from tonnage.report.hardware import hardware_json, print_details, print_hardware

    device = _one(name, device_file)
    if as_json and device is not None:
        print_json({"device": hardware_json(device)})
    elif as_json:
        print_json({"devices": [hardware_json(entry) for entry in DEVICES]})
    elif device is not None:
        print_details(device)
    else:
        print_hardware(DEVICES)
    return 0


def _one(name: str, device_file: str | None) -> Device | None:
    """The device that is asked for; None where it is all of them."""
    from tonnage.cluster import find_device, load_device_file
    from tonnage.errors import InputError

    if device_file is None:
        return find_device(name, field="NAME") if name else None
    if name:
        raise InputError(field="NAME", value=name, problem="is already decided by the device file")
    return load_device_file(device_file)

"""``tonnage devices``: the catalog of devices."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from tonnage.cli.output import JsonFlag, print_json


def devices(
    pattern: Annotated[
        str, Parameter(help="Part of a name or maker, in any case; * and ? stand for anything.")
    ] = "",
    /,
    *,
    as_json: JsonFlag = False,
) -> int:
    """List the catalog of devices: memory, dense rates, links, and where the figures come from."""
    from tonnage.cli.matching import matching
    from tonnage.cluster import DEVICES
    from tonnage.report.catalog import device_json, print_devices

    found = matching(DEVICES, pattern, lambda device: (device.name, device.vendor, *device.aliases))
    if as_json:
        print_json({"devices": [device_json(device) for device in found]})
    else:
        print_devices(found)
    return 0

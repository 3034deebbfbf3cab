"""A device as the TOML that `tonnage.cluster.files` reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from tonnage.cluster.device import Device
from tonnage.cluster.link import Link
from tonnage.cluster.measured import DEVICE_CONSTANTS, FORMAT_CONSTANTS, Constant


def device_toml(device: Device, notes: Iterable[str] = ()) -> str:
    """A device file: what a maker publishes, and below it what was measured.

    Args:
        device: the device; its measured constants and those of its scale-up link with it.
        notes: lines of comment at the top.
    """
    lines = [f"# {_one_line(note)}" for note in notes]
    lines += [f"{key} = {value}" for key, value in _keys(device).items()]
    lines += ["", "[peak]  # dense FLOP/s"]
    lines += [f"{key} = {float(round(rate))!r}" for key, rate in device.peak.items()]
    plain = {name: value for name, value in device.measured.items() if "." not in name}
    lines += _table("measured", plain, DEVICE_CONSTANTS)
    for number_format in device.peak:
        prefix = f"{number_format}."
        own = {
            name.removeprefix(prefix): value
            for name, value in device.measured.items()
            if name.startswith(prefix)
        }
        lines += _table(f"measured.{number_format}", own, FORMAT_CONSTANTS)
    return "\n".join([*lines, ""])


def _keys(device: Device) -> dict[str, str]:
    keys = {
        "name": _text(device.name),
        "vendor": _text(device.vendor),
        "architecture": _text(device.architecture),
        "memory": _text(f"{device.memory_bytes} B"),
        "usable_memory": _text(f"{device.usable_bytes} B"),
        "context": _text(f"{device.context_bytes} B"),
        "bandwidth": _text(f"{round(device.bandwidth)} B/s"),
        "gpus_per_node": str(device.gpus_per_node),
        "scale_up_domain": str(device.scale_up_domain),
        "scale_up": _link(device.scale_up),
        "network": _link(device.network),
        "source": _text(device.source[:1000]),
    }
    if device.host is not None:
        keys["host"] = _link(device.host.link)
        keys["host_sharing"] = str(device.host.sharing)
        keys["host_memory_bandwidth"] = _text(f"{round(device.host.memory)} B/s")
        if device.host.devices is not None:
            keys["host_devices"] = str(device.host.devices)
    for figure in ("tdp_watts", "multiprocessors"):
        value = getattr(device, figure)
        if value is not None:
            keys[figure] = str(value)
    return keys


def _link(link: Link) -> str:
    parts = {
        "name": _text(link.name),
        "bandwidth": _text(f"{round(link.bandwidth)} B/s"),
        "latency": _text(f"{link.latency!r} s"),
    }
    if link.measured:
        own = ", ".join(f"{name} = {value!r}" for name, value in link.measured.items())
        parts["measured"] = f"{{{own}}}"
    return "{" + ", ".join(f"{key} = {value}" for key, value in parts.items()) + "}"


def _table(name: str, values: Mapping[str, float], known: Iterable[Constant]) -> list[str]:
    """A table of constants, each with its unit and meaning behind it."""
    if not values:
        return []
    lines = ["", f"[{name}]"]
    for constant in known:
        if constant.name in values:
            unit = "" if constant.unit == "1" else f"{constant.unit}; "
            lines.append(f"{constant.name} = {values[constant.name]!r}  # {unit}{constant.meaning}")
    return lines


def _text(content: str) -> str:
    """A basic string of TOML, whose escapes are those of JSON."""
    return json.dumps(_one_line(content))


def _one_line(content: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in content).split())

"""Devices on a terminal and as JSON: dense peaks, ridge points, links and sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from tonnage.cluster import Device, Link, usual_host
from tonnage.cluster.measured import Constant, known_constant
from tonnage.quantity import format_bytes, format_rate, format_seconds
from tonnage.report.catalog import UNLIMITED
from tonnage.report.layout import Justify, bullets, console, facts, heading, listing

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = (("bf16", ("bf16", "fp16")), ("fp8", ("fp8",)), ("fp4", ("fp4",)), ("fp32", ("fp32",)))
"""Columns of the table, and the formats whose peak stands in each: the first that there is."""

_NO_FIGURES = ("name", "source", "sources", "aliases", "measured", "host")
FIGURES = tuple(field.name for field in fields(Device) if field.name not in _NO_FIGURES)


def hardware_json(device: Device) -> dict[str, object]:
    """A device as JSON takes it, in SI units, with ridge points and the source of each figure."""
    return {
        "name": device.name,
        "aliases": list(device.aliases),
        "vendor": device.vendor,
        "architecture": device.architecture,
        "memory_bytes": device.memory_bytes,
        "usable_bytes": device.usable_bytes,
        "context_bytes": device.context_bytes,
        "bandwidth": device.bandwidth,
        "peak": dict(device.peak),
        "ridge": {key: rate / device.bandwidth for key, rate in device.peak.items()},
        "tdp_watts": device.tdp_watts,
        "multiprocessors": device.multiprocessors,
        "gpus_per_node": device.gpus_per_node,
        "scale_up_domain": device.scale_up_domain,
        "scale_up": link_json(device.scale_up),
        "network": link_json(device.network),
        "host": host_json(device),
        "measured": dict(device.measured),
        "source": device.source,
        "sources": {figure: device.source_of(figure) for figure in FIGURES},
    }


def host_json(device: Device) -> dict[str, object]:
    """The host of a device: the link to it, who shares it, and bytes a second of its memory."""
    host = usual_host(device)
    return {
        "link": link_json(host.link),
        "sharing": host.sharing,
        "memory_bandwidth": host.memory,
        "devices": host.devices or device.gpus_per_node,
        "source": host.source,
    }


def link_json(link: Link) -> dict[str, object]:
    """A link as JSON takes it: bytes a second of one direction, and seconds of a hop."""
    return {
        "name": link.name,
        "bandwidth": link.bandwidth,
        "latency": link.latency,
        "source": link.source,
        "measured": dict(link.measured),
    }


def table(devices: Sequence[Device]) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of the table: a peak in TFLOP/s, and its ridge in FLOP/byte."""
    header = ["name", "GB", "GB/s"]
    for column, _ in SHOWN:
        header += [column, "ridge"]
    return header, [_row(device) for device in devices]


def print_hardware(devices: Sequence[Device], screen: Console | None = None) -> None:
    """Print the devices, one a line; a pipe gets every column, a terminal what it has room for."""
    screen = screen or console()
    header, rows = table(devices)
    columns: list[tuple[str, Justify]] = [(header[0], "left")]
    columns += [(name, "right") for name in header[1:]]
    kept = _room(screen, [header, *rows]) if screen.is_terminal else len(header)
    wide = screen if screen.is_terminal else console(width=UNLIMITED)
    listing(wide, columns[:kept], [row[:kept] for row in rows])
    screen.print()
    bullets(
        screen,
        (
            "peaks are dense, in TFLOP/s; a ridge is in FLOP per byte of device memory: below "
            "it the memory is the limit, above it the peak",
            "bf16 is fp16 where there is no bf16; - is not published",
            "tonnage hardware NAME shows links, power, and where each figure comes from",
        ),
    )


def _room(screen: Console, rows: Sequence[Sequence[str]]) -> int:
    """For how many columns the terminal has room; a peak never stands without its ridge."""
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)]
    kept = len(widths)
    while kept > 3 and sum(widths[:kept]) > screen.width:
        kept -= 2
    return kept


def print_details(device: Device, screen: Console | None = None) -> None:
    """Print all that is known of one device."""
    screen = screen or console()
    heading(screen, device.name, f"{device.vendor} {device.architecture}".strip())
    facts(screen, _figures(device))
    heading(screen, "Dense peaks", "and the intensity at which memory stops being the limit")
    peaks = [
        (key, format_rate(rate), f"ridge {device.ridge_of(rate):.1f} FLOP/byte")
        for key, rate in device.peak.items()
    ]
    facts(screen, peaks or [("none", "", "not published")])
    if found := _measured(device):
        heading(screen, "Measured", "in place of the time model's own constants")
        facts(screen, found)
    heading(screen, "Sources")
    bullets(screen, _sources(device))


def _row(device: Device) -> list[str]:
    row = [device.name, f"{device.memory_bytes / 1e9:.0f}", f"{device.bandwidth / 1e9:.0f}"]
    for _, keys in SHOWN:
        rate = next((device.peak[key] for key in keys if key in device.peak), None)
        row += ["-", "-"] if rate is None else [_tera(rate), f"{device.ridge_of(rate):.0f}"]
    return row


def _tera(rate: float) -> str:
    return f"{rate / 1e12:.4g}" if rate < 1e15 else f"{rate / 1e12:.0f}"


def _figures(device: Device) -> list[tuple[str, str, str]]:
    """The plain figures, by the words that a person would use."""
    scale_up, network, host = device.scale_up, device.network, usual_host(device)
    of_host = f"all its channels, for {host.devices or 'all'} devices of a node"
    shared = "" if host.sharing == 1 else f", shared by {host.sharing}"
    return [
        ("memory", f"{device.memory_bytes / 1e9:.0f} GB", "as in its name"),
        ("usable", format_bytes(device.usable_bytes), "what the driver reports as total"),
        ("context", format_bytes(device.context_bytes), "before the first tensor"),
        ("bandwidth", format_rate(device.bandwidth, "B/s"), "of its memory"),
        ("power", f"{device.tdp_watts} W" if device.tdp_watts else "not published", "at most"),
        ("units", str(device.multiprocessors or "not published"), "multiprocessors or cores"),
        ("node", str(device.gpus_per_node), "devices in one host"),
        ("domain", str(device.scale_up_domain), "devices that the scale-up link joins"),
        ("scale-up", format_rate(scale_up.bandwidth, "B/s"), _remark(scale_up)),
        ("network", format_rate(network.bandwidth, "B/s"), _remark(network)),
        ("host", format_rate(host.link.bandwidth, "B/s"), f"{host.link.name}{shared}, one way"),
        ("host memory", format_rate(host.memory, "B/s"), of_host),
    ]


def _measured(device: Device) -> list[tuple[str, str, str]]:
    """Constants that a device file brings, the links' with theirs."""
    found = dict(device.measured)
    for role, link in (("scale_up", device.scale_up), ("network", device.network)):
        found |= {f"{role}.{name}": value for name, value in link.measured.items()}
    known = {name: known_constant(name) for name in found}
    return [
        (name, constant_text(value, known[name]), known[name].meaning)
        for name, value in found.items()
    ]


def constant_text(value: float, constant: Constant) -> str:
    """A constant of the time model in its unit."""
    if constant.unit == "1":
        return f"{value:.3f}"
    return format_seconds(value) if constant.unit == "s" else format_rate(value, constant.unit)


def _remark(link: Link) -> str:
    return f"{link.name}: a device's share, one way; {format_seconds(link.latency)} a hop"


def _sources(device: Device) -> list[str]:
    """Where figures come from: the common source, and those that have their own."""
    own = (f"{figure}: {text}" for figure, text in device.sources.items())
    return [device.source, *own, f"host: {usual_host(device).source}"]

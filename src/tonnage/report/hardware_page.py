"""The catalog of devices and links as one page of the documentation.

``python -m tonnage.report.hardware_page > docs/reference/hardware.md`` writes it, and a
test compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tonnage.cluster import DEVICES, LINKS, Device, Link
from tonnage.quantity import format_rate, format_seconds
from tonnage.report.hardware import table

_INTRODUCTION = """# Hardware

The catalog: `tonnage hardware` prints the first table, `tonnage hardware NAME` all that is
known of one device. Every figure has a source, listed below. One that ends in "recalled"
names the document that has the figure, which was written down from memory of it or from
those who repeat it, and not read again. One that begins with "weak:" has no such document,
and one that begins with "assumed:" stands in for what nobody says.

Peaks are dense, in TFLOP/s, with accumulation in FP32; a figure that its maker gives with
sparsity is halved, and its source says so. A ridge is the peak over the bandwidth of the
device's memory, in FLOP/byte. bf16 is fp16 where there is no bf16, and - is not published:
asking for it is an error. An MI250X and an Ascend 910C are one of their two dies, as
PyTorch counts them; TPUs and Trainium are whole chips.
"""

_LINKS = """## Links

One device's share, in one direction, without the overhead of protocols. Makers quote
scale-up links in both directions together, which is twice this.
"""


def page() -> str:
    """The page."""
    header, rows = table(DEVICES)
    parts = [_INTRODUCTION, "## Devices\n", _markdown(header, rows), _LINKS, _links(LINKS)]
    parts += ["## Sources\n", *(_sources(device) for device in DEVICES)]
    return "\n".join(parts)


def _links(links: Sequence[Link]) -> str:
    rows = [
        [
            link.name,
            ", ".join(link.aliases),
            format_rate(link.bandwidth, "B/s"),
            format_seconds(link.latency),
            link.source,
        ]
        for link in links
    ]
    return _markdown(["name", "also", "bandwidth", "latency", "source"], rows)


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _sources(device: Device) -> str:
    others = ", ".join(device.aliases)
    lines = [f"### {device.name}\n", f"Also: {others}. Power: {_watts(device)}.\n"]
    lines += [f"- {device.source}"]
    lines += [f"- `{figure}`: {text}" for figure, text in device.sources.items()]
    return "\n".join(lines) + "\n"


def _watts(device: Device) -> str:
    return "not published" if device.tdp_watts is None else f"{device.tdp_watts} W"


if __name__ == "__main__":
    print(page(), end="")

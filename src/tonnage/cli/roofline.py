"""``tonnage roofline``: devices' rooflines, and the operations of models on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tonnage.cli.output import JsonFlag, print_json
from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.cluster import Device
    from tonnage.roofline import Size


def roofline(
    *model: Annotated[
        str, Parameter(help="Models whose operations are drawn: names, files or folders.")
    ],
    device: Annotated[
        str, Parameter(metavar="NAME,...", help="Devices, one roof each: H100,A100.")
    ] = "H100",
    dtype: Annotated[
        str, Parameter(metavar="NAME", help="Number format of the peak, weights and activations.")
    ] = "bf16",
    seq: Annotated[
        str, Parameter(metavar="N", help="Tokens of a sequence; in decode, those in the cache.")
    ] = "4096",
    mbs: Annotated[str, Parameter(metavar="N", help="Sequences at once.")] = "1",
    out: Annotated[
        str | None,
        Parameter(metavar="FILE", help="Write a picture: .html, .svg or .png.", show_default=False),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Draw the roofline of devices, with a model's operations on it."""
    from tonnage.arch import load
    from tonnage.cli.stdin import show_hyphen
    from tonnage.dtype import dtype as find_dtype
    from tonnage.report.roofline import notes, print_chart, roofline_json
    from tonnage.report.roofline_file import write
    from tonnage.roofline import chart, points

    entry, size = find_dtype(dtype), _size(seq, mbs)
    architectures = [load(show_hyphen(name)) for name in dict.fromkeys(model)]
    found = [point for each in architectures for point in points(each, size, entry)]
    answer = chart(_devices(device), entry, found)
    if out is not None:
        write(answer, out)
    if as_json:
        print_json(roofline_json(answer, size))
    else:
        print_chart(answer, notes(answer, size, architectures))
    return 0


def _devices(text: str) -> list[Device]:
    from tonnage.cluster import find_device

    names = [name.strip() for name in text.split(",")]
    if len(names) > 8:
        raise InputError(
            field="device", value=text, problem="are too many devices", accepted="8 or fewer"
        )
    found = [find_device(name, field="device") for name in names]
    return list({device.name: device for device in found}.values())


def _size(seq: str, mbs: str) -> Size:
    from tonnage.cli.values import whole
    from tonnage.roofline import Size

    sizes = {"seq": whole("seq", seq), "mbs": whole("mbs", mbs)}
    for name, value in sizes.items():
        if not 0 < value <= 2**40:
            raise InputError(
                field=name,
                value=value,
                problem="is no size",
                accepted="a whole number from 1 to 2**40",
            )
    return Size(**sizes)

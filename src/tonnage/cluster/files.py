"""Clusters and devices from TOML: what is not in the catalog, or differs from it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tonnage.cluster.catalog.hosts import BY_ARCHITECTURE, ONE_CARD, host_of
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.device import Device
from tonnage.cluster.find import find_device, find_link
from tonnage.cluster.host import Host
from tonnage.cluster.link import Link
from tonnage.cluster.measured import (
    DEVICE_CONSTANTS,
    FORMAT_CONSTANTS,
    NETWORK_CONSTANTS,
    SCALE_UP_CONSTANTS,
    check_constants,
)
from tonnage.dtype import DTYPES
from tonnage.errors import InputError
from tonnage.files import UnreadableError, read_bounded
from tonnage.quantity import MIB, parse_bytes, parse_count, parse_rate, parse_seconds

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

    from tonnage.cluster.schema import ClusterFile, DeviceFile, LinkFile

    Model = TypeVar("Model", bound=BaseModel)

LARGEST_FILE = 16 * 2**10
"""The parser of TOML takes the square of a long dotted key: this bounds it to a second."""
_CONTEXT = 500 * MIB
_PEAK_KEYS = tuple(dict.fromkeys(entry.peak for entry in DTYPES))
_LINK_KEYS = ("bandwidth", "latency", "name", "measured")


def load_cluster_file(path: str | Path) -> Cluster:
    """The cluster that a TOML file describes.

    ``device`` and ``gpus`` must be there. ``gpus_per_node``, ``scale_up_domain``,
    ``scale_up`` and ``network`` are the device's where they are not given. A link is a
    name of the catalog or a table, ``{bandwidth = "50GB/s", latency = "5us"}``, and
    ``network_bandwidth``, ``network_latency``, ``scale_up_bandwidth`` and
    ``scale_up_latency`` change one figure of it. ``host`` is the link to the memory of the
    host, ``host_bandwidth`` its rate, ``host_sharing`` the devices behind one such link, and
    ``host_memory_bandwidth`` the rate of its memory, all channels together, which
    ``host_devices`` of a node have to themselves. A ``device`` that ends in ``.toml`` is a
    device file beside this one.

    Raises:
        InputError: the file cannot be read, or a key of it is unknown or makes no sense.
    """
    from tonnage.cluster.schema import ClusterFile  # imports pydantic, which only files need

    file = Path(path)
    given = _validated(ClusterFile, _read(file), kind="cluster file")
    device = _device_of(given.device, beside=file)
    gpus = given.gpus if isinstance(given.gpus, int) else parse_count(given.gpus, field="gpus")
    usual = Cluster.of(device, 1)
    cluster = usual.override(gpus=gpus, gpus_per_node=given.gpus_per_node or usual.gpus_per_node)
    return cluster.override(
        scale_up_domain=given.scale_up_domain or cluster.scale_up_domain,
        scale_up=_link(given, "scale_up", device.scale_up),
        network=_link(given, "network", device.network),
        host=_host_of(given, host_of(cluster), bandwidth=given.host_bandwidth),
    )


NOMINAL = 1.1
"""A driver may report more than the name says: an 80GB part has nearly 80 GiB."""


def _check_memory(memory: int, usable: int, context: int) -> None:
    for field, size, most in (
        ("usable_memory", usable, int(NOMINAL * memory)),
        ("context", context, usable),
    ):
        if size > most:
            raise InputError(
                field=field,
                value=size,
                problem="is more than the device has",
                accepted=f"up to {most} bytes",
            )


def load_device_file(path: str | Path) -> Device:
    """The device that a TOML file describes.

    ``name``, ``memory``, ``bandwidth`` and the table ``peak`` must be there. What else a
    device has is optional: ``usable_memory`` (by default all of it), ``tdp_watts``,
    ``multiprocessors``, ``architecture``, ``vendor``, ``scale_up``, ``scale_up_domain``,
    ``gpus_per_node`` (8), ``network``, ``host``, ``host_sharing``,
    ``host_devices`` and ``host_memory_bandwidth`` (`load_cluster_file`), ``context`` (500 MiB),
    ``source``, and ``measured``:
    constants of the time model (`tonnage.cluster.measured`), in a table of their own for
    each number format (``[measured.bf16]``) and for a link (``measured`` of its table).

    Raises:
        InputError: the file cannot be read, or a key of it is unknown or makes no sense.
    """
    from tonnage.cluster.schema import DeviceFile

    file = Path(path)
    given = _validated(DeviceFile, _read(file), kind="device file")
    memory = parse_bytes(given.memory, field="memory")
    usable = memory
    if given.usable_memory is not None:
        usable = parse_bytes(given.usable_memory, field="usable_memory")
    context = _CONTEXT
    if given.context is not None:
        context = parse_bytes(given.context, field="context", minimum=0)
    _check_memory(memory, usable, context)
    for key in ("name", "vendor", "architecture", "source"):
        _check_printable(getattr(given, key), field=key)
    return Device(
        name=given.name,
        vendor=given.vendor,
        architecture=given.architecture,
        memory_bytes=memory,
        usable_bytes=usable,
        bandwidth=parse_rate(given.bandwidth, field="bandwidth"),
        peak={key: _peak(key, rate) for key, rate in given.peak.items()},
        tdp_watts=given.tdp_watts,
        multiprocessors=given.multiprocessors,
        scale_up=_link_of(given.scale_up, field="scale_up"),
        scale_up_domain=given.scale_up_domain or given.gpus_per_node,
        gpus_per_node=given.gpus_per_node,
        network=_link_of(given.network, field="network"),
        host=_host_of(given, BY_ARCHITECTURE.get(given.architecture, ONE_CARD)),
        context_bytes=context,
        source=given.source or f"the device file {file.name}",
        sources={} if context is not None else {"context_bytes": "assumed: the file gives none"},
        measured=_measured(given.measured, given.peak),
    )


def _measured(
    given: Mapping[str, float | dict[str, float]], peaks: Mapping[str, object]
) -> dict[str, float]:
    """A device's measured constants, those of a format with its name before theirs."""
    plain = {name: value for name, value in given.items() if isinstance(value, int | float)}
    found = check_constants(plain, DEVICE_CONSTANTS, field="measured")
    for number_format, table in given.items():
        if not isinstance(table, dict):
            continue
        field = f"measured.{number_format}"[:100]
        if number_format not in peaks:
            raise InputError(
                field=field,
                value=number_format,
                problem="is a format that the file gives no peak for",
                accepted=", ".join(peaks),
            )
        for name, value in check_constants(table, FORMAT_CONSTANTS, field=field).items():
            found[f"{number_format}.{name}"] = value
    return found


def _check_printable(text: str, *, field: str) -> None:
    """Refuse what would move a terminal's cursor or colours when it is printed."""
    if not text.isprintable():
        raise InputError(
            field=field,
            value=ascii(text),
            problem="holds a control character",
            accepted="letters, digits, spaces and signs",
        )


def _read(path: Path) -> dict[str, Any]:
    try:
        content = read_bounded(str(path), LARGEST_FILE)
    except UnreadableError as error:
        raise _refuse(path, str(error)) from None
    if len(content) > LARGEST_FILE:
        raise _refuse(path, f"is larger than {LARGEST_FILE >> 10} KiB")
    try:
        return tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0][:100]
        raise _refuse(path, f"is not TOML: {reason}") from None


def _refuse(path: Path, problem: str) -> InputError:
    return InputError(
        field="file",
        value=str(path),
        problem=problem,
        accepted=f"a TOML file of up to {LARGEST_FILE >> 10} KiB",
    )


def _validated(model: type[Model], data: dict[str, Any], *, kind: str) -> Model:
    """The data as a model of pydantic; the first of its complaints as an InputError."""
    from pydantic import ValidationError

    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise _first_complaint(error, tuple(model.model_fields), kind) from None


def _first_complaint(error: ValidationError, known: tuple[str, ...], kind: str) -> InputError:
    complaints = error.errors(include_url=False)
    # Of a link, which may be a name or a table, the complaint about a key of the table.
    first = max(complaints, key=lambda complaint: len(_keys_of(complaint["loc"])))
    keys = _keys_of(first["loc"])
    value, accepted = first["input"], first["msg"].removeprefix("Input should be ")
    problem = f"makes no sense in a {kind}"
    if first["type"] == "extra_forbidden":
        problem = f"is not a key of a {kind}"
        accepted = ", ".join(known if len(keys) == 1 else _LINK_KEYS)
    elif first["type"] == "missing":
        value, problem, accepted = "''", "is missing", f"every {kind} has it"
    return InputError(
        field=".".join(keys)[:100],
        value=value,
        problem=problem,
        accepted=accepted.removeprefix("a valid "),
    )


def _keys_of(place: tuple[int | str, ...]) -> list[str]:
    """The keys on the way to a value, without the types that pydantic tried on it."""
    types = ("constrained-str", "constrained-int", "constrained-float", "float", "LinkFile")
    return [str(part) for part in place if part not in types]


def _device_of(text: str, *, beside: Path) -> Device:
    if text.lower().endswith(".toml"):
        return load_device_file(beside.expanduser().parent / text)
    return find_device(text, field="device")


def _link(given: ClusterFile, role: str, usual: Link) -> Link:
    """A link of a cluster, with the single figures that the file gives put over it."""
    stated: str | LinkFile | None = getattr(given, role)
    link = usual if stated is None else _link_of(stated, field=role)
    return override_link(
        link,
        role=role,
        bandwidth=getattr(given, f"{role}_bandwidth"),
        latency=getattr(given, f"{role}_latency"),
    )


def override_link(
    link: Link, *, role: str, bandwidth: str | None = None, latency: str | None = None
) -> Link:
    """A link with its bandwidth or latency, or both, as a person writes them.

    Args:
        link: the link.
        role: ``scale_up``, ``network`` or ``host``, for errors and for the name.
        bandwidth: one device's share in one direction, such as ``50GB/s`` or ``400Gb/s``.
        latency: of one hop, such as ``5us``.

    Raises:
        InputError: one of them is no rate or no duration.
    """
    if bandwidth is None and latency is None:
        return link
    return Link(
        name=f"{link.name}, changed",
        bandwidth=(
            link.bandwidth
            if bandwidth is None
            else parse_rate(bandwidth, field=f"{role}_bandwidth")
        ),
        latency=(
            link.latency if latency is None else parse_seconds(latency, field=f"{role}_latency")
        ),
        source=f"{link.source}; changed by the person who asks",
    )


def override_host(
    host: Host,
    *,
    link: Link | None = None,
    bandwidth: str | None = None,
    memory: str | None = None,
    sharing: int | None = None,
    devices: int | None = None,
) -> Host:
    """A host with some of its figures as a person writes them.

    Args:
        host: the host.
        link: another link to its devices.
        bandwidth: of the link, one way, such as ``25GB/s``.
        memory: between its processors and their memory, such as ``300GB/s``.
        sharing: devices that share one link.
        devices: that have this memory to themselves; where it is another memory and none are
            named, all of a node.

    Raises:
        InputError: one of them is no rate, or nobody shares the link.
    """
    if all(given is None for given in (link, bandwidth, memory, sharing, devices)):
        return host
    rate = host.memory if memory is None else parse_rate(memory, field="host_memory_bandwidth")
    return Host(
        link=override_link(link or host.link, role="host", bandwidth=bandwidth),
        sharing=host.sharing if sharing is None else sharing,
        memory=rate,
        devices=host.devices if memory is None and devices is None else devices,
        source=f"{host.source}; changed by the person who asks",
    )


def _host_of(
    given: ClusterFile | DeviceFile, usual: Host, bandwidth: str | None = None
) -> Host | None:
    """The host of a file; None where it says nothing of one."""
    link = None if given.host is None else _link_of(given.host, field="host")
    found = override_host(
        usual,
        link=link,
        bandwidth=bandwidth,
        memory=given.host_memory_bandwidth,
        sharing=given.host_sharing,
        devices=given.host_devices,
    )
    return None if found is usual else found


def _link_of(stated: str | LinkFile, *, field: str) -> Link:
    if isinstance(stated, str):
        return find_link(stated, field=field)
    _check_printable(stated.name, field=f"{field}.name")
    return Link(
        name=stated.name,
        bandwidth=parse_rate(stated.bandwidth, field=f"{field}.bandwidth"),
        latency=parse_seconds(stated.latency, field=f"{field}.latency"),
        source="a file of the person who asks",
        measured=check_constants(
            stated.measured,
            NETWORK_CONSTANTS if field == "network" else SCALE_UP_CONSTANTS,
            field=f"{field}.measured",
        ),
    )


def _peak(key: str, rate: str | float) -> float:
    """FLOP/s: a number, or text such as ``989T`` or ``2.25PFLOP/s``."""
    field = f"peak.{key}"
    if key not in _PEAK_KEYS:
        raise InputError(
            field=field[:100],
            value=rate,
            problem="is not a format that has a peak",
            accepted=", ".join(_PEAK_KEYS),
        )
    text = str(rate).strip()
    for unit in ("FLOP/s", "FLOPS", "OP/s", "OPS"):
        text = text.removesuffix(unit)
    return float(parse_count(text.strip(), field=field))

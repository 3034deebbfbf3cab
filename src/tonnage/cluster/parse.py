"""Clusters as people write them: ``8xH100``, ``64 x A100-40GB``, ``8..64xH100``."""

from __future__ import annotations

import re

from tonnage.cluster.cluster import LARGEST_CLUSTER, Cluster, check_count, check_gpus
from tonnage.cluster.device import Device
from tonnage.cluster.find import find_device
from tonnage.errors import InputError

_ACCEPTED = "a number and a device, such as 8xH100"
_ACCEPTED_LIST = "such as 8xH100, or 8,64xH100, or 8..64xH100"
_LONGEST_LIST = 64
_LONGEST_RANGE = 4096
_LONGEST_TEXT = 4096  # also keeps a count short enough for `int`

_COUNT = r"[0-9]+"
_CLUSTER = re.compile(rf"(?:(?P<gpus>{_COUNT})\s*[x×*]\s*)?(?P<device>\S.*)", re.IGNORECASE)
_ITEM = re.compile(
    rf"(?P<first>{_COUNT})(?:\s*\.\.\s*(?P<last>{_COUNT}))?(?:\s*[x×*]\s*(?P<device>\S.*))?",
    re.IGNORECASE,
)


def parse_cluster(
    text: str,
    *,
    field: str = "--gpus",
    device: Device | None = None,
    gpus_per_node: int | None = None,
) -> Cluster:
    """One cluster: ``8xH100``, ``8×H100``, ``64 x A100-40GB``, or ``H100`` for one device.

    Args:
        text: how many of what.
        field: the flag or key that it stands in, for errors.
        device: a device that is not in the catalog; the text is then a bare count.
        gpus_per_node: devices in one host, where not as many as usual.

    Raises:
        InputError: where the text does not have this form, the device is not known, or
            so many of them do not fill whole nodes.
    """
    content = _within_limits(text, field=field).strip()
    if "," in content or ".." in content:
        raise InputError(
            field=field,
            value=text,
            problem="is a list of clusters",
            accepted=_ACCEPTED,
            hint="tonnage scale takes a list",
        )
    bare = re.fullmatch(_COUNT, content)
    if device is not None:
        if bare is None:
            problem = "names a device, which a device file does already"
            raise InputError(field=field, value=text, problem=problem, accepted="a count")
        return _cluster(int(content), device, gpus_per_node, field=field)
    match = _CLUSTER.fullmatch(content)
    if match is None or bare:
        problem = "names no device" if content else "is empty"
        raise InputError(field=field, value=text, problem=problem, accepted=_ACCEPTED)
    found = find_device(match["device"], field=field)
    return _cluster(int(match["gpus"] or 1), found, gpus_per_node, field=field)


def parse_clusters(
    text: str,
    *,
    field: str = "--gpus",
    device: Device | None = None,
    gpus_per_node: int | None = None,
    every: bool = False,
) -> tuple[Cluster, ...]:
    """Several clusters: items by comma, in the order written.

    A bare count takes the device of the next item that names one (``8,64xH100``), and
    ``8..64xH100`` doubles: 8, 16, 32 and 64.

    Args:
        text: how many of what, several times.
        field: the flag or key that it stands in, for errors.
        device: a device that is not in the catalog; every item is then a bare count.
        gpus_per_node: devices in one host, where not as many as usual.
        every: a range is not doubled: it is all whole hosts, powers of two within a host, and
            its ends.

    Raises:
        InputError: as `parse_cluster`, or where a count has no device to take.
    """
    items = _within_limits(text, field=field).split(",")
    if len(items) > _LONGEST_LIST:
        problem = f"has more than {_LONGEST_LIST} parts"
        raise InputError(field=field, value=text, problem=problem, accepted=_ACCEPTED_LIST)
    found: list[tuple[Cluster, ...]] = []
    entry = device
    for item in reversed(items):  # the device of a bare count stands to its right
        first, last, named = _ends_and_device(item.strip(), field=field)
        if named and device is not None:
            problem = "names a device, which a device file does already"
            raise InputError(field=field, value=item.strip(), problem=problem, accepted="a count")
        entry = find_device(named, field=field) if named else entry
        if entry is None:
            raise InputError(
                field=field,
                value=text.strip(),
                problem=f"names no device for {item.strip()}",
                accepted=_ACCEPTED_LIST,
                hint="a bare count takes the device that comes after it",
            )
        if every:
            host = gpus_per_node or entry.gpus_per_node
            counts = _hosts(item.strip(), first, last, host, field=field)
        else:
            counts = _doubled(item.strip(), first, last, field=field)
        each = [_cluster(count, entry, gpus_per_node, field=field) for count in counts]
        found.append(tuple(each))
    return tuple(cluster for clusters in reversed(found) for cluster in clusters)


def _within_limits(text: str, *, field: str) -> str:
    if not isinstance(text, str):
        raise InputError(field=field, value=text, problem="is not text", accepted=_ACCEPTED_LIST)
    if len(text) <= _LONGEST_TEXT:
        return text
    problem = f"is longer than {_LONGEST_TEXT} characters"
    raise InputError(field=field, value=text, problem=problem, accepted=_ACCEPTED_LIST)


def _ends_and_device(item: str, *, field: str) -> tuple[int, int, str]:
    """The first and last count of one item, and its device ('' where it names none)."""
    if not item:
        problem = "has an empty part"
        raise InputError(field=field, value="''", problem=problem, accepted=_ACCEPTED_LIST)
    match = _ITEM.fullmatch(item)
    if match is None:
        return 1, 1, item
    first = int(match["first"])
    return first, int(match["last"] or first), match["device"] or ""


def _doubled(item: str, first: int, last: int, *, field: str) -> tuple[int, ...]:
    """``first``, twice ``first``, and so on to ``last``, which must be one of them."""
    counts = [first]
    while 0 < counts[-1] < last and len(counts) <= LARGEST_CLUSTER.bit_length():
        counts.append(2 * counts[-1])
    if counts[-1] == last:
        return tuple(counts)
    below = max([count for count in counts if count < last], default=first)
    raise InputError(
        field=field,
        value=item,
        problem=f"does not reach {last} by doubling {first}",
        accepted=f"{first}..{below} or {first}..{2 * below}" if first else "a count from 1",
    )


def _hosts(item: str, first: int, last: int, host: int, *, field: str) -> tuple[int, ...]:
    """``first`` to ``last``: whole hosts, powers of two within one, and both ends."""
    if not 0 < first <= last or (last - first) // host > _LONGEST_RANGE:
        raise InputError(
            field=field,
            value=item,
            problem=f"is no range of at most {_LONGEST_RANGE} hosts",
            accepted="such as 8..1024xH100",
        )
    within = (2**power for power in range(host.bit_length()))
    whole = range(-(-first // host) * host, last + 1, host)
    counts = {first, last, *(count for count in within if count < host), *whole}
    return tuple(sorted(count for count in counts if first <= count <= last))


def _cluster(gpus: int, device: Device, gpus_per_node: int | None, *, field: str) -> Cluster:
    if gpus_per_node is not None:
        check_count(gpus_per_node, field="gpus_per_node")
    per_node = gpus_per_node or device.gpus_per_node
    check_gpus(gpus, per_node, field=field)
    return Cluster.of(device, 1).override(gpus=gpus, gpus_per_node=per_node)

"""From a device's or a link's name, as people write it, to the entry of the catalog."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from tonnage.cluster.catalog import DEVICES, LINKS
from tonnage.cluster.device import Device
from tonnage.cluster.link import Link
from tonnage.errors import InputError

_LONGEST_NAME = 100
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2212"  # hyphens and dashes that are not ASCII's
_SEPARATORS = re.compile(rf"[\s_{_DASHES}-]+")
_MAKERS = re.compile(
    r"^(nvidia|geforce|tesla|amd|instinct|radeon|huawei|google|cloud|intel|habana|aws|apple)+"
)
_MEMORY = re.compile(r"(?<![0-9a-z.])([0-9]{1,4})\s*gi?b?(?![0-9a-z])")
_REMARK = re.compile(r"\s*[(@/].*|\s+x(?:4|8|16)$")
"""What is no part of a name: ``(HBM2e, 500 W)``, ``@330W``, ``/ A3``, the lanes of a slot."""


def find_device(text: str, *, field: str = "--gpus") -> Device:
    """The device of that name.

    Case, spaces, hyphens, underscores and the maker's name do not matter, and the memory
    may stand anywhere: ``A100-40GB``, ``a100 80gb``, ``NVIDIA H100 80GB HBM3``,
    ``H100 (96 GB, 500 W)``. A name that several devices share means the commonest:
    ``V100`` has 32 GB, ``A100`` 80 GB, and both are, like ``H100``, the SXM part;
    ``Ascend 910B`` is the 910B3. An ``MI250X`` and an ``Ascend 910C`` are one of their
    two dies, as PyTorch counts them.

    Raises:
        InputError: for a name that is not known, with those nearest to it.
    """
    name = text.strip().lower()
    if len(name) <= _LONGEST_NAME:
        table = _devices()
        for key in _keys(name):
            if key in table:
                return table[key]
    raise InputError(
        field=field,
        value=text.strip(),
        problem="is not a device that Tonnage knows",
        accepted=", ".join(_nearest(name[:_LONGEST_NAME], _devices())),
    )


def find_link(text: str, *, field: str = "network") -> Link:
    """The link of that name: ``NVLink 4``, ``InfiniBand NDR`` or ``NDR``, ``RoCE 400``.

    Case, spaces and hyphens do not matter.

    Raises:
        InputError: for a name that is not known, with those nearest to it.
    """
    name = text.strip().lower()
    found = _links().get(_plain(name)) if len(name) <= _LONGEST_NAME else None
    if found is not None:
        return found
    raise InputError(
        field=field,
        value=text.strip(),
        problem="is not a link that Tonnage knows",
        accepted=", ".join(_nearest(name[:_LONGEST_NAME], _links())),
        hint='a link of your own is a table: {bandwidth = "50GB/s", latency = "5us"}',
    )


def _keys(name: str) -> tuple[str, ...]:
    """What to look for in the table, the most exact first.

    The name itself; with its memory moved to the end; without remarks, but with the memory
    that a remark names; and without remarks.
    """
    memory = _MEMORY.search(name)
    bare = _REMARK.sub("", name)
    if memory is None:
        return (_plain(name), _plain(bare))
    size = f"{int(memory[1])}gb"
    rest = name[: memory.start()] + name[memory.end() :]
    without = _MEMORY.sub("", bare)
    says_only_memory = bare != without or _MEMORY.fullmatch(name[len(bare) :].strip(" (@/)"))
    last = () if says_only_memory else (_plain(bare),)
    return (_plain(name), f"{_plain(rest)}{size}", f"{_plain(without)}{size}", *last)


def _plain(name: str) -> str:
    return _MAKERS.sub("", _SEPARATORS.sub("", name.lower()))


@cache
def _devices() -> Mapping[str, Device]:
    """Every name, without separators, and the first device of the catalog that has it."""
    table: dict[str, Device] = {}
    for device in DEVICES:
        memory = f"{round(device.memory_bytes / 1e9)}gb"
        for name in (device.name, *device.aliases):
            key = _plain(name)
            table.setdefault(key, device)
            table.setdefault(f"{key}{memory}", device)
    return table


@cache
def _links() -> Mapping[str, Link]:
    """Every name, without separators, and its link."""
    return {_plain(name): link for link in LINKS for name in (link.name, *link.aliases)}


def _nearest(name: str, table: Mapping[str, Device] | Mapping[str, Link]) -> list[str]:
    """The names of the entries nearest to a name; all where none is near."""
    import difflib  # only an error needs it, and every command would pay for the import

    close = difflib.get_close_matches(_plain(name), table, n=8, cutoff=0.5)
    names = list(dict.fromkeys(table[key].name for key in close))[:4]
    return names or list(dict.fromkeys(entry.name for entry in table.values()))

"""From a device's name, as people write it, to the device."""

from __future__ import annotations

import re
from functools import cache

from tonnage.cluster.catalog import DEVICES
from tonnage.cluster.device import Device
from tonnage.errors import InputError

_LONGEST_NAME = 100
_SEPARATORS = re.compile(r"[\s_-]+")
_MAKERS = re.compile(r"^(nvidia|geforce|tesla|amd|instinct|huawei)+")
_MEMORY = re.compile(r"(?<![0-9a-z])([0-9]{1,4})\s*gi?b?(?![0-9a-z])")


def find_device(text: str, *, field: str = "--gpus") -> Device:
    """The device of that name.

    Case, spaces, hyphens, underscores and the maker's name do not matter, and the memory
    may stand anywhere: ``A100-40GB``, ``a100 80gb``, ``NVIDIA H100 80GB HBM3``. A name
    that several devices share means the commonest: ``V100`` has 32 GB, ``A100`` 80 GB,
    and both are, like ``H100``, the SXM part; ``Ascend 910B`` is the 910B3.

    Raises:
        InputError: for a name that is not known, with those nearest to it.
    """
    name = text.strip().lower()
    if len(name) <= _LONGEST_NAME:
        table = _table()
        for key in _keys(name):
            if key in table:
                return table[key]
    raise InputError(
        field=field,
        value=text.strip(),
        problem="is not a device that Tonnage knows",
        accepted=", ".join(_nearest(name[:_LONGEST_NAME])),
    )


def _keys(name: str) -> tuple[str, ...]:
    """What to look for in the table: the name itself, and with its memory moved to the end."""
    memory = _MEMORY.search(name)
    if memory is None:
        return (_plain(name),)
    rest = _plain(name[: memory.start()] + name[memory.end() :])
    return (_plain(name), f"{rest}{int(memory[1])}gb")


def _plain(name: str) -> str:
    return _MAKERS.sub("", _SEPARATORS.sub("", name.lower()))


@cache
def _table() -> dict[str, Device]:
    """Every name, without separators, and the first device of the catalog that has it."""
    table: dict[str, Device] = {}
    for device in DEVICES:
        memory = f"{round(device.memory_bytes / 1e9)}gb"
        for name in (device.name, *device.aliases):
            key = _plain(name)
            table.setdefault(key, device)
            table.setdefault(f"{key}{memory}", device)
    return table


def _nearest(name: str) -> list[str]:
    """The names of the devices nearest to a name; all devices where none is near."""
    import difflib  # only an error needs it, and every command would pay for the import

    table = _table()
    close = difflib.get_close_matches(_plain(name), table, n=8, cutoff=0.5)
    names = list(dict.fromkeys(table[key].name for key in close))[:4]
    return names or [device.name for device in DEVICES]

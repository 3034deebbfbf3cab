"""Public models under short names, each with the source of its facts.

The facts are the keys of the model's own config.json, so that an entry is read by the
same code as a file and can be checked against one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.config import read_config

_HUB: Final = "https://huggingface.co/"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A model of the catalog.

    Attributes:
        name: its short name.
        source: the URL of its config.json, or of the paper that gives its sizes.
        config: the keys of its config.json that decide its architecture.
    """

    name: str
    source: str
    config: Mapping[str, object]

    @property
    def hub_name(self) -> str:
        """``organisation/model`` where the source is a file on the hub; empty for a paper."""
        return "/".join(self.source.removeprefix(_HUB).split("/")[:2]) if self.on_hub else ""

    @property
    def on_hub(self) -> bool:
        """Whether the source is a file on the hub."""
        return self.source.startswith(_HUB)

    def read(self) -> Architecture:
        """The entry as an `Architecture`."""
        return read_config(self.config, name=self.name, source=self.source)


@cache
def entries() -> Mapping[str, Entry]:
    """The catalog by name, read from the package when first asked for."""
    from importlib.resources import files

    text = files("tonnage.arch").joinpath("catalog.json").read_text(encoding="utf-8")
    return {name: Entry(name=name, **facts) for name, facts in json.loads(text).items()}


def catalog_names() -> tuple[str, ...]:
    """The short names, in the catalog's order: by family, then by size."""
    return tuple(entries())


def find(model: str) -> Entry | None:
    """The entry of a short name or of a hub name, in any case; None where there is none."""
    wanted = model.strip().lower()
    by_name = entries().get(wanted)
    on_hub = (entry for entry in entries().values() if entry.on_hub)
    return by_name or next((e for e in on_hub if e.hub_name.lower() == wanted), None)


def nearest(model: str) -> tuple[str, ...]:
    """Up to three short names that look like what was asked for."""
    from difflib import get_close_matches

    wanted = model.strip().lower().rsplit("/", 1)[-1][:100]
    return tuple(get_close_matches(wanted, catalog_names(), n=3, cutoff=0.5))

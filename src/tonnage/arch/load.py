"""MODEL, as a person writes it -> `Architecture`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from tonnage.arch import catalog, hub
from tonnage.arch.architecture import Architecture
from tonnage.arch.config import LARGEST_FILE, parse_config, read_config
from tonnage.errors import InputError
from tonnage.files import UnreadableError, read_bounded

_ACCEPTED = "a catalog name, a config.json, a folder that holds one, - or organisation/model"


@dataclass(frozen=True, kw_only=True)
class Found:
    """A config.json that was found.

    Attributes:
        config: its keys.
        name: what people call the model.
        source: where it came from.
    """

    config: Mapping[str, object]
    name: str
    source: str

    def read(self) -> Architecture:
        """The facts in it."""
        return read_config(self.config, name=self.name, source=self.source)


def load(model: str) -> Architecture:
    """Find a model and read its config.json.

    Args:
        model: a catalog name in any case; the path of a config.json or of a folder that
            holds one; ``-`` for stdin; or a hub name, looked up in the local Hugging
            Face cache and then, config.json alone, on the hub.

    Raises:
        InputError: there is no such model, it cannot be fetched, or its file is unusable.
        NotModelledError: the model makes sense and is not modelled.
    """
    return find_config(model).read()


def find_config(model: str) -> Found:
    """Find a model's config.json, as `load` does, and leave it unread.

    Raises:
        InputError: there is no such model, it cannot be fetched, or its file is no JSON.
    """
    if not isinstance(model, str):
        raise InputError(
            field="MODEL", value=model, problem="is not text that names one", accepted=_ACCEPTED
        )
    entry = catalog.find(model)
    if entry is not None:
        return Found(config=entry.config, name=entry.name, source=entry.source)
    if model == "-":
        config = parse_config(_read("-", model="-"), model="-")
        return Found(config=config, name="stdin", source="stdin")
    path = os.path.expanduser(model)
    if os.path.isdir(path):
        file = os.path.join(path, "config.json")
        if not os.path.lexists(file):
            raise InputError(
                field="MODEL", value=model, problem="holds no config.json", accepted=_ACCEPTED
            )
        return _find_file(file, model=model)
    if os.path.exists(path):
        return _find_file(path, model=model)
    if hub.is_hub_name(model) and not model.endswith(".json"):
        return _find_on_hub(model)
    raise _unknown(model)


def _find_on_hub(model: str) -> Found:
    cached = hub.cached_config(model)
    if cached is not None:
        config = parse_config(_read(str(cached), model=model), model=model)
        return Found(config=config, name=model, source=str(cached))
    config, url = hub.fetch_config(model)
    return Found(config=config, name=model, source=url)


def _find_file(path: str, *, model: str) -> Found:
    config = parse_config(_read(path, model=model), model=model)
    return Found(config=config, name=_name_of(path), source=path)


def _read(path: str, *, model: str) -> bytes:
    """The first bytes of a file: enough to see that it is too large, whatever it is."""
    try:
        return read_bounded(path, LARGEST_FILE)
    except UnreadableError as error:
        raise InputError(
            field="MODEL", value=model, problem=str(error), accepted=_ACCEPTED
        ) from None


def _name_of(path: str) -> str:
    """What a file is called: its folder's name where it is one of many a config.json."""
    folder, file = os.path.split(os.path.abspath(path))
    stem, _ = os.path.splitext(file)
    return os.path.basename(folder) or stem if stem == "config" else stem


def _unknown(model: str) -> InputError:
    is_path = model.startswith(("/", ".", "~")) or model.endswith(".json")
    near = () if is_path else catalog.nearest(model)
    return InputError(
        field="MODEL",
        value=model,
        problem="does not exist" if is_path else "is neither in the catalog nor a file",
        accepted=_ACCEPTED,
        hint=f"did you mean {' or '.join(near)}?" if near else "",
    )

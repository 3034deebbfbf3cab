"""The kinds of launch file that are read: how each is recognised, and its reader.

A reader's module is imported when a file is to be read with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from tonnage.formats.document import Document
from tonnage.formats.launch import Launch


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of launch file.

    Attributes:
        name: what ``--config-kind`` calls it.
        summary: whose files these are.
        module: of the reader, which has ``detect(Document) -> bool`` and
            ``read(Document) -> Launch``.
    """

    name: str
    summary: str
    module: str

    def detect(self, document: Document) -> bool:
        """Whether the content of a file is of this kind."""
        detect: Callable[[Document], bool] = import_module(self.module).detect
        return detect(document)

    def read(self, document: Document) -> Launch:
        """The file in Tonnage's nouns.

        Raises:
            InputError: the file is no training launch, or a key has no value of its type.
        """
        read: Callable[[Document], Launch] = import_module(self.module).read
        return read(document)


def _kind(name: str, summary: str) -> Kind:
    return Kind(name=name, summary=summary, module=f"tonnage.formats.read.{name.replace('-', '_')}")


_KINDS: tuple[Kind, ...] = (
    _kind("mindspeed", "MindSpeed on Ascend: scripts, arguments"),
    _kind("megatron", "Megatron-LM: scripts, arguments, YAML"),
    _kind("nanotron", "nanotron: YAML"),
    _kind("torchtitan", "torchtitan: TOML"),
    _kind("gpt-neox", "GPT-NeoX: YAML"),
    _kind("llm-foundry", "LLM Foundry: YAML"),
    _kind("nemo", "NeMo and Megatron-Bridge: YAML, overrides, Python recipes"),
)
"""In the order in which they are tried: the most telling first."""

KINDS: dict[str, Kind] = {kind.name: kind for kind in _KINDS}

"""The kinds of launch file that are read: how each is recognised, and its reader.

A reader's module is imported when a file is to be read with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from tonnage.formats.document import Document
from tonnage.formats.launch import Launch

if TYPE_CHECKING:
    from tonnage.formats.hugging_face.part import Part


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of launch file.

    Attributes:
        name: what ``--config-kind`` calls it.
        summary: whose files these are.
        module: of the reader, which has ``detect(Document) -> bool`` and
            ``read(Document) -> Launch``.
        joins: several files may describe one run: the reader has ``parts(Document)`` in place
            of ``read``, and `tonnage.formats.hugging_face.part.join` makes the launch.
    """

    name: str
    summary: str
    module: str
    joins: bool = False

    def detect(self, document: Document) -> bool:
        """Whether the content of a file is of this kind."""
        detect: Callable[[Document], bool] = import_module(self.module).detect
        return detect(document)

    def read(self, document: Document, gpus: int | None = None) -> Launch:
        """The file in Tonnage's nouns.

        Args:
            document: the file.
            gpus: devices that are given beside it, for what depends on their number.

        Raises:
            InputError: the file is no training launch, or a key has no value of its type.
        """
        if self.joins:
            from tonnage.formats.hugging_face.part import join

            return join(self.parts(document), gpus)
        read: Callable[[Document], Launch] = import_module(self.module).read
        return read(document)

    def parts(self, document: Document) -> tuple[Part, ...]:
        """What the file, and those that it names, say of a run.

        Raises:
            InputError: the file is no training launch, or a key has no value of its type.
        """
        parts: Callable[[Document], tuple[Part, ...]] = import_module(self.module).parts
        return parts(document)


def _kind(name: str, summary: str, *, joins: bool = False) -> Kind:
    module = f"tonnage.formats.read.{name.replace('-', '_')}"
    return Kind(name=name, summary=summary, module=module, joins=joins)


_KINDS: tuple[Kind, ...] = (
    _kind("mindspeed", "MindSpeed on Ascend: scripts, arguments"),
    _kind("megatron", "Megatron-LM: scripts, arguments, YAML"),
    _kind("nanotron", "nanotron: YAML"),
    _kind("torchtitan", "torchtitan: TOML"),
    _kind("gpt-neox", "GPT-NeoX: YAML"),
    _kind("llm-foundry", "LLM Foundry: YAML"),
    _kind("torchtune", "torchtune: YAML, `tune run`"),
    _kind("axolotl", "axolotl: YAML", joins=True),
    _kind("llama-factory", "LLaMA-Factory: YAML or JSON", joins=True),
    _kind("accelerate", "accelerate: YAML of FSDP, DeepSpeed, Megatron-LM", joins=True),
    _kind("deepspeed", "DeepSpeed: JSON", joins=True),
    _kind("ms-swift", "ms-swift: YAML or JSON", joins=True),
    _kind("litgpt", "LitGPT: YAML, `litgpt` commands"),
    _kind("trl", "TRL: YAML or JSON", joins=True),
    _kind("nemo-automodel", "NeMo AutoModel: YAML"),
    _kind("nemo", "NeMo and Megatron-Bridge: YAML, overrides, Python recipes"),
    _kind("command", "scripts and commands that start a Hugging Face trainer", joins=True),
    _kind("transformers", "the Hugging Face Trainer: YAML or JSON", joins=True),
)
"""In the order in which they are tried: the most telling first."""

KINDS: dict[str, Kind] = {kind.name: kind for kind in _KINDS}

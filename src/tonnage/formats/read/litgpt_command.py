"""``litgpt VERB``: the settings that it names and the options set over them.

Source: LitGPT 0.5, ``__main__.py``: ``finetune`` is ``finetune_lora``; a checkpoint, or a model's
name for ``pretrain``, may stand before the options, and an option is a dotted path of the YAML.
"""

from __future__ import annotations

from tonnage.errors import NotModelledError
from tonnage.formats.command import read_options
from tonnage.formats.document import Document
from tonnage.formats.overrides import find_command, lay_over

_VERBS = ("finetune", "finetune_lora", "finetune_full", "pretrain")
_OTHERS = ("finetune_adapter", "finetune_adapter_v2")
_METHODS = ("lora", "full", "adapter", "adapter_v2")
"""What followed ``finetune`` in LitGPT before 0.4.3."""


def is_command(document: Document) -> bool:
    """Whether a script starts a training of LitGPT."""
    return bool(find_command(document, "litgpt", *_VERBS, *_OTHERS))


def unfold(document: Document) -> Document:
    """The settings of a script's training as a file of its own.

    Raises:
        InputError: its settings are not beside it.
        NotModelledError: it trains LLaMA-Adapter's prompts.
    """
    verb, *rest = find_command(document, "litgpt", *_VERBS, *_OTHERS)
    if rest and rest[0] in _METHODS:
        verb = f"{verb}_{rest.pop(0)}"
    if "adapter" in verb:
        raise NotModelledError(
            field="config",
            value=verb,
            problem="trains prompts inside attention, which are not modelled",
            accepted="finetune_full, finetune_lora or pretrain",
        )
    own = "model_name" if verb == "pretrain" else "checkpoint_dir"
    place = {own: rest.pop(0)} if rest and not rest[0].startswith("-") else {}
    said = {name.lstrip("-"): value for name, value in read_options(rest).items()}
    name = str(said.pop("config", ""))
    adapts = not name and verb in ("finetune", "finetune_lora")
    usual: dict[str, object] = {"lora_r": 8} if adapts else {}
    return lay_over(document, {**usual, **place, **said}, name)

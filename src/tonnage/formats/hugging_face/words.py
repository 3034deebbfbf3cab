"""The words of a command that starts a Hugging Face trainer -> documents of its parts.

A launcher's options say what accelerate's configuration would, and the program's what its YAML
would; files that they name are read where they lie beside the script.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tonnage.errors import InputError
from tonnage.formats.command import read_options
from tonnage.formats.document import Document
from tonnage.formats.text import parse_document, read_document

_LAUNCHERS = frozenset({"torchrun", "accelerate", "deepspeed", "python", "python3"})
_SUBCOMMANDS = {
    "swift": ("sft", "pt", "rlhf", "train"),
    "megatron": ("sft", "pt", "rlhf"),
    "llamafactory-cli": ("train",),
    "axolotl": ("train",),
    "trl": ("sft", "dpo", "kto", "orpo", "reward", "grpo", "rloo", "online_dpo"),
}
"""Commands with a verb of their own, and the verbs that train."""

_YAML = (".yaml", ".yml", ".json")
_TRAINING = re.compile(r"per_device_train_batch_size|per_gpu_train_batch_size|output_dir|deepspeed")


@dataclass(frozen=True, kw_only=True)
class Started:
    """A command that starts a trainer.

    Attributes:
        tool: the kind that its program is known to be; empty: told by its options.
        launcher: the launcher's options by their names without hyphens.
        starter: which launcher it is; empty: none.
        options: the program's.
        files: names of files that the program is given, in order.
    """

    tool: str
    launcher: Mapping[str, object]
    starter: str
    options: Mapping[str, object]
    files: tuple[str, ...]


def read_words(words: Sequence[str]) -> Started | None:
    """What a command starts; None: nothing of Hugging Face's.

    Args:
        words: of one command.
    """
    if not words:
        return None
    name = os.path.basename(words[0])
    if name in _SUBCOMMANDS and len(words) > 1:
        if words[1] not in _SUBCOMMANDS[name]:
            return None
        method = {"trainer": words[1]} if name == "trl" else {}
        return _started(_TOOLS[name], {}, "", words[2:], method)
    if name not in _LAUNCHERS:
        return None
    index = _program(words)
    if index is None:
        return None
    launcher = _plain(read_options(words[1:index]))
    starter = "torchrun" if "torch.distributed" in " ".join(words[:index]) else name
    tool = next((kind for mark, kind in _PROGRAMS.items() if mark in words[index]), "")
    rest = words[index + 1 :]
    if tool == "ms-swift" and rest and not rest[0].startswith("-"):
        rest = rest[1:]
    trainer = _method(words[index])
    if trainer and not tool:
        tool = "trl"
    found = _started(tool, launcher, starter, rest, {"trainer": trainer} if trainer else {})
    if not tool and _PREPARES.search(words[index]):
        return None
    given = " ".join(found.options)
    return found if tool or found.files or _TRAINING.search(given) else None


_METHODS = ("sft", "dpo", "orpo", "cpo", "kto", "grpo", "ppo", "rloo", "reward", "gkd")
_TRL_PROGRAM = re.compile(
    rf"(?:^|[/.]|run_)({'|'.join(_METHODS)})(?:_modeling|_trainer)?(?:\.py)?$"
)
"""A script of TRL's examples or of the alignment handbook, by its name."""

_PREPARES = re.compile(r"(?:init|convert|merge|export|preprocess|eval|infer|llama_pro)[^/]*\.py$")
"""Programs that make a model or data ready, or use one: they share options with trainers."""


def _method(program: str) -> str:
    """The trainer that a program's name says; empty: it says none."""
    found = _TRL_PROGRAM.search(program)
    return "" if found is None else found[1]


_TOOLS = {
    "swift": "ms-swift",
    "megatron": "ms-swift",
    "llamafactory-cli": "llama-factory",
    "axolotl": "axolotl",
    "trl": "trl",
}
_PROGRAMS = {
    "axolotl.cli.train": "axolotl",
    "llamafactory": "llama-factory",
    "swift/cli/": "ms-swift",
    "swift.cli.": "ms-swift",
    "trl/scripts/": "trl",
    "trl.scripts.": "trl",
}


def _program(words: Sequence[str]) -> int | None:
    """Where the program stands: a Python file, or the module behind ``-m`` or ``--module``."""
    for index, word in enumerate(words[1:], 1):
        if word.endswith(".py"):
            return index
        module = words[index - 1] in ("-m", "--module") and not word.startswith("torch.distributed")
        if module:
            return index
    return None


def _started(
    tool: str,
    launcher: Mapping[str, object],
    starter: str,
    words: Sequence[str],
    more: Mapping[str, object],
) -> Started:
    files: list[str] = []
    rest = list(words)
    while rest and not rest[0].startswith("-") and "=" not in rest[0]:
        files.append(rest.pop(0))
    options = {**_plain(read_options(rest)), **more}
    config = options.pop("config", None)
    if isinstance(config, str):
        files.append(config)
    files = [name for name in files if name.endswith(_YAML)]
    return Started(
        tool=tool, launcher=launcher, starter=starter, options=options, files=tuple(files)
    )


def _plain(options: Mapping[str, object]) -> dict[str, object]:
    """Options as a YAML file has them: no hyphens, and lists as lists."""
    return {name.lstrip("-").replace("-", "_"): value for name, value in options.items()}


def beside(document: Document, name: str) -> Document | None:
    """A file that a script names, where it lies beside it or the script writes it."""
    text = document.written.get(name)
    if text is not None:
        try:
            return parse_document(os.path.basename(name), text)
        except InputError:  # what the script does not say stands in it
            return None
    if document.folder is None or os.path.isabs(name):
        return None
    for candidate in (name, os.path.basename(name)):
        path = os.path.normpath(os.path.join(document.folder, candidate))
        if os.path.isfile(path):
            return read_document(path)
    return None

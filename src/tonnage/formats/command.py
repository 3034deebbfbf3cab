"""The training command of a script: its program, its options and how many devices start it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tonnage.files import UnreadableError
from tonnage.formats.document import Document
from tonnage.formats.shell import Script, read_script
from tonnage.formats.text import refuse

Options = Mapping[str, object]

_PER_NODE = ("nproc-per-node", "num-gpus", "gpus-per-node", "ntasks-per-node", "num-processes-per")
_NODES = ("nnodes", "num-nodes", "nodes", "N")
_TOTAL = ("ntasks", "np", "n", "num-processes")
_PER_NODE_NAMES = ("GPUS_PER_NODE", "NPUS_PER_NODE", "NPROC_PER_NODE", "GPU_PER_NODE", "NUM_GPUS")
_NODE_NAMES = ("NNODES", "NUM_NODES", "SLURM_NNODES", "NODE_NUM")
_NUMBER = re.compile(r"-\.?[0-9]")
_RUNNERS = re.compile(r"(?:.*/)?(?:torchrun|srun|mpirun|mpiexec|deepspeed|accelerate|python[\d.]*)")


@dataclass(frozen=True, kw_only=True)
class Command:
    """What a script starts.

    Attributes:
        program: the Python file or module; empty for a bare list of arguments.
        options: its options as they are written (``--micro-batch-size``): True for one without
            a value, text for one value, a list of texts for more.
        gpus: processes in all, where the launcher or the script says so.
        notes: what of the script was not followed.
    """

    program: str
    options: Options
    gpus: int | None
    notes: tuple[str, ...] = ()


def read_command(document: Document) -> Command:
    """The command with the most options that a script would run.

    Raises:
        InputError: the script unfolds to too much.
    """
    try:
        script = read_script(document.text)
    except (UnreadableError, RecursionError) as error:
        problem = str(error) if isinstance(error, UnreadableError) else "is nested too deeply"
        raise refuse(document.name, problem) from None
    found = [_split(words) for words in script.commands]
    best = max(found, key=lambda one: len(one[2]), default=((), "", {}))
    launcher, program, options = best
    if not program:
        bare = [word for words in script.commands if words[0].startswith("--") for word in words]
        options = {**read_options(bare), **options} if bare else options
    return Command(
        program=program, options=options, gpus=_gpus(launcher, script), notes=script.notes
    )


def _split(words: Sequence[str]) -> tuple[tuple[str, ...], str, Options]:
    """The launcher's words, the program, and the program's options."""
    if words[0].startswith("--"):
        return (), "", read_options(words)
    index = _program(words)
    if index is None:
        return (), "", {}
    return tuple(words[:index]), words[index], read_options(words[index + 1 :])


def _program(words: Sequence[str]) -> int | None:
    """Where the program stands: the first Python file, or the module behind ``-m``."""
    if not any(_RUNNERS.fullmatch(word) for word in words):
        return 0 if words[0].endswith(".py") else None
    for index, word in enumerate(words):
        if word.endswith(".py"):
            return index
        if word == "-m" and index + 1 < len(words):
            module = words[index + 1]
            if not module.startswith(("torch.distributed", "accelerate")):
                return index + 1
    return None


def read_options(words: Iterable[str]) -> dict[str, object]:
    """Options and their values; a word that looks like a negative number is a value.

    A ``name=value`` without hyphens is an override of Hydra's, and keeps its name.
    """
    found: dict[str, list[str]] = {}
    current: str | None = None
    for word in words:
        if word.startswith("-") and not _NUMBER.match(word):
            name, equals, value = word.partition("=")
            current = name
            found[name] = [value] if equals else []
        elif current is not None and (found[current] == [] or "=" not in word):
            found[current].append(word)
        elif "=" in word:
            name, _, value = word.partition("=")
            found[name.lstrip("+~")] = [value]
    return {name: _value(values) for name, values in found.items()}


def _value(values: list[str]) -> object:
    return True if not values else values[0] if len(values) == 1 else values


def canonical(name: str) -> str:
    """An option's name without its hyphens in front, and with hyphens inside."""
    return name.lstrip("-").replace("_", "-")


def _gpus(launcher: Sequence[str], script: Script) -> int | None:
    """Processes in all: as the launcher says, or the scheduler's lines, or the variables."""
    said = {canonical(name): value for name, value in read_options(launcher).items()}
    per_node, nodes = _first(said, _PER_NODE), _first(said, _NODES)
    asked = {canonical(n): v for n, v in read_options(script.directives).items()}
    per_node = per_node or _first(asked, _PER_NODE)
    nodes = nodes or _first(asked, _NODES)
    if per_node is None:
        per_node = _first(script.values, _PER_NODE_NAMES)
    if nodes is None:
        nodes = _first(script.values, _NODE_NAMES)
    if per_node and nodes:
        return per_node * nodes
    if per_node and not any(name in said for name in _NODES) and "nproc-per-node" in said:
        return per_node
    total = _first(said, _TOTAL) or _first(asked, _TOTAL)
    return total or _first(script.values, ("WORLD_SIZE",))


def _first(values: Mapping[str, object], names: Sequence[str]) -> int | None:
    for name in names:
        value = values.get(name, "")
        # What follows a launcher's last option is the program, not a second value.
        text = str(value[0] if isinstance(value, list) and value else value)
        if text.isascii() and text.isdigit() and 0 < int(text[:9]) < 10**7:
            return int(text)
    return None

"""``tune run``: torchtune's recipe, the settings that it names and the keys set over them.

Source: torchtune 0.6, ``_cli/run.py`` (the options of torchrun stand before the recipe) and
``config/_parse.py`` (``key=value`` over the YAML of ``--config``; ``~key`` takes one out).
"""

from __future__ import annotations

from tonnage.formats.command import canonical, read_options
from tonnage.formats.detect_error import not_a_launch
from tonnage.formats.document import Document
from tonnage.formats.overrides import find_command, lay_over, read_pairs

_SERVES = ("generate", "eleuther_eval", "quantize")
_VALUED = frozenset(
    """
    nnodes nproc-per-node rdzv-backend rdzv-endpoint rdzv-id rdzv-conf max-restarts
    monitor-interval start-method role log-dir master-addr master-port local-addr node-rank
    """.split()
)
"""Options of torchrun that take a value: what follows one is no recipe."""


def is_command(document: Document) -> bool:
    """Whether a script starts a recipe of torchtune."""
    return bool(find_command(document, "tune", "run"))


def unfold(document: Document) -> tuple[Document, int | None]:
    """The settings of a script's recipe as a file of its own, and devices in all.

    Raises:
        InputError: it starts no training, or its settings are not beside it.
    """
    words = find_command(document, "tune", "run")[1:]
    index = _recipe(words)
    recipe = words[index] if index < len(words) else ""
    if any(mark in recipe for mark in _SERVES):
        raise not_a_launch(document, f"it runs {recipe}")
    rest = words[index + 1 :]
    options = read_options(word for word in rest if "=" not in word and word[0] != "~")
    name = str(options.get("--config", ""))
    dropped = {word[1:]: None for word in rest if word.startswith("~")}
    found = lay_over(document, {**read_pairs(rest), **dropped}, name)
    return found, _count(words[:index], recipe)


def _recipe(words: tuple[str, ...]) -> int:
    """Where the recipe stands: the first word that is neither an option nor its value."""
    skip = False
    for index, word in enumerate(words):
        if skip or word.startswith("-"):
            skip = not skip and "=" not in word and canonical(word) in _VALUED
            continue
        return index
    return len(words)


def _count(launcher: tuple[str, ...], recipe: str) -> int | None:
    """Devices in all; one where the recipe is for one."""
    if "single_device" in recipe:
        return 1
    options = {canonical(name): str(value) for name, value in read_options(launcher).items()}
    each, nodes = options.get("nproc-per-node", ""), options.get("nnodes", "1")
    return int(each) * int(nodes) if each.isdecimal() and nodes.isdecimal() else None

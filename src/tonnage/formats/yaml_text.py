"""YAML that nobody has checked: loaded safely, bounded, and its simple references resolved.

Anchors and aliases are followed, as launch files use them, but a file that unfolds to more
than `LARGEST_NODES` values (a "billion laughs") is refused before anything is built from it.
References of OmegaConf (https://omegaconf.readthedocs.io) are resolved where they name
another key, absolutely (``${a.b}``) or relatively (``${.b}``), or have a default in
``${oc.env:NAME,default}``; the environment itself is never read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from tonnage.files import UnreadableError

LARGEST_NODES = 50_000
DEEPEST = 60
_LONGEST_REFERENCE = 8
_REFERENCE = re.compile(r"\$\{([^${}]{1,200})\}")


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """PyYAML's safe loader in which a date is the text that it is written as."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag != "tag:yaml.org,2002:timestamp"]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse_yaml(text: str) -> tuple[Any, tuple[str, ...]]:
    """The first document of a YAML text, and what was assumed.

    Raises:
        UnreadableError: it is not YAML, or unfolds to too much.
        RecursionError: it is nested too deeply.
    """
    try:
        loader = _Loader(text)
    except yaml.YAMLError as error:  # a character that no YAML holds
        raise UnreadableError(f"is not YAML: {str(error).splitlines()[0][:80]}") from None
    try:
        node = loader.get_node() if loader.check_node() else None
        if node is None:
            return None, ()
        sizes: dict[int, int] = {}
        if _measure(node, sizes, depth=0) > LARGEST_NODES:
            raise UnreadableError("unfolds to too many values")
        notes = tuple(f"{key} stands twice: the last one counts" for key in _repeated(node))
        return loader.construct_document(node), notes
    except yaml.MarkedYAMLError as error:
        line = f" at line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UnreadableError(f"is not YAML: {error.problem}{line}") from None
    except UnreadableError:
        raise
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, OverflowError) as error:
        reason = (str(error).splitlines() or [""])[0][:80]
        raise UnreadableError(f"is not YAML: {reason}") from None
    finally:
        loader.dispose()


def _measure(node: yaml.Node, sizes: dict[int, int], depth: int) -> int:
    """Values that a node unfolds to, each alias counted anew."""
    if depth > DEEPEST:
        raise UnreadableError("is nested too deeply")
    if id(node) in sizes:
        return sizes[id(node)]
    sizes[id(node)] = LARGEST_NODES + 1  # a node inside itself
    total = 1
    if isinstance(node, yaml.SequenceNode):
        total += sum(_measure(item, sizes, depth + 1) for item in node.value)
    elif isinstance(node, yaml.MappingNode):
        for pair in node.value:
            total += sum(_measure(item, sizes, depth + 1) for item in pair)
    sizes[id(node)] = total
    return total


def _repeated(node: yaml.Node) -> list[str]:
    """Keys that a mapping names twice, which PyYAML lets pass."""
    found: list[str] = []
    stack, seen = [node], set()
    while stack:
        current = stack.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, yaml.SequenceNode):
            stack.extend(current.value)
        elif isinstance(current, yaml.MappingNode):
            names = [k.value for k, _ in current.value if isinstance(k, yaml.ScalarNode)]
            found += [name[:40] for name in dict.fromkeys(names) if names.count(name) > 1]
            stack.extend(value for _, value in current.value)
    return found


def resolve_references(values: Mapping[str, object]) -> dict[str, object]:
    """The values with simple references replaced; the others stay as they are written."""

    def walk(value: object, parents: tuple[str, ...]) -> object:
        if isinstance(value, Mapping):
            return {key: walk(item, (*parents, str(key))) for key, item in value.items()}
        if isinstance(value, list):
            return [walk(item, (*parents, "0")) for item in value]
        return _resolve(value, values, parents) if isinstance(value, str) else value

    return {str(key): walk(item, (str(key),)) for key, item in values.items()}


def _resolve(
    text: str, root: Mapping[str, object], place: tuple[str, ...], depth: int = 0
) -> object:
    whole = _REFERENCE.fullmatch(text)
    if depth >= _LONGEST_REFERENCE or "${" not in text or len(text) > 2000:
        return text
    if whole:
        found = _refer(whole[1], root, place)
        if isinstance(found, str) and found != text:
            return _resolve(found, root, place, depth + 1)
        return text if found is None and not _is_null(whole[1], root, place) else found

    def replace(match: re.Match[str]) -> str:
        found = _refer(match[1], root, place)
        return match[0] if found is None or isinstance(found, Mapping | list) else str(found)

    replaced = _REFERENCE.sub(replace, text)
    return text if replaced == text else _resolve(replaced, root, place, depth + 1)


def _path(name: str, place: tuple[str, ...]) -> list[str] | None:
    """Where a reference points: its leading dots go up from the mapping that it stands in."""
    if not re.fullmatch(r"\.*[\w\-]+(?:\.[\w\-]+)*", name):
        return None
    dots = len(name) - len(name.lstrip("."))
    base = list(place[: len(place) - dots]) if dots else []
    return [*base, *name.lstrip(".").split(".")]


def _at(root: object, path: list[str]) -> tuple[bool, object]:
    for part in path:
        if not isinstance(root, Mapping) or part not in root:
            return False, None
        root = root[part]
    return True, root


def _is_null(name: str, root: Mapping[str, object], place: tuple[str, ...]) -> bool:
    path = _path(name.strip(), place)
    return path is not None and _at(root, path) == (True, None)


def _refer(name: str, root: Mapping[str, object], place: tuple[str, ...]) -> object:
    name = name.strip()
    resolver, colon, arguments = name.partition(":")
    if not colon:
        path = _path(name, place)
        return None if path is None else _at(root, path)[1]
    parts = [part.strip() for part in arguments.split(",")]
    if resolver in ("oc.env", "env") and len(parts) == 2:
        return yaml.safe_load(parts[1]) if len(parts[1]) < 100 else None
    if resolver == "oc.select" and parts:
        found = _at(root, parts[0].split("."))[1]
        return found if found is not None or len(parts) < 2 else parts[1]
    return _arithmetic(resolver, parts)


def _arithmetic(resolver: str, parts: list[str]) -> int | None:
    """NeMo's resolvers of whole numbers."""
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    left, right = (int(part[:18]) for part in parts)
    if resolver in ("int_div", "divide") and right:
        return left // right
    return {"multiply": left * right, "add": left + right}.get(resolver)

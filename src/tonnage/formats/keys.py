"""A reader of the keys of a launch file, which keeps account of every one of them.

Keys are named by their dotted path; a list is one value. A getter returns None where a key
is absent or null, and raises an `InputError` that names the key, its value and what is
accepted where the value is of another type. What was asked for counts as used, what matches
a pattern of `ignore` as ignored, and the rest as not understood.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, NoReturn

from tonnage.errors import InputError, shorten

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
UNSAID = re.compile(r"\$[\w({@*]|`|^\?\?\?$")
"""A value that refers to what the file does not say, or that OmegaConf marks as missing."""

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


class Fields:
    """The keys of one file.

    Args:
        values: the parsed file.
    """

    def __init__(self, values: Mapping[str, object]) -> None:
        self.leaves: dict[str, object] = dict(_leaves(values, ""))
        self.notes: list[str] = []
        self.origins: dict[str, tuple[str, ...]] = {}
        self._used: set[str] = set()
        self._ignored: set[str] = set()
        self._unknown: set[str] = set()

    def has(self, *paths: str) -> bool:
        """Whether one of the keys is there and not null."""
        return any(self.leaves.get(path) is not None for path in paths)

    def first(self, *paths: str) -> str:
        """The first of the keys that is there; the first of all where none is."""
        return next((path for path in paths if path in self.leaves), paths[0])

    def under(self, prefix: str) -> tuple[str, ...]:
        """The keys below a path, and the path itself where it is a key."""
        return tuple(p for p in self.leaves if p == prefix or p.startswith(f"{prefix}."))

    def peek(self, *paths: str) -> Any:
        """The first value that is not null, without counting it as used; None: there is none."""
        return next((v for p in paths if (v := self.leaves.get(p)) is not None), None)

    def take(self, *paths: str) -> Any:
        """The value of the first of the keys that is not null, whatever it is; all are used."""
        _, value = self._take(paths)
        return value

    def whole(self, *paths: str, least: int = 0) -> int | None:
        """A whole number, which 1e6, 1_000 and ``"8"`` are too.

        Raises:
            InputError: the value is something else, or below ``least``.
        """
        path, value = self._take(paths)
        accepted = f"a whole number, {least} or more"
        number: int | None = None
        if isinstance(value, str) and _WHOLE.fullmatch(value.strip().replace("_", "")):
            number = int(value.strip().replace("_", ""))
        elif isinstance(value, int) and not isinstance(value, bool):
            number = value
        elif isinstance(value, float | str):
            number = _integral(value)
        if value is None or (number is not None and least <= number < 10**18):
            return number
        self.fail(path, value, accepted)

    def number(self, *paths: str) -> float | None:
        """A finite number, in any spelling that Python reads.

        Raises:
            InputError: the value is something else.
        """
        path, value = self._take(paths)
        if value is None:
            return None
        found = _float(value)
        return self.fail(path, value, "a number") if found is None else found

    def flag(self, *paths: str) -> bool | None:
        """True or false, in YAML's spellings too.

        Raises:
            InputError: the value is something else.
        """
        path, value = self._take(paths)
        if value is None or isinstance(value, bool):
            return value
        word = str(value).strip().lower() if isinstance(value, str | int) else ""
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        self.fail(path, value, "true or false")

    def word(self, *paths: str) -> str | None:
        """A text; a number is taken as it is written.

        Raises:
            InputError: the value is a list or a mapping.
        """
        path, value = self._take(paths)
        if value is None:
            return None
        if isinstance(value, str | int | float):
            return str(value).strip() or None
        self.fail(path, value, "a word")

    def path(self, *paths: str) -> str | None:
        """A text of which parts may refer to what the file does not say, such as a file's name."""
        present = [path for path in paths if path in self.leaves]
        self._used.update(present)
        values = (self.leaves[path] for path in present)
        return next((value for value in values if isinstance(value, str) and value), None)

    def words(self, *paths: str) -> tuple[str, ...]:
        """A list of texts, or one text with commas or blanks between them.

        Raises:
            InputError: the value is something else.
        """
        path, value = self._take(paths)
        if value is None:
            return ()
        if isinstance(value, str):
            return tuple(word for word in re.split(r"[,\s]+", value.strip()) if word)
        if isinstance(value, list | tuple) and all(isinstance(v, str | int) for v in value):
            return tuple(str(item).strip() for item in value)
        self.fail(path, value, "a list of words")

    def use(self, *patterns: str) -> None:
        """Count the keys that match as used."""
        self._used.update(self._matching(patterns))

    def ignore(self, *patterns: str) -> None:
        """Count the keys that match, and that nobody has used, as irrelevant.

        Args:
            patterns: dotted paths in which ``*`` stands for anything, dots too.
        """
        self._ignored.update(self._matching(patterns))

    def ignore_off(self, *patterns: str) -> None:
        """Count the keys that match as irrelevant where their value turns something off."""
        off = (path for path in self._matching(patterns) if not self.leaves[path])
        self._ignored.update(off)

    def leave(self, path: str, why: str) -> None:
        """Count a key as not understood, be it asked for or not, and say why."""
        if path in self.leaves:
            self._unknown.add(path)
            self.note(f"{path} {shorten(self.leaves[path], 40)}: {why}")

    def says(self, field: str, *paths: str) -> None:
        """Remember which keys a field of the plan comes from, should it not be modelled."""
        self.origins[field] = (*self.origins.get(field, ()), *(p for p in paths if self.has(p)))

    def note(self, sentence: str) -> None:
        """Say what was assumed in reading."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def fail(self, path: str, value: object, accepted: str) -> NoReturn:
        """Refuse the value of a key.

        Raises:
            InputError: always.
        """
        problem = "is no value of this key"
        raise InputError(field=f"config.{path}", value=value, problem=problem, accepted=accepted)

    def account(self) -> dict[str, tuple[str, ...]]:
        """The keys by what became of them, in the file's order: three fields of a `Launch`.

        A key that nothing asked for and whose value is null leaves its tool's default: ignored.
        """
        fates: dict[str, list[str]] = {"used": [], "ignored": [], "not_understood": []}
        for path in self.leaves:
            seen = path in self._used | self._ignored or self.leaves[path] is None
            if path in self._unknown or not seen:
                fates["not_understood"].append(path)
            else:
                fates["used" if path in self._used else "ignored"].append(path)
        return {name: tuple(paths) for name, paths in fates.items()}

    def _matching(self, patterns: tuple[str, ...]) -> Iterator[str]:
        """The keys that match; ``a.*`` takes an empty mapping ``a`` too."""
        for path, value in self.leaves.items():
            name = f"{path}." if isinstance(value, Mapping) else path
            if any(fnmatchcase(path, one) or fnmatchcase(name, one) for one in patterns):
                yield path

    def _take(self, paths: tuple[str, ...]) -> tuple[str, Any]:
        present = [path for path in paths if path in self.leaves]
        self._used.update(present)
        given = (path for path in present if self.leaves[path] is not None)
        path = next(given, paths[0])
        value = self.leaves.get(path)
        if isinstance(value, str) and UNSAID.search(value):
            self.leave(path, "the file does not say what this is")
            return path, None
        return path, value


def _leaves(values: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for key, value in values.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{path}.")
        else:
            yield path, value


def _float(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def _integral(value: object) -> int | None:
    found = _float(value)
    return int(found) if found is not None and found.is_integer() else None

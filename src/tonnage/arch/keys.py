"""A typed reader of the keys of a config.json that nobody vouches for.

Every getter either returns a value of the type and range that it promises or raises an
`InputError` that names the key with its path, the value and what is accepted. JSON's
``true`` is not a number here, ``"4096"`` is not 4096 and 4096.0 is not an int: a file
that says so was written by a mistake, and a guess would hide it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from tonnage.errors import InputError, NotModelledError

WIDEST: Final = 2**40
"""The largest width, count or length that is believed."""

DEEPEST: Final = 10_000
"""The largest number of layers that is believed."""


@dataclass(frozen=True, kw_only=True)
class Keys:
    """The keys of one JSON object and the path at which it stands.

    A getter takes a key's name and then its aliases. A ``default`` is the meaning of an
    absent key; without one an absent key is an error.

    Attributes:
        values: the object.
        path: where it stands, for error messages (``config.text_config``).
    """

    values: Mapping[str, object]
    path: str = "config"

    def has(self, name: str) -> bool:
        """Whether the key is there, be it null."""
        return name in self.values

    def require(self, *names: str) -> None:
        """Insist that a key is there, be it null."""
        self._find(*names, accepted="a value or null")

    def count(
        self, *names: str, default: int | None = None, least: int = 1, most: int = WIDEST
    ) -> int:
        """A whole number from ``least`` to ``most``."""
        accepted = f"a whole number from {least} to {most}"
        name, value = self._find(*names, accepted=accepted, default=default)
        if type(value) is not int:
            self.fail(name, value, problem="is not a whole number", accepted=accepted)
        if not least <= value <= most:
            self.fail(name, value, problem="is out of range", accepted=accepted)
        return value

    def optional_count(self, *names: str, default: int | None = None) -> int | None:
        """A positive whole number; None for null, ``default`` where the key is absent."""
        present = next((name for name in names if name in self.values), None)
        if present is None:
            return default
        return None if self.values[present] is None else self.count(*names)

    def flag(self, name: str, *, default: bool) -> bool:
        """``true`` or ``false``; null and an absent key mean the default."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.fail(name, value, problem="is not a boolean", accepted="true or false")
        return value

    def word(self, *names: str, default: str | None = None) -> str:
        """A string that is not empty."""
        name, value = self._find(*names, accepted="a string", default=default)
        if not isinstance(value, str) or not value:
            self.fail(name, value, problem="is not a name", accepted="a string")
        return value

    def fraction(self, *names: str, default: float) -> float:
        """A number from 0 to 1; null and an absent key mean the default."""
        accepted = "a number from 0 to 1"
        name, value = self._find(*names, accepted=accepted, default=default)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fail(name, value, problem="is not a number", accepted=accepted)
        if not 0 <= value <= 1:  # NaN and the infinities end here too
            self.fail(name, value, problem="is out of range", accepted=accepted)
        return float(value)

    def ratio(self, name: str, *, default: float, most: float = 1e6) -> float:
        """A number above 0; null and an absent key mean the default."""
        accepted = f"a number above 0 and up to {most:g}"
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            self.fail(name, value, problem="is out of range", accepted=accepted)
        return float(value)

    def is_set(self, name: str) -> bool:
        """Whether a number stands where null would turn a feature off."""
        value = self.values.get(name)
        if value is None:
            return False
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 < value < math.inf:  # type: ignore[operator]
            self.fail(
                name, value, problem="is not a positive number", accepted="a number above 0 or null"
            )
        return True

    def indices(self, name: str, *, below: int) -> frozenset[int]:
        """A list of whole numbers from 0 up to ``below``; null and an absent key mean none."""
        accepted = f"a list of whole numbers from 0 to {below - 1}"
        items = self._list(name, accepted=accepted)
        for item in items:
            if type(item) is not int or not 0 <= item < below:
                self.fail(name, item, problem="is not the index of a layer", accepted=accepted)
        return frozenset(item for item in items if isinstance(item, int))

    def words(self, name: str, *, length: int) -> tuple[str, ...] | None:
        """A list of ``length`` strings; None for null and an absent key."""
        if self.values.get(name) is None:
            return None
        accepted = f"a list of {length} names, one a layer"
        items = self._list(name, accepted=accepted)
        for item in items:
            if not isinstance(item, str):
                self.fail(name, item, problem="is not a name", accepted=accepted)
        if len(items) != length:
            self.fail(name, f"a list of {len(items)}", problem="does not match", accepted=accepted)
        return tuple(item for item in items if isinstance(item, str))

    def counts(
        self, name: str, *, length: int, least: int = 1, most: int = WIDEST
    ) -> tuple[int, ...]:
        """A list of at least ``length`` whole numbers in a range, cut there."""
        accepted = f"a list of {length} whole numbers from {least} to {most}"
        self._find(name, accepted=accepted)
        items = self._list(name, accepted=accepted)
        if len(items) < length:
            self.fail(name, f"a list of {len(items)}", problem="does not match", accepted=accepted)
        for item in items:
            if type(item) is not int or not least <= item <= most:
                self.fail(name, item, problem="is out of range", accepted=accepted)
        return tuple(item for item in items[:length] if isinstance(item, int))

    def switches(self, name: str, *, length: int) -> tuple[bool, ...] | None:
        """A list of at least ``length`` zeros and ones, cut there; None for null and absence."""
        if self.values.get(name) is None:
            return None
        accepted = f"a list of {length} zeros and ones, one a layer"
        items = self._list(name, accepted=accepted)
        if len(items) < length:
            self.fail(name, f"a list of {len(items)}", problem="does not match", accepted=accepted)
        for item in items:
            if type(item) is not int or item not in (0, 1):
                self.fail(name, item, problem="is neither 0 nor 1", accepted=accepted)
        return tuple(item == 1 for item in items[:length])

    def nested(self, name: str) -> Keys:
        """The object under a key."""
        _, value = self._find(name, accepted="an object")
        if not isinstance(value, Mapping):
            self.fail(name, value, problem="is not an object", accepted="an object")
        return Keys(values=value, path=f"{self.path}.{name}")

    def only_classes(self, *accepted: str) -> None:
        """Refuse a file whose ``architectures`` names a class that is none of these."""
        classes = self.values.get("architectures")
        named = classes if isinstance(classes, list | tuple) else ()
        if any(isinstance(cls, str) and cls not in accepted for cls in named):
            self.refuse(
                "architectures",
                problem="names a class that is not modelled",
                accepted=", ".join(accepted),
            )

    def fail(self, name: str, value: object, *, problem: str, accepted: str) -> NoReturn:
        """Refuse a key's value as an error of the file."""
        raise InputError(
            field=f"{self.path}.{name}", value=printable(value), problem=problem, accepted=accepted
        )

    def refuse(self, name: str, *, problem: str, accepted: str) -> NoReturn:
        """Refuse a key's value as one that makes sense and is not modelled."""
        raise NotModelledError(
            field=f"{self.path}.{name}",
            value=printable(self.values.get(name, "nothing")),
            problem=problem,
            accepted=accepted,
        )

    def _find(self, *names: str, accepted: str, default: object = None) -> tuple[str, object]:
        """The first of the aliases that is there, which must agree with any other."""
        found = [name for name in names if name in self.values]
        if not found:
            if default is not None:
                return names[0], default
            self.fail(
                names[0], "nothing", problem="is given and nothing is guessed", accepted=accepted
            )
        first = self.values[found[0]]
        for other in found[1:]:
            value = self.values[other]
            if type(value) is not type(first) or printable(value) != printable(first):
                self.fail(
                    other,
                    value,
                    problem=f"contradicts {found[0]}",
                    accepted=f"{printable(first)} or no such key",
                )
        return found[0], first

    def _list(self, name: str, *, accepted: str) -> list[object]:
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            self.fail(name, value, problem="is not a list", accepted=accepted)
        if len(value) > DEEPEST:
            self.fail(name, f"a list of {len(value)}", problem="is too long", accepted=accepted)
        return list(value)


def printable(value: object) -> object:
    """A stand-in for values that ``repr`` chokes on: deep nests, and ints of 5,000 digits."""
    if isinstance(value, Mapping):
        return f"an object of {len(value)}"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return f"a {type(value).__name__}"

"""Options under Megatron's names, wherever a file keeps them.

Megatron-LM's arguments, the functional tests' ``MODEL_ARGS``, NeMo's and Megatron-Bridge's
``model`` section and MindSpeed's scripts name the same facts, with hyphens or underscores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from tonnage.formats.command import canonical
from tonnage.formats.keys import Fields


class Names:
    """Where a file keeps each of Megatron's options.

    Args:
        fields: the keys of the file.
        sections: paths that options stand under, the first to be looked at first; ``""`` is the
            top of the file.
        aliases: Megatron's name for what this file calls otherwise.
    """

    def __init__(
        self,
        fields: Fields,
        sections: Iterable[str] = ("",),
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self.fields = fields
        self._paths: dict[str, list[str]] = {}
        for section in sections:
            prefix = f"{section}." if section else ""
            for path in fields.leaves:
                name = canonical(path.removeprefix(prefix))
                if path.startswith(prefix) and "." not in name:
                    name = (aliases or {}).get(name, name)
                    self._paths.setdefault(name, []).append(path)

    def __call__(self, *names: str) -> tuple[str, ...]:
        """The keys of the first of the names that has any; one that is not there if none has."""
        found = [path for name in names for path in self._paths.get(name, ())]
        return tuple(found) or (f"--{names[0]}",)

    def has(self, *names: str) -> bool:
        """Whether one of the names has a value."""
        return any(self.fields.has(*self._paths[name]) for name in names if name in self._paths)

    def whole(self, *names: str, least: int = 0) -> int | None:
        """The whole number under the first of the names that has a value."""
        return self.fields.whole(*self(*names), least=least)

    def number(self, *names: str) -> float | None:
        """The number under the first of the names that has a value."""
        return self.fields.number(*self(*names))

    def word(self, *names: str) -> str | None:
        """The word under the first of the names that has a value."""
        return self.fields.word(*self(*names))

    def flag(self, *names: str) -> bool | None:
        """The truth under the first of the names that has a value."""
        return self.fields.flag(*self(*names))

    def on(self, name: str, off: str) -> bool | None:
        """A switch that has one option to turn it on and another to turn it off."""
        denied = self.flag(off)
        value = self.flag(name)
        return (not denied) if denied is not None else value

    def peek(self, *names: str) -> Any:
        """The value of the first of the names that has any, without counting it as used."""
        return self.fields.peek(*self(*names))

    def ignore(self, *patterns: str) -> None:
        """Count the options whose names match as irrelevant."""
        for name, paths in self._paths.items():
            if any(fnmatchcase(name, pattern) for pattern in patterns):
                self.fields.ignore(*map(_literal, paths))


def _literal(path: str) -> str:
    """A path as a pattern that matches it alone."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in path)

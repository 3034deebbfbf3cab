"""What can go wrong, as a person is told of it.

Every error that reaches a person names the field, the value and what would be
accepted. The command line turns them into exit codes; nothing here prints.
"""

from __future__ import annotations


class TonnageError(Exception):
    """The base of every error that Tonnage raises on purpose."""

    exit_code = 1


class InputError(TonnageError):
    """A value that cannot be used.

    Args:
        field: the flag, key or parameter, as the person wrote it (``tp``, ``config.hidden_size``).
        value: what was given.
        problem: why it cannot be used, in one clause (``does not divide the 32 attention heads``).
        accepted: what would be accepted (``1, 2, 4, 8, 16 or 32``).
        hint: a next step, where there is an obvious one.
    """

    exit_code = 2

    def __init__(
        self, *, field: str, value: object, problem: str, accepted: str = "", hint: str = ""
    ) -> None:
        self.field = field
        self.value = value
        self.problem = problem
        self.accepted = accepted
        self.hint = hint
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """The error in one line, without the hint."""
        text = f"{self.field}: {shorten(self.value)} {self.problem}"
        return f"{text} (accepted: {self.accepted})" if self.accepted else text


class NotModelledError(InputError):
    """A value that makes sense, and that Tonnage refuses because it does not account for it."""


class MissingPartError(TonnageError):
    """An optional part that is not installed.

    Args:
        part: the package that is missing.
        extra: the extra of Tonnage that brings it.
        purpose: what it is needed for.
    """

    exit_code = 4

    def __init__(self, *, part: str, extra: str, purpose: str) -> None:
        self.part = part
        self.extra = extra
        super().__init__(f"{purpose} needs {part}: pip install 'tonnage[{extra}]'")


def shorten(value: object, limit: int = 80) -> str:
    """A value as an error shows it: on one line and never long, whatever a hostile file holds."""
    text = value if isinstance(value, str) else repr(value)
    text = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * limit]).split())
    return text if 0 < len(text) <= limit else (f"{text[:limit]}…" if text else "''")

"""What a failure looks like: one line and a hint on stderr, or JSON on stdout."""

from __future__ import annotations

import errno
import sys
from dataclasses import dataclass

from tonnage.cli.output import print_json
from tonnage.errors import InputError, MissingPartError, TonnageError, shorten

_LARGEST_JSON_INTEGER = 2**63
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A failure as a person or a program is told of it.

    Attributes:
        exit_code: of the process.
        message: one line.
        field: what was wrong, as Python and JSON call it; None: nothing that was given.
        value: what it was.
        accepted: what would do.
        hint: a next step.
    """

    exit_code: int
    message: str
    field: str | None = None
    value: object = None
    accepted: str | None = None
    hint: str | None = None


def report(error: Exception, *, as_json: bool) -> int:
    """Tell of an error, and return the exit code."""
    failure = describe(error)
    if as_json:
        keys = ("field", "value", "accepted", "hint", "message")
        told = {key: getattr(failure, key) for key in keys}
        print_json({"error": told})
    else:
        print(f"error: {_with_flag(failure)}", file=sys.stderr)
        if failure.hint and failure.hint not in failure.message:
            print(f"hint: {failure.hint}", file=sys.stderr)
    return failure.exit_code


def describe(error: Exception) -> Failure:
    """Any exception as a failure."""
    from cyclopts import CycloptsError

    from tonnage.cli.usage import usage_error

    if isinstance(error, CycloptsError):
        error = usage_error(error)
    if isinstance(error, InputError):
        return Failure(
            exit_code=error.exit_code,
            message=_message(error),
            field=error.field,
            value=_plain(error.value),
            accepted=error.accepted or None,
            hint=error.hint or None,
        )
    if isinstance(error, MissingPartError):
        command = f"pip install 'tonnage[{error.extra}]'"
        return Failure(exit_code=error.exit_code, message=str(error), hint=command)
    if isinstance(error, TonnageError):
        return Failure(exit_code=error.exit_code, message=str(error))
    if isinstance(error, OSError) and error.errno in _DISK:
        return Failure(exit_code=1, message=f"the output cannot be written: {error.strerror}")
    return Failure(
        exit_code=1,
        message=f"unexpected {type(error).__name__}: {shorten(str(error) or 'no message', 200)}",
        hint="this is a fault of Tonnage; --debug shows where it happened",
    )


def _with_flag(failure: Failure) -> str:
    """The message, with the flag in place of the field that it stands for: ``--memory-limit``."""
    field = failure.field or ""
    if not (field.isidentifier() and field.islower()):
        return failure.message
    return f"--{field.replace('_', '-')}{failure.message.removeprefix(field)}"


def _message(error: InputError) -> str:
    """The error in one line, on which a value that is not there takes no place."""
    if error.value != "":
        return error.message
    accepted = f" (accepted: {error.accepted})" if error.accepted else ""
    return f"{error.field} {error.problem}{accepted}"


def _plain(value: object) -> object:
    """A value as JSON can hold it."""
    if value is None or isinstance(value, bool) or value == "":
        return value
    if isinstance(value, int) and abs(value) < _LARGEST_JSON_INTEGER:
        return value
    if isinstance(value, float) and value - value == 0.0:  # finite
        return value
    return shorten(value)

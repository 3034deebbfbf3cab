"""What a failure looks like: one line and a hint on stderr, or JSON on stdout."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tonnage.cli.output import print_json
from tonnage.errors import InputError, MissingPartError, TonnageError, shorten

if TYPE_CHECKING:
    from cyclopts import CycloptsError

_LARGEST_JSON_INTEGER = 2**63


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
        from tonnage.estimation import SCHEMA_VERSION

        keys = ("field", "value", "accepted", "hint", "message")
        told = {key: getattr(failure, key) for key in keys}
        print_json({"schema_version": SCHEMA_VERSION, "error": told})
    else:
        print(f"error: {_with_flag(failure)}", file=sys.stderr)
        if failure.hint:
            print(f"hint: {failure.hint}", file=sys.stderr)
    return failure.exit_code


def describe(error: Exception) -> Failure:
    """Any exception as a failure."""
    from cyclopts import CycloptsError

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
    return Failure(
        exit_code=1,
        message=f"unexpected {type(error).__name__}: {shorten(str(error) or 'no message', 200)}",
        hint="this is a fault of Tonnage; --debug shows where it happened",
    )


def usage_error(error: CycloptsError) -> InputError:
    """What the parser complains about, in the shape of every other error."""
    import cyclopts.exceptions as parser

    if isinstance(error, parser.UnknownOptionError):
        word = error.token.keyword or error.token.value
        return InputError(
            field="OPTION", value=word, problem="is not known", hint=_suggestion(error)
        )
    if isinstance(error, parser.UnknownCommandError):
        word = (error.unused_tokens or [""])[0]
        known = [name for name in error.app or () if not name.startswith("-")]
        return InputError(
            field="COMMAND",
            value=word,
            problem="is not known",
            accepted=", ".join(known),
            hint=_suggestion(error),
        )
    if isinstance(error, parser.MissingArgumentError):
        name = error.keyword or (error.argument.name if error.argument else "ARGUMENT")
        return InputError(field=_field(name), value="", problem="is missing", hint=_HELP)
    if isinstance(error, parser.RepeatArgumentError):
        name = error.token.keyword or ""
        return InputError(
            field=_field(name), value=error.token.value, problem="is given more than once"
        )
    if isinstance(error, parser.CoercionError) and error.token is not None:
        return InputError(
            field=_field(error.token.keyword or "ARGUMENT"),
            value=error.token.value,
            problem="is not understood",
            accepted="true or false" if error.target_type is bool else "",
            hint=_HELP,
        )
    if isinstance(error, parser.UnusedCliTokensError):
        word = (error.unused_tokens or [""])[0]
        return InputError(
            field="ARGUMENT", value=word, problem="is one more than expected", hint=_HELP
        )
    name = error.argument.name if error.argument else "ARGUMENT"
    return InputError(
        field=_field(name), value="", problem=f"cannot be parsed: {shorten(str(error), 200)}"
    )


_HELP = "--help shows what is expected"


def _suggestion(error: CycloptsError) -> str:
    """``did you mean …?`` from the parser's own message, where it has one."""
    _, found, rest = str(error).partition("Did you mean ")
    return f"did you mean {rest.split('?')[0]}?" if found else _HELP


def _field(flag: str) -> str:
    """The name of a field from that of its flag: ``--memory-limit`` is ``memory_limit``."""
    return flag.lstrip("-").replace("-", "_")


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
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < _LARGEST_JSON_INTEGER:
        return value
    if isinstance(value, float) and value - value == 0.0:  # finite
        return value
    return shorten(value)

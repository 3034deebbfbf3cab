"""What the parser complains about, in the shape of every other error."""

from __future__ import annotations

from functools import singledispatch
from itertools import pairwise

from cyclopts import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from tonnage.errors import InputError, shorten

_HELP = "--help shows what is expected"


@singledispatch
def usage_error(error: CycloptsError) -> InputError:
    """The parser's error as one that names a field, a value and what would do."""
    name = error.argument.name if error.argument else "ARGUMENT"
    problem = f"cannot be parsed: {shorten(str(error), 200)}"
    return InputError(field=_field(name), value="", problem=problem)


@usage_error.register
def _(error: UnknownOptionError) -> InputError:
    word = error.token.keyword or error.token.value
    return InputError(field="OPTION", value=word, problem="is not known", hint=_suggestion(error))


@usage_error.register
def _(error: UnknownCommandError) -> InputError:
    word = (error.unused_tokens or [""])[0]
    known = ", ".join(name for name in error.app or () if not name.startswith("-"))
    return InputError(
        field="COMMAND",
        value=word,
        problem="is not known",
        accepted=known,
        hint=_suggestion(error),
    )


@usage_error.register
def _(error: MissingArgumentError) -> InputError:
    name = error.keyword or (error.argument.name if error.argument else "ARGUMENT")
    word = _word_after(name, error.root_input_tokens or [])
    if word is None:
        given = name.startswith("--") and name in (error.root_input_tokens or [])
        problem = "is given without its value" if given else "is missing"
        return InputError(field=_field(name), value="", problem=problem, hint=_HELP)
    return InputError(
        field=_field(name),
        value=word,
        problem="begins with a hyphen, and is taken for a flag",
        hint=f"{name}={word} is taken for a value",
    )


@usage_error.register
def _(error: RepeatArgumentError) -> InputError:
    name = error.token.keyword or "ARGUMENT"
    problem = "is given more than once"
    return InputError(field=_field(name), value=error.token.value, problem=problem)


@usage_error.register
def _(error: CoercionError) -> InputError:
    token = error.token
    return InputError(
        field=_field(token.keyword or "ARGUMENT" if token else "ARGUMENT"),
        value=token.value if token else "",
        problem="is not understood",
        accepted="true or false" if error.target_type is bool else "",
        hint=_HELP,
    )


@usage_error.register
def _(error: UnusedCliTokensError) -> InputError:
    word = (error.unused_tokens or [""])[0]
    problem = "is one more than expected"
    return InputError(field="ARGUMENT", value=word, problem=problem, hint=_HELP)


def _word_after(flag: str, words: list[str]) -> str | None:
    """The word after a flag where it looks like a flag and is none: all have two hyphens."""
    for name, word in pairwise(words):
        if name == flag and word.startswith("-") and not word.startswith("--"):
            return word
    return None


def _suggestion(error: CycloptsError) -> str:
    """``did you mean …?`` from the parser's own message, where it has one."""
    _, found, rest = str(error).partition("Did you mean ")
    return f"did you mean {rest.split('?')[0]}?" if found else _HELP


def _field(flag: str) -> str:
    """The name of a field from that of its flag: ``--memory-limit`` is ``memory_limit``."""
    return flag.lstrip("-").replace("-", "_")

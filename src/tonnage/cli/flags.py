"""The flags of a plan, made from the fields of `tonnage.plan.Plan` and their docstring.

A field that is added to the dataclass becomes a flag, with its help, without a word here.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from cyclopts import Group, Parameter

from tonnage.cli.names import FLAGS, GROUPS, flags_of, group_of
from tonnage.cli.values import parse
from tonnage.errors import InputError
from tonnage.plan import OPTIMIZERS, PRECISIONS, Plan
from tonnage.runtime import RUNTIMES, LossRule, habit_names

Given: TypeAlias = Mapping[str, str | bool | list[str] | None]
"""What the parser found, by field; None where a flag is absent."""

_EVERY = re.compile(r"every-([0-9]{1,9})")
_RECOMPUTE = "none, selective, full, every-K or sqrt"
_ATTRIBUTE = re.compile(r"^    (\w+): ")


def with_plan_flags(verb: Callable[..., int]) -> Callable[..., int]:
    """Give a verb one flag for each field of a plan, in place of its ``**flags``."""
    signature = inspect.signature(verb)
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    verb.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*own, *_parameters()]
    )
    return verb


def plan_changes(given: Given) -> dict[str, object]:
    """The fields that a command line sets, as a plan takes them.

    Raises:
        InputError: a text is no value of its field, or two flags contradict each other.
    """
    hints = field_types()
    changes: dict[str, object] = {}
    for field, value in given.items():
        if value is not None and field != "recompute":
            name = FLAGS.get(field, (field,))[0]
            changes[field] = parse(name, hints[field], value)
    granularity = given.get("recompute")
    return changes if granularity is None else _with_recompute(changes, str(granularity))


def field_types() -> dict[str, Any]:
    """The type of each field of a plan, without its None."""
    return {name: _without_none(hint) for name, hint in typing.get_type_hints(Plan).items()}


def attribute_docs(cls: type) -> dict[str, str]:
    """What the Attributes section of a class's docstring says of each attribute."""
    _, _, section = inspect.cleandoc(cls.__doc__ or "").partition("\nAttributes:\n")
    docs: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        start = _ATTRIBUTE.match(line)
        if start:
            name = start[1]
            docs[name] = line[start.end() :]
        elif name:
            docs[name] += f" {line.strip()}"
    return {name: text.strip().replace("`", "") for name, text in docs.items()}


def _parameters() -> Iterable[inspect.Parameter]:
    docs, hints = attribute_docs(Plan), field_types()
    groups = {name: Group(name, sort_key=10 + order) for order, name in enumerate(GROUPS)}
    for field in dataclasses.fields(Plan):
        hint = hints[field.name]
        annotation, metavar = _shape(hint)
        parameter = Parameter(
            name=flags_of(field.name),
            help=_help(docs.get(field.name, ""), choices_of(field.name, hint)),
            group=groups[group_of(field.name)],
            metavar=metavar,
            show_default=_default(field.default),
            negative_iterable="",
            json_list=False,
        )
        yield inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[annotation, parameter],
        )


def _shape(hint: object) -> tuple[Any, str | None]:
    """What the parser collects for a type, and what the help calls a value of it."""
    if hint is bool:
        return bool | None, None
    if typing.get_origin(hint) is tuple:
        pairs = typing.get_origin(typing.get_args(hint)[0]) is tuple
        return list[str] | None, "NAME=VALUE" if pairs else "NAME,..."
    return str | None, {int: "N", float: "X"}.get(typing.cast(type, hint), "NAME")


def _help(text: str, choices: tuple[str, ...]) -> str:
    text = text.replace("None: ", "left out: ")
    return f"{text} [{', '.join(choices)}]" if choices else text


def _default(value: object) -> str | bool:
    """The default as the help shows it; nothing for what is off or empty."""
    if value is None or value is False or value == ():
        return False
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def choices_of(field: str, hint: object) -> tuple[str, ...]:
    """The words that a field takes, where they are a list that can be named."""
    known = {
        "runtime": tuple(RUNTIMES),
        "precision": tuple(PRECISIONS),
        "optimizer": tuple(OPTIMIZERS),
        "loss": typing.get_args(LossRule),
        "habits": habit_names(),
        "recompute": ("none", "selective", "full", "every-K", "sqrt"),
    }
    return known.get(field) or tuple(_literals(hint))


def _literals(hint: object) -> Iterable[str]:
    if typing.get_origin(hint) is Literal:
        yield from typing.get_args(hint)
        return
    for part in typing.get_args(hint):
        yield from _literals(part)


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) not in (types.UnionType, typing.Union):
        return hint
    (kept,) = (part for part in typing.get_args(hint) if part is not type(None))
    return kept


def _with_recompute(changes: dict[str, object], text: str) -> dict[str, object]:
    """``every-4`` is full recomputation of groups of four layers; ``sqrt`` of √layers."""
    word = text.strip().lower()
    every = _EVERY.fullmatch(word)
    if every and not int(every[1]):
        raise InputError(
            field="recompute", value=text, problem="is no number of layers", accepted=_RECOMPUTE
        )
    if not every and word != "sqrt":
        if word not in ("none", "selective", "full"):
            raise InputError(
                field="recompute", value=text, problem="is not known", accepted=_RECOMPUTE
            )
        return {**changes, "recompute": word}
    for field in ("recompute_method", "recompute_num_layers"):
        if field in changes:
            raise InputError(
                field=field,
                value=changes[field],
                problem=f"is already decided by recompute {word}",
                accepted="leave it out, or use recompute full",
            )
    return {
        **changes,
        "recompute": "full",
        "recompute_method": "uniform",
        "recompute_num_layers": int(every[1]) if every else 0,
    }

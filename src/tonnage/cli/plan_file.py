"""A plan from a file: JSON or TOML of the fields of `tonnage.plan.Plan`."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from tonnage.cli.stdin import show_hyphen
from tonnage.errors import InputError
from tonnage.files import UnreadableError, parse_json, read_bounded
from tonnage.plan import Plan

if TYPE_CHECKING:
    from pydantic import ValidationError

LARGEST_FILE = 2**20
LARGEST_TOML = 16 * 2**10
"""The parser of TOML takes the square of a long dotted key: this bounds it to a second."""

_ACCEPTED = "a JSON or TOML file of plan fields, or the output of tonnage estimate --json"


def plan_of(path: str | None, changes: dict[str, Any]) -> Plan:
    """The plan of a file, or a blank one, with what flags say put over it.

    Raises:
        InputError: as `read_plan`.
    """
    return Plan(**changes) if path is None else replace(read_plan(show_hyphen(path)), **changes)


def read_plan(path: str) -> Plan:
    """The plan that a file describes.

    Args:
        path: a file of plan fields, TOML if its name ends so and JSON if not; or one that
            holds an estimate, of which the plan is taken; ``-`` for stdin.

    Raises:
        InputError: the file cannot be read, or a field of it is not one of a plan.
    """
    data = _parse(path, _read(path))
    if isinstance(data, dict) and "schema_version" in data and isinstance(data.get("plan"), dict):
        data = data["plan"]
    if not isinstance(data, dict):
        raise _refuse(path, "does not hold the fields of a plan")
    _check_names(data)
    return _validate(path, data)


def _read(path: str) -> bytes:
    try:
        content = read_bounded(path, LARGEST_FILE)
    except UnreadableError as error:
        raise _refuse(path, str(error)) from None
    if len(content) > LARGEST_FILE:
        raise _refuse(path, "is too large for a plan")
    return content


def _parse(path: str, content: bytes) -> Any:
    if path.endswith(".toml") and len(content) > LARGEST_TOML:
        raise _refuse(path, "is too large for a plan")
    try:
        text = content.decode()
        return tomllib.loads(text) if path.endswith(".toml") else parse_json(text)
    except (ValueError, RecursionError) as error:
        kind = "TOML" if path.endswith(".toml") else "JSON"
        reason = str(error).splitlines()[0][:100]
        raise _refuse(path, f"is not {kind}: {reason}") from None


def _check_names(data: dict[str, Any]) -> None:
    known = [field.name for field in dataclasses.fields(Plan)]
    for name in data:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name[:100].replace("-", "_"), known, n=3)
            raise InputError(
                field="plan_file",
                value=name,
                problem="is not a field of a plan",
                hint=f"did you mean {' or '.join(near)}?" if near else "",
            )


def _validate(path: str, data: dict[str, Any]) -> Plan:
    # Costs as much as a whole estimate to import, and only files need it.
    from pydantic import TypeAdapter, ValidationError

    try:
        text = json.dumps(data, allow_nan=False)
    except (TypeError, ValueError, RecursionError):  # a date of TOML, or NaN
        raise _refuse(path, "holds a value that no field of a plan can have") from None
    try:
        # As JSON a list may stand for a tuple, and nothing else for anything else.
        return TypeAdapter(Plan).validate_json(text, strict=True)
    except ValidationError as error:
        _raise_first(error)


def _raise_first(error: ValidationError) -> NoReturn:
    """The first complaint of pydantic as an error of the field that it is about."""
    first = error.errors(include_url=False)[0]
    field = str(first["loc"][0]) if first["loc"] else "plan_file"
    expected = str(first.get("ctx", {}).get("expected", "")).replace("'", "")
    raise InputError(
        field=field,
        value=first["input"],
        problem="in the plan file is not known" if expected else "in the plan file is no value",
        accepted=expected or first["msg"].removeprefix("Input should be "),
    ) from None


def _refuse(path: str, problem: str) -> InputError:
    return InputError(field="plan_file", value=path, problem=problem, accepted=_ACCEPTED)

from __future__ import annotations

import errno
from typing import Any
from unittest import mock

import pytest

from tests.cli.running import run
from tonnage.cli.failure import describe
from tonnage.errors import InputError, MissingPartError, TonnageError

GPT2 = ("estimate", "gpt2", "--gpus", "8xH100")

# The words, the field of the error, and what its text says.
USAGE: list[tuple[tuple[str, ...], str, str]] = [
    (("estimate",), "MODEL", "error: MODEL is missing"),
    (("estimate", "gpt2"), "gpus", "error: --gpus is missing"),
    (("estimate", "gpt2", "--gpus"), "gpus", "error: --gpus is given without its value"),
    (("estimat",), "COMMAND", "error: COMMAND: estimat is not known"),
    ((*GPT2, "--nope", "3"), "OPTION", "error: OPTION: --nope is not known"),
    ((*GPT2, "more"), "ARGUMENT", "error: ARGUMENT: more is one more than expected"),
    ((*GPT2, "--seq=1", "--seq=2"), "seq", "error: --seq: 2 is given more than once"),
    ((*GPT2, "--sp=maybe"), "sp", "(accepted: true or false)"),
    ((*GPT2, "--tp", "5"), "tp × pp × cp", "(accepted: 1, 2, 4 or 8)"),
    ((*GPT2, "--etp", "x"), "etp", "error: --etp: x is not a whole number"),
    ((*GPT2, "--habit", "loss"), "habit", "error: --habit: loss is not a pair"),
    ((*GPT2, "--memory-limit", "80G"), "memory_limit", "error: --memory-limit: 80G could mean"),
    ((*GPT2, "--margin", "200%"), "margin", "error: --margin: 200% is more than 1"),
    (("estimate", "gpt2", "--gpus", "8xG100"), "gpus", "error: --gpus: G100 is not a device"),
    (("estimate", "gpt5", "--gpus", "8xH100"), "MODEL", "error: MODEL: gpt5 is neither"),
    (("models", "zzz"), "PATTERN", "error: PATTERN: zzz matches nothing"),
    (("napkin", "time", "--tokens=1T"), "gpus", "error: --gpus is missing"),
    (("napkin", "max-params", "--gpus=8xH100", "--recipe=x"), "recipe", "error: --recipe: x is"),
]


@pytest.mark.parametrize(("words", "field", "text"), USAGE, ids=lambda item: str(item)[:40])
def test_usage_errors_on_stderr_and_as_json(words: tuple[str, ...], field: str, text: str) -> None:
    plain = run(*words)
    assert plain.code == 2
    assert plain.out == ""
    assert text in plain.err
    told = run(*words, "--json")
    assert told.code == 2
    assert told.err == ""
    found = told.json()
    assert found["schema_version"] == 1
    assert set(found["error"]) == {"field", "value", "accepted", "hint", "message"}
    assert found["error"]["field"] == field
    assert found["error"]["value"] != "''"  # nothing was given: nothing is quoted


def test_suggestions() -> None:
    assert "hint: did you mean --no-sp?" in run(*GPT2, "--nope").err
    assert 'hint: did you mean "estimate"?' in run("estimat").err
    assert "did you mean" in run("estimate", "lama-3.1-8b", "--gpus=H100").err


def test_json_after_a_double_dash_is_not_a_flag() -> None:
    result = run("models", "--", "--json")
    assert result.code == 2
    assert result.err.startswith("error: PATTERN: --json matches nothing")


def test_json_values_are_plain() -> None:
    def told(value: Any) -> object:
        return describe(InputError(field="x", value=value, problem="is wrong")).value

    assert told(3) == 3
    assert told(True) is True
    assert told(1.5) == 1.5
    assert told(float("nan")) == "nan"
    assert told(float("inf")) == "inf"
    assert told(2**70) == str(2**70)
    assert told((1, 2)) == "(1, 2)"
    assert told("a\nb") == "a b"


def test_a_missing_part_names_its_extra() -> None:
    failure = describe(MissingPartError(part="sympy", extra="explain", purpose="--explain"))
    assert failure.exit_code == 4
    assert failure.hint == "pip install 'tonnage[explain]'"
    with mock.patch.dict("sys.modules", {"sympy": None}):
        result = run(*GPT2, "--explain", "activations")
    assert result.code == 4
    assert "tonnage[explain]" in result.err


def test_the_unexpected() -> None:
    with mock.patch("tonnage.cluster.parse_cluster", side_effect=ZeroDivisionError("oh\nno")):
        result = run(*GPT2)
        assert result.code == 1
        assert result.err.startswith("error: unexpected ZeroDivisionError: oh no\nhint: ")
        assert "--debug" in result.err
        assert run(*GPT2, "--json").json()["error"]["field"] is None
        with pytest.raises(ZeroDivisionError):
            run(*GPT2, "--debug")


def test_one_version_of_the_schema() -> None:
    from tonnage import estimation
    from tonnage.cli import output

    assert output.SCHEMA_VERSION == estimation.SCHEMA_VERSION


def test_a_broken_installation_shows_no_traceback() -> None:
    with mock.patch.dict("sys.modules", {"tonnage.cli.estimate": None}):
        result = run(*GPT2, "--json")
    assert result.code == 1
    assert "ImportError" in result.json()["error"]["message"]


def test_other_codes() -> None:
    assert describe(TonnageError("no")).exit_code == 1
    with mock.patch("tonnage.cluster.parse_cluster", side_effect=KeyboardInterrupt):
        result = run(*GPT2)
    assert (result.code, result.out, result.err) == (130, "", "")


@pytest.mark.parametrize(
    ("flag", "word"), [("--gpus", "-8xH100"), ("--habit", "-x=1"), ("--network", "-")]
)
def test_a_value_that_begins_with_a_hyphen_is_not_called_missing(flag: str, word: str) -> None:
    result = run("estimate", "gpt2", flag, word)
    assert result.code == 2
    assert "missing" not in result.err or word == "-"
    if word != "-":
        assert f"{word} begins with a hyphen, and is taken for a flag" in result.err
        assert f"hint: {flag}={word} is taken for a value" in result.err
    assert run("estimate", "gpt2", flag).err.startswith(f"error: {flag} is given without its value")


def test_a_full_disk_is_no_fault_of_tonnage() -> None:
    failure = describe(OSError(errno.ENOSPC, "No space left on device"))
    assert failure.exit_code == 1
    assert failure.message == "the output cannot be written: No space left on device"
    assert failure.hint is None

"""Every flag, with whatever a keyboard can produce: an answer or one line of refusal."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.running import Result, run
from tonnage.cli.limits import LimitFlags
from tonnage.cli.names import flags_of
from tonnage.plan import Plan

PLAN_FLAGS = sorted({flag for field in dataclasses.fields(Plan) for flag in flags_of(field.name)})
OWN_FLAGS = ["--gpus", "--plan-file", "--explain", "--json"] + [
    f"--{field.name.replace('_', '-')}" for field in dataclasses.fields(LimitFlags)
]
NASTY = (
    "",
    " ",
    "-",
    "--",
    "-1",
    "0",
    "1",
    "2",
    "3",
    "7",
    "64",
    "1e9",
    "1e309",
    "0x10",
    "1_0",
    "1__0",
    "nan",
    "inf",
    "-inf",
    "NaN",
    "None",
    "null",
    "true",
    "false",
    "[]",
    "{}",
    '["a"]',
    "a,b",
    ",",
    "9" * 30,
    "9" * 5000,
    "999999999",
    "1000000000",
    "-0",
    "+1",
    "1.5",
    ".5",
    "5%",
    "200%",
    "8xH100",
    "0xH100",
    "999999999xH100",
    "8xH100,8xA100",
    "H100",
    "×",
    "٣",
    "１",
    "\x00",
    "\x1b[31m",
    "\ud800",
    "😀" * 50,
    "../../etc/passwd",
    "/",
    "/dev/null",
    "none",
    "full",
    "every-0",
    "every-3",
    "every-999999999",
    "sqrt",
    "fp8",
    "bf16",
    "adam8bit",
    "fsdp2",
    "loss=chunked",
    "a=b",
    "=",
    "x=" * 99,
    "%s%n",
    "$(true)",
    "[red]x[/red]",
    "{0}",
    "\\",
    "'",
    '"',
    "\n",
    "a\tb",
    "80GiB",
    "80G",
    "1T",
    "15T",
)
VALUES = st.sampled_from(NASTY) | st.text(max_size=20) | st.integers().map(str)


def check(result: Result) -> None:
    assert result.code in {0, 2, 3}, result.err
    assert "Traceback" not in result.err
    assert "unexpected" not in result.err
    if result.code == 2 and not result.out:
        assert result.err.startswith("error: ")
        assert len(result.err) < 4000


@pytest.mark.parametrize("flag", [*PLAN_FLAGS, *OWN_FLAGS])
@settings(max_examples=6)
@given(data=st.data())
def test_each_flag(flag: str, data: st.DataObject) -> None:
    value = data.draw(VALUES)
    words = ["estimate", "gpt2", *([] if flag == "--gpus" else ["--gpus", "8xH100"])]
    form = data.draw(st.sampled_from([[flag, value], [f"{flag}={value}"], [flag]]))
    check(run(*words, *form))


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(PLAN_FLAGS), st.sampled_from(NASTY)), max_size=6))
def test_flags_together(pairs: list[tuple[str, str]]) -> None:
    words = [f"{flag}={value}" for flag, value in pairs]
    result = run("estimate", "mixtral-8x7b", "--gpus=64xH100", *words, "--json")
    check(result)
    assert result.json()["schema_version"] == 1


@settings(max_examples=60)
@given(
    st.sampled_from(["tp", "pp", "vpp", "cp", "ep", "dp", "mbs", "gbs", "seq", "zero", "etp"]),
    st.integers(min_value=-(10**12), max_value=10**12),
    st.sampled_from(["gpt2", "deepseek-v3"]),
)
def test_numbers_of_every_size(field: str, value: int, model: str) -> None:
    check(run("estimate", model, "--gpus=2048xH100", f"--{field}={value}", "--json"))


@settings(max_examples=60)
@given(VALUES)
def test_models_as_nobody_writes_them(model: str) -> None:
    check(run("estimate", "--gpus=8xH100", "--", model, stdin="{"))


@settings(max_examples=60)
@given(st.lists(st.sampled_from(["napkin", "time", "max-params", "models", "--json", *NASTY])))
def test_words_in_any_order(words: list[str]) -> None:
    check(run(*words))


@settings(max_examples=40)
@given(
    st.sampled_from(["--params", "--tokens", "--gpus", "--mfu", "--seq", "--dtype", "--recipe"]),
    VALUES,
)
def test_the_napkin(flag: str, value: str) -> None:
    given_flags = {"--params": "7B", "--tokens": "1T", "--gpus": "8xH100", "--mfu": "0.4"}
    verb = "max-params" if flag == "--recipe" else "time"
    kept = {"--gpus": "8xH100"} if flag == "--recipe" else given_flags
    words = [f"{name}={text}" for name, text in {**kept, flag: value}.items()]
    result = run("napkin", verb, *words, "--json")
    check(result)
    json.loads(result.out)

from __future__ import annotations

import sys

import pytest

from tests.cli.running import run
from tonnage.dtype import DTYPES


def test_the_table_has_every_format_and_fits_a_terminal() -> None:
    result = run("dtypes")
    lines = result.out.splitlines()
    assert [line.split()[0] for line in lines[1 : 1 + len(DTYPES)]] == [e.name for e in DTYPES]
    assert "…" not in result.out
    assert max(map(len, lines)) <= 80


def test_json_has_the_figures() -> None:
    found = {entry["name"]: entry for entry in run("dtypes", "--json").json()["dtypes"]}
    assert found["fp16"]["largest"] == 65504
    assert found["fp8_e4m3"]["smallest_subnormal"] == 2**-9
    assert found["nvfp4"]["effective_bits"] == 4.5
    assert found["int8"]["smallest_normal"] is None


def test_the_table_needs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert run("dtypes").code == 0
    result = run("dtypes", "--cast", "1e-8")
    assert result.code == 4
    assert "pip install 'tonnage[formats]'" in result.err


def test_casts() -> None:
    pytest.importorskip("ml_dtypes")
    words = ("dtypes", "--cast", "1e-8", "448.1", "-1000", "--json")
    found = run(*words).json()
    assert [entry["value"] for entry in found["casts"]] == pytest.approx([1e-8, 448.1, -1000])
    assert found["casts"][0]["formats"]["fp16"]["becomes"] == 0.0
    assert found["casts"][2]["formats"]["fp8_e4m3"] == {
        "becomes": None,
        "overflow": "nan",
        "saturated": -448.0,
    }
    assert {block["format"] for block in found["blocks"]} == {"mxfp4", "nvfp4"}
    text = run("dtypes", "--cast", "1e-8", "448.1", "-1000").out
    assert "in its block" in text
    assert max(map(len, text.splitlines())) <= 80


def test_one_value_is_alone_in_its_block() -> None:
    pytest.importorskip("ml_dtypes")
    assert run("dtypes", "--cast", "0", "--json").json()["blocks"] == []
    assert "alone" in run("dtypes", "--cast", "1e-8").out


@pytest.mark.parametrize("words", [(), ("x",), ("inf",), ("1e999",), ("1", "nan"), ("-",)])
def test_what_is_no_number_is_one_error(words: tuple[str, ...]) -> None:
    result = run("dtypes", "--cast", *words)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: ")

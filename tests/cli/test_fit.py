"""``tonnage fit`` answers or refuses in one line."""

import json

import pytest

from tests.cli.running import run

WORDS = ("--gpus", "8xH100", "--runtime", "fsdp2")


def test_the_answer_and_what_stops_the_next() -> None:
    result = run("fit", "llama-3.2-1b", *WORDS, "--max", "mbs")
    assert result.code == 0
    assert "sequences in a micro-batch: the most that fit" in result.out
    assert "too much at" in result.out


def test_json() -> None:
    result = run("fit", "llama-3.2-1b", *WORDS, "--min", "gpus", "--json")
    found = json.loads(result.out)
    assert found["value"] == 1
    assert found["estimate"]["fits"]
    assert found["next"]["value"] is None


def test_nothing_fits_is_exit_code_3() -> None:
    result = run("fit", "llama-3.1-405b", "--gpus", "8xH100", "--max", "mbs")
    assert result.code == 3
    assert result.out.startswith("nothing fits")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--max", "width"), "accepted: mbs, seq, layers, params, lora-rank"),
        (("--min", "nodes"), "accepted: gpus"),
        ((), "--max is missing"),
        (("--max", "mbs", "--min", "gpus"), "is given beside --min"),
        (("--max", "mbs", "--mbs", "2"), "is what is to be found"),
        (("--max", "layers", "--tp", "64"), "tp"),
    ],
)
def test_bad_input(words: tuple[str, ...], text: str) -> None:
    result = run("fit", "llama-3.2-1b", *WORDS, *words)
    assert result.code == 2
    assert text in result.err

from __future__ import annotations

import pytest

from tests.cli.running import run

PATTERN = "batch seq1 hidden, batch seq2 hidden -> batch seq1 seq2"


def test_json_has_the_figures_of_the_roofline() -> None:
    found = run("op", "matmul", "n=1024", "--json").json()
    assert found["schema_version"] == 1
    assert (found["flops"], found["bytes"], found["bound"]) == (2**31, 6 * 2**20, "compute")
    assert found["intensity"] == pytest.approx(341, abs=0.5)
    assert found["ridge"] == pytest.approx(295, abs=0.5)
    assert found["seconds"] == pytest.approx(found["flops"] / found["peak"])


def test_sizes_may_come_in_any_order_and_as_flags() -> None:
    one = run("op", PATTERN, "batch=8", "seq1=64", "seq2=32", "hidden=16", "--json").json()
    other = run("op", "hidden=16", "seq2=32", PATTERN, "--json", "seq1=64", "batch=8").json()
    flags = run("op", PATTERN, "--batch=8", "--seq1", "64", "seq2=32", "--hidden=16", "--json")
    assert one == other == flags.json()
    words = ("batch=2", "seq=8", "heads=4")
    assert (
        run("op", "attention", *words, "head_dim=16", "--json").json()
        == run("op", "attention", *words, "--head-dim=16", "--json").json()
    )


def test_the_terminal_has_the_verdict_first() -> None:
    assert run("op", "relu", "n=4096").out.startswith("memory-bound on H100-SXM5-80GB in bf16\n")
    assert run("op", "matmul", "n=8192", "--device=A100").out.startswith("compute-bound on A100")
    assert "<0.01 ns" in run("op", "relu", "n=1").out


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("n=4",),
        ("relu", "gelu", "n=4"),
        ("relu",),
        ("relu", "n"),
        ("relu", "n="),
        ("relu", "=4"),
        ("relu", "n=4", "n=4"),
        ("relu", "n=4k"),
        ("relu", "n=-4"),
        ("relu", "n=1.5"),
        ("relu", f"n={'9' * 5000}"),
        ("relu", "n=4", "m=4"),
        ("relu", "n=4", "--device=abacus"),
        ("relu", "n=4", "--dtype=fp12"),
        ("relu", "n=4", "--devise=H100"),
        ("a b -> a", "a=2"),
        ("a a -> a", "a=2"),
        ("a b -> a", "a=2", "b=9223372036854775807"),
        ("-", "n=4"),
    ],
)
def test_what_makes_no_sense_is_one_error(words: tuple[str, ...]) -> None:
    result = run("op", *words)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: ")
    assert result.err.count("error:") == 1
    assert run("op", *words, "--json").json()["error"]["message"]

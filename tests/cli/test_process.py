"""The few things that only a process of its own can show: it takes a while to start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = "import sys; from tonnage.cli import main; sys.exit(main())"


def process(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, *words],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


def test_an_estimate_imports_nothing_heavy() -> None:
    script = (
        "import sys; from tonnage.cli import main\n"
        "main(['estimate', 'gpt2', '--gpus', 'H100'])\n"
        "heavy = {'numpy', 'pydantic', 'sympy', 'torch', 'plotly', 'starlette', 'markdown_it'}\n"
        "sys.exit(' '.join(heavy & set(sys.modules)))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert found.stderr.strip() == ""


def test_an_output_without_unicode() -> None:
    found = process("estimate", "gpt2", "--gpus", "8xH100", PYTHONIOENCODING="ascii")
    assert found.returncode == 0
    assert found.stdout.isascii()
    assert "####" in found.stdout
    assert "mbs 1 x grad_acc 1 x dp 8" in found.stdout


def test_colours_follow_the_environment() -> None:
    words = ("estimate", "gpt2", "--gpus", "8xH100")
    assert "\x1b[" in process(*words, FORCE_COLOR="1").stdout
    both = process(*words, FORCE_COLOR="1", NO_COLOR="1").stdout
    assert "\x1b[3" not in both  # bold and dim may stay: they are no colours


@pytest.mark.parametrize("columns", ["0", "1", "-5", "30", "99999999", "x"])
@pytest.mark.parametrize(
    "words", [("fit", "--help"), ("fit", "gpt2", "--gpus=8xH100", "--max=seq")]
)
def test_a_terminal_of_any_width_says_what_there_is_to_say(
    words: tuple[str, ...], columns: str
) -> None:
    found = process(*words, COLUMNS=columns)
    assert (found.returncode, found.stderr) == (0, "")
    assert {"Usage:", "gpt2"} & set(found.stdout.split())


def test_a_reader_that_leaves() -> None:
    command = f"{sys.executable} -c '{SCRIPT}' models --json | head -c 10"
    found = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False
    )
    assert found.stderr == ""


@pytest.mark.parametrize(
    ("words", "redirected", "told"),
    [
        ("models gpt2", ">&-", (1, "", "error: the output cannot be written: it is closed")),
        ("models zzz", "2>&-", (2, "", "")),
        ("models zzz", ">&- 2>&-", (1, "", "")),
    ],
)
def test_an_output_that_is_closed(words: str, redirected: str, told: tuple[int, str, str]) -> None:
    """It is told of where that can be, and a message never goes to the other output."""
    command = f"{sys.executable} -c '{SCRIPT}' {words} {redirected}"
    found = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False
    )
    assert (found.returncode, found.stdout, found.stderr.strip()) == told


def test_completion_for_bash(tmp_path: Path) -> None:
    script = tmp_path / "tonnage.bash"
    found = process(
        "--install-completion", "--shell", "bash", "--output", str(script), HOME=str(tmp_path)
    )
    assert found.returncode == 0, found.stderr
    text = script.read_text(encoding="utf-8")
    assert "--tensor-model-parallel-size" in text
    checked = subprocess.run(["bash", "-n", str(script)], capture_output=True, check=False)
    assert checked.returncode == 0

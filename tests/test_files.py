"""Files that nobody has checked, wherever they are read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.running import run
from tonnage.errors import InputError
from tonnage.files import UnreadableError, parse_json, read_bounded
from tonnage.score import read_rows


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A pipe that nobody writes to: a reader that opens it waits for ever."""
    path = tmp_path / "pipe.json"
    os.mkfifo(path)
    return path


def test_a_pipe_is_refused_and_not_waited_for(pipe: Path) -> None:
    with pytest.raises(UnreadableError, match="regular file"):
        read_bounded(str(pipe), 10)
    with pytest.raises(InputError, match="regular file"):
        read_rows(pipe)
    for arguments in ((str(pipe),), ("gpt2", f"--plan-file={pipe}")):
        result = run("estimate", *arguments, "--gpus=1xH100")
        assert result.code == 2
        assert "regular file" in result.err
    assert run("estimate", "gpt2", f"--cluster-file={pipe}").code == 2


def test_no_more_is_read_than_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_bytes(bytes(100))
    assert len(read_bounded(str(path), 10)) == 11
    with pytest.raises(UnreadableError):
        read_bounded("/dev/zero", 10)


def test_a_key_is_named_once() -> None:
    assert parse_json('{"a": [{"b": 1}, {"b": 2}]}') == {"a": [{"b": 1}, {"b": 2}]}
    with pytest.raises(UnreadableError, match="'b' twice"):
        parse_json('{"a": {"b": 1, "b": 2}}')


def test_a_long_dotted_key_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text("a" + ".a" * 50_000 + "=1", encoding="utf-8")
    for flag in ("plan-file", "device-file", "cluster-file"):
        assert run("estimate", "gpt2", "--gpus=1", f"--{flag}={path}").code == 2

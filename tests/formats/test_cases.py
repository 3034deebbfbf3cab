"""Real launch files of public projects: read into an estimate, or answered in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import run
from tonnage.errors import InputError
from tonnage.formats import read_launch
from tonnage.formats.keys import Fields
from tonnage.formats.text import read_document

CASES = Path(__file__).parents[3] / "shared" / "cases" / "launch"
FOLDERS = ("megatron", "nemo", "gpt-neox", "nanotron", "torchtitan", "llm-foundry")
FILES = [path for folder in FOLDERS for path in sorted((CASES / folder).glob("*"))]
ANSWERS = ("is no training launch: ", "file names no ", "file names the model ")
"""Why a file starts no training, what it lacks, or whose model is not at hand."""

needs_cases = pytest.mark.skipif(not FILES, reason=f"real launch files are not at {CASES}")


@needs_cases
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_real_file_is_weighed_or_answered(path: Path) -> None:
    result = run("estimate", "--config", str(path), "--gpus", "64xH100", "--json")
    assert result.code in (0, 2, 3), result.err
    answer = result.json()
    if result.code == 2:
        message = answer["error"]["message"]
        assert any(part in message for part in ANSWERS) or "is not a multiple of" in message
        return
    assert answer["config"]["kind"] == path.parent.name
    assert answer["memory"]["peak"]["device"] > 0
    assert answer["step"]["seconds"] > 0


@needs_cases
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_key_of_a_real_file_is_accounted_for_once(path: Path) -> None:
    try:
        launch = read_launch(str(path))
    except InputError as error:
        assert "is no training launch: " in error.message
        return
    assert launch.kind == path.parent.name
    keys = list(Fields(read_document(str(path)).values).leaves)
    told = [*launch.used, *launch.ignored, *launch.not_understood]
    assert sorted(told) == sorted(keys)


@needs_cases
def test_most_keys_of_real_files_are_understood() -> None:
    unknown, known = 0, 0
    for path in FILES:
        try:
            launch = read_launch(str(path))
        except InputError:
            continue
        # A model that is not read leaves its own keys.
        unknown += 0 if "model" in launch.lacks else len(launch.not_understood)
        known += len(launch.used) + len(launch.ignored)
    assert unknown < 0.01 * known

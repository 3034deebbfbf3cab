"""Real launch files of public projects: read into an estimate, or answered in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import run
from tonnage.errors import InputError
from tonnage.formats import KINDS, read_launch
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
    wide = "deepseekv3_proxy" in path.name or path.parent.name == "torchtitan"
    gpus = "H100" if _says_how_many(path) else "64xH100" if wide else "8xH100"
    result = run("estimate", "--config", str(path), "--gpus", gpus, "--json")
    assert result.code in (0, 2, 3), result.err
    answer = result.json()
    if result.code == 2:
        assert any(part in answer["error"]["message"] for part in ANSWERS)
        return
    assert answer["config"]["kind"] == path.parent.name
    assert answer["memory"]["peak_bytes"]["device"] > 0
    assert answer["step"]["seconds"] > 0


def _says_how_many(path: Path) -> bool:
    try:
        return read_launch(str(path)).gpus is not None
    except InputError:
        return False


@needs_cases
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_key_of_a_real_file_is_accounted_for_once(path: Path) -> None:
    document = read_document(str(path))
    kind = KINDS[path.parent.name]
    assert kind.detect(document)
    try:
        launch = kind.read(document)
    except InputError as error:
        answer = error.message
    else:
        answer = ""
    if answer:
        assert "is no training launch: " in answer
        return
    assert launch.kind == path.parent.name
    keys = list(Fields(document.values).leaves)
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

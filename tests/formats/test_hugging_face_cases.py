"""Every launch file of the Hugging Face world: an estimate, or what it lacks, or why none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.formats.reading import CASES
from tonnage.arch import load
from tonnage.cluster import parse_cluster
from tonnage.errors import InputError
from tonnage.estimation import estimate
from tonnage.formats import Launch, read_launch
from tonnage.formats.model_name import catalog_name
from tonnage.plan import Plan

FOLDERS = (
    *("accelerate", "accelerate-trl", "axolotl", "deepspeed", "fsdp-axolotl", "litgpt"),
    *("llama-factory", "ms-swift", "torchtune"),
)
FILES = [path for folder in FOLDERS for path in sorted((CASES / folder).glob("*"))]
GPUS = 8

pytestmark = pytest.mark.skipif(not FILES, reason="no launch files of public projects here")


REASONS = ("no training launch", "holds no keys")


def read(path: Path) -> Launch | None:
    """The launch of a file; None where it says why it starts no training."""
    try:
        return read_launch(str(path), gpus=GPUS)
    except InputError as error:
        if not any(reason in error.message for reason in REASONS):
            raise
    return None


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_key_has_one_fate(path: Path) -> None:
    launch = read(path)
    if launch is not None:
        keys = [*launch.used, *launch.ignored, *launch.not_understood]
        assert keys
        assert len(keys) == len(set(keys))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_file_becomes_an_estimate_once_what_it_lacks_is_given(path: Path) -> None:
    launch = read(path)
    if launch is None:
        return
    given = {"seq": 2048} if "seq" in launch.lacks else {}
    launch.require({"model", *given})
    if launch.lacks:
        with pytest.raises(InputError, match=r"file names no .*: give "):
            launch.require(())
    named = None if launch.model is None else catalog_name(launch.model)
    fields: dict[str, Any] = {**launch.plan, **given}
    answer = estimate(
        load(named or "llama-3.1-8b"),
        Plan(**fields),
        parse_cluster(f"{GPUS}xH100"),
    )
    assert answer.step.seconds > 0
    assert answer.memory.peak_bytes.device > 2**30


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_file_is_recognised(path: Path) -> None:
    launch = read(path)
    if launch is not None:
        folder = path.parent.name
        kind = {"accelerate-trl": "accelerate", "fsdp-axolotl": "deepspeed"}.get(folder, folder)
        kinds = (kind, "accelerate", "deepspeed") if kind == "ms-swift" else (kind,)
        assert set(kinds) & set(launch.kind.split(" + "))


def test_most_keys_of_these_files_are_understood() -> None:
    launches = [launch for path in FILES if (launch := read(path)) is not None]
    known = sum(len(launch.used) + len(launch.ignored) for launch in launches)
    unknown = sum(len(launch.not_understood) for launch in launches)
    assert unknown < 0.02 * known

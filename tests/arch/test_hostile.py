"""Whatever a config.json holds, the answer is an `Architecture` or an error of ours, soon."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.arch import Architecture, catalog, read_config
from tonnage.arch.config import parse_config
from tonnage.arch.families import FAMILIES
from tonnage.errors import TonnageError

SEEDS: list[dict[str, Any]] = [dict(entry.config) for entry in catalog.entries().values()]
NESTED = [seed for seed in SEEDS if any(isinstance(value, dict) for value in seed.values())]
LISTED = [seed for seed in SEEDS if any(isinstance(value, list) for value in seed.values())]
KEYS = sorted({key for seed in SEEDS for key in seed} | {"layer_types", "architectures"})


def nest(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


# Built when drawn: nobody, Hypothesis included, can print them.
MONSTERS: dict[str, Callable[[], Any]] = {
    "digits": lambda: 10**5000,
    "negative digits": lambda: -(10**5000),
    "nest": lambda: nest(5000),
    "list of digits": lambda: [10**5000],
    "surrogate": lambda: "\ud800",
    "long": lambda: "9" * 10_000,
}

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(0, 20_000),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(sorted(MONSTERS)).map(lambda name: MONSTERS[name]()),
    st.lists(st.one_of(st.integers(-2, 100), st.text(max_size=5), st.none()), max_size=50),
    st.dictionaries(st.sampled_from(KEYS), st.integers(-1, 5000), max_size=5),
)


def outcome(read: Callable[[], Architecture]) -> Architecture | TonnageError:
    try:
        return read()
    except TonnageError as error:
        return error


def survives(read: Callable[[], Architecture]) -> None:
    result = outcome(read)
    if isinstance(result, TonnageError):
        assert 0 < len(str(result)) < 600
        assert "\n" not in str(result)
    else:
        assert all(count > 0 for count in result.kinds().values())


@settings(max_examples=600, deadline=2000)
@given(
    seed=st.sampled_from(SEEDS),
    family=st.none() | st.sampled_from(sorted(FAMILIES)),
    removed=st.sets(st.sampled_from(KEYS), max_size=3),
    changed=st.dictionaries(st.sampled_from(KEYS), ODD, max_size=4),
)
def test_keys_removed_and_retyped(
    seed: dict[str, Any], family: str | None, removed: set[str], changed: dict[str, Any]
) -> None:
    config = {key: value for key, value in {**seed, **changed}.items() if key not in removed}
    if family:
        config["model_type"] = family
    survives(lambda: read_config(config, name="hostile"))


@settings(max_examples=600, deadline=2000)
@given(data=st.data())
def test_nested_keys_removed_and_retyped(data: st.DataObject) -> None:
    config = data.draw(st.sampled_from(NESTED))
    part = data.draw(st.sampled_from([key for key in config if isinstance(config[key], dict)]))
    names = st.sampled_from(sorted({*config[part], *KEYS}))
    removed = data.draw(st.sets(names, max_size=2))
    changed = data.draw(st.dictionaries(names, ODD, max_size=3))
    inner = {k: v for k, v in {**config[part], **changed}.items() if k not in removed}
    survives(lambda: read_config({**config, part: inner}, name="hostile"))


@settings(max_examples=400, deadline=2000)
@given(data=st.data())
def test_lists_of_layers_cut_and_filled_with_junk(data: st.DataObject) -> None:
    config = data.draw(st.sampled_from(LISTED))
    key = data.draw(st.sampled_from([key for key in config if isinstance(config[key], list)]))
    items = list(config[key])[: data.draw(st.integers(0, len(config[key])))]
    items += data.draw(st.lists(ODD, max_size=3))
    survives(lambda: read_config({**config, key: items}, name="hostile"))


@settings(max_examples=200, deadline=2000)
@given(config=st.dictionaries(st.sampled_from([*KEYS, "junk"]), ODD, max_size=12))
def test_arbitrary_objects(config: dict[str, Any]) -> None:
    survives(lambda: read_config(config, name="hostile"))


@settings(max_examples=200, deadline=2000)
@given(data=st.binary(max_size=200), cut=st.integers(0, 400))
def test_arbitrary_bytes(data: bytes, cut: int) -> None:
    def read(text: bytes) -> Architecture:
        return read_config(parse_config(text, model="x"), name="hostile")

    survives(partial(read, data))
    survives(partial(read, json.dumps(SEEDS[0]).encode()[:cut] + data))


@pytest.mark.parametrize("monster", MONSTERS)
@pytest.mark.parametrize("key", ["model_type", "hidden_size", "layer_types", "hidden_act"])
def test_values_that_cannot_be_printed(key: str, monster: str) -> None:
    config = {**catalog.entries()["qwen3-8b"].config, key: MONSTERS[monster]()}
    survives(lambda: read_config(config, name="hostile"))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_alone_is_a_missing_key(family: str) -> None:
    with pytest.raises(TonnageError, match=r"^config\..*nothing"):
        read_config({"model_type": family}, name="x")


def test_the_room_is_light() -> None:
    """Reading the catalog must not wait for numpy, pydantic or the network's modules."""
    code = (
        "import sys, tonnage.arch as arch; arch.load('gpt2'); "
        "print({'numpy', 'pydantic', 'torch', 'urllib.request', 'difflib'} & {*sys.modules})"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "set()"

"""No floor is above what a plan weighs, under any stack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.plan.strategies import DEEPSEEK, DENSE, GPT, MIXTURE
from tests.search.spaces import every_weighed, question
from tonnage.arch import Architecture
from tonnage.plan.schedule import SPLITS
from tonnage.runtime import OFFLOADS
from tonnage.runtime import runtime as runtime_named
from tonnage.search import Question
from tonnage.search.rank import Frontier

EVERY = 31
"""Of the groups of a space, one in so many is weighed."""


@pytest.mark.parametrize("architecture", [DENSE, GPT, MIXTURE, DEEPSEEK], ids=lambda a: a.name)
@pytest.mark.parametrize("runtime", ["megatron", "nanotron", "fsdp2", "deepspeed", "accelerate"])
def test_no_plan_is_below_its_floors(architecture: Architecture, runtime: str) -> None:
    asked = question(architecture, gpus=4, runtime=runtime, gbs=8)
    assert list(shares(asked))


@pytest.mark.parametrize("architecture", [DENSE, MIXTURE], ids=lambda a: a.name)
@pytest.mark.parametrize("runtime", ["megatron", "fsdp2"])
@pytest.mark.parametrize("schedule", SPLITS)
def test_floors_of_a_schedule_are_sound_and_near(
    architecture: Architecture, runtime: str, schedule: str
) -> None:
    """With few micro-batches and with many."""
    choices: dict[str, tuple[Any, ...]] = {
        "schedule": (schedule,),
        "hsdp_shard": (None,),
        "recompute_num_layers": (0, 2),
    }
    asked = question(architecture, gpus=4, runtime=runtime, gbs=16, choices=choices)
    seconds, device = zip(*shares(asked), strict=True)
    # What replicas exchange and the optimizer's step are left out of seconds.
    assert np.mean(seconds) > 0.6
    assert np.mean(device) > 0.9


def shares(asked: Question) -> Iterator[tuple[float, float]]:
    """The floors of some plans as a part of what they weigh; none is above it."""
    for candidates, _, found in every_weighed(asked, EVERY):
        choice = candidates.choice
        assert (candidates.seconds <= found.seconds).all(), choice.mode
        assert (candidates.device <= found.device).all(), choice.mode
        yield from zip(
            candidates.seconds / found.seconds, candidates.device / found.device, strict=True
        )


FEW: dict[str, tuple[Any, ...]] = {
    **{"pp": (1, 2), "vpp": (1,), "cp": (1, 2), "mbs": (1, 2), "ep": (1, 2), "etp": (1,)},
    "recompute": ("none", "selective", "full"),
    "recompute_num_layers": (1, 2),
}


@pytest.mark.parametrize(
    ("runtime", "exchange", "choices"),
    [
        ("megatron", "p2p", FEW),
        ("megatron", "a2a", FEW),
        ("megatron", "allgather", FEW),
        ("fsdp2", "p2p", FEW),
        ("deepspeed", "p2p", {}),
        ("torchtune", "p2p", {}),
        ("accelerate", "p2p", {}),
    ],
)
def test_no_plan_with_host_memory_is_below_its_floors(
    runtime: str, exchange: str, choices: dict[str, tuple[Any, ...]]
) -> None:
    asked = question(
        MIXTURE if runtime == "megatron" else DENSE,
        gpus=4,
        runtime=runtime,
        gbs=8,
        offload=True,
        choices={**choices, "cp_comm": (exchange,), "offload_activations": (False, True)},
    )
    seen: set[str] = set()
    for candidates, group, found in every_weighed(asked, EVERY):
        choice = candidates.choice
        assert (candidates.seconds <= found.seconds).all(), (choice.mode, choice.away)
        assert (candidates.device <= found.device).all(), (choice.mode, choice.away)
        seen |= {field for field in OFFLOADS if getattr(group.plan, field)}
    assert seen == {*runtime_named(runtime).offloads, "offload_activations"}


def test_a_frontier_keeps_what_nothing_beats() -> None:
    random = np.random.default_rng(1)
    frontier = Frontier()
    seconds, device = random.random(200), random.random(200)
    for start in range(0, 200, 20):
        part = slice(start, start + 20)
        frontier.add(seconds[part], device[part], start, np.arange(20))
    wanted = {
        (s, d)
        for s, d in zip(seconds, device, strict=True)
        if not any(
            (s2 <= s) & (d2 <= d) & ((s2 < s) | (d2 < d))
            for s2, d2 in zip(seconds, device, strict=True)
        )
    }
    assert set(zip(frontier.seconds, frontier.device, strict=True)) == wanted
    assert not frontier.adds(frontier.seconds, frontier.device).any()

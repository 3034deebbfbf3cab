"""Published plans are found feasible, and near the best that their stacks allow."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.arch import load
from tonnage.cluster import parse_cluster
from tonnage.plan import Plan
from tonnage.search import Question, find_plans

WITHIN = 1.05

SHORT: dict[str, tuple[Any, ...]] = {
    "zero": (1,),
    "hsdp_shard": (None,),
    "loss": ("vocab-parallel-fused",),
    "recompute": ("none", "selective"),
}
"""Leaves out what changes little here, to search in a moment."""


@pytest.mark.parametrize(
    ("seq", "gbs", "cp", "choices"),
    [(8192, 2048, 1, {"cp": (1,)}), (131072, 128, 16, {})],
    ids=["8k", "128k"],
)
def test_llama_3_405b(seq: int, gbs: int, cp: int, choices: dict[str, tuple[Any, ...]]) -> None:
    """tp 8, pp 16 (arXiv 2407.21783, table 4), with an all-gather as context parallelism.

    Among plans with cp 1 at 8,192, where the paper has none.
    """
    base = Plan(seq=seq, gbs=gbs, habits=(("ring_overlap", "false"),))
    found = find_plans(
        Question(
            architecture=load("llama-3.1-405b"),
            clusters=(parse_cluster("16384xH100"),),
            base=base,
            choices={**SHORT, **choices},
            top=8,
        )
    )
    best = found.plans[0].estimate
    (published,) = (
        each.estimate
        for each in found.plans
        if (each.plan.tp, each.plan.pp, each.plan.cp) == (8, 16, cp)
    )
    assert published.fits
    assert published.step.seconds <= WITHIN * best.step.seconds
    # Published: 400 and 380 TFLOP/s of 989, with each stack's own count of attention.
    assert published.step.mfu_causal == pytest.approx(400 / 989 if cp == 1 else 380 / 989, rel=0.05)

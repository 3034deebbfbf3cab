"""Plans of three large models weighed as a search weighs them: bytes and seconds, every stage.

Run by hand: ``python benchmarks/search_columns.py``. Prints plans per second of CPU time on
columns of a million, the tables of pieces made anew among it, and what a group costs that
brings few plans: a search has thousands of them.
"""

from __future__ import annotations

import dataclasses
import platform
import sys
import time

import numpy as np
from numpy.typing import NDArray

from tonnage.arch import Architecture, load
from tonnage.cluster import Cluster, parse_cluster
from tonnage.plan import Plan, resolve
from tonnage.search.evaluate import evaluate
from tonnage.search.group import Group

FEW = 200
"""Plans of a small group."""

RUNS: tuple[tuple[str, str, Plan], ...] = (
    ("gpt3-175b", "512xA100-80GB", Plan(tp=8, pp=8, gbs=512, seq=2048)),
    (
        "llama-3.1-405b",
        "16384xH100",
        Plan(tp=8, pp=16, gbs=2048, seq=8192, first_stage_layers=7, last_stage_layers=7),
    ),
    (
        "deepseek-v3",
        "2048xH800",
        Plan(pp=16, ep=64, gbs=15360, seq=4096, first_stage_layers=3, last_stage_layers=2),
    ),
)


def columns(
    architecture: Architecture, ranks: int, count: int, seed: int = 0
) -> dict[str, NDArray[np.int64]]:
    """Random legal numbers for the ranks of one pipeline stage."""
    random = np.random.default_rng(seed)
    tp = 2 ** random.integers(0, 4, count)
    cp = 2 ** random.integers(0, 3, count)
    dp = ranks // (tp * cp)
    ep = etp = np.ones(count, dtype=np.int64)
    if architecture.is_moe:
        etp = np.minimum(tp, 2 ** random.integers(0, 2, count))
        ep = np.minimum(ranks // etp, 2 ** random.integers(0, 8, count))
    return {
        "tp": tp,
        "cp": cp,
        "ep": ep,
        "etp": etp,
        "dp": dp,
        "shard": dp * cp,
        "mbs": random.integers(1, 9, count),
        "grad_acc": 16 * random.integers(1, 257, count),
        "seq": 1024 * 2 ** random.integers(1, 6, count),
    }


def groups(plan: Plan, few: dict[str, NDArray[np.int64]], count: int) -> list[Group]:
    """Small groups that differ in how many layers are recomputed, and in ZeRO."""
    return [
        Group(
            plan=dataclasses.replace(
                plan,
                zero=index % 2,
                recompute="full",
                recompute_method="block",
                recompute_num_layers=1 + index % 7,
            ),
            columns=few,
        )
        for index in range(count)
    ]


def timed(architecture: Architecture, cluster: Cluster, groups: list[Group]) -> float:
    """Seconds of CPU time to weigh some groups."""
    started = time.process_time()
    for group in groups:
        evaluate(architecture, group, cluster)
    return time.process_time() - started


def main(count: int = 1_000_000) -> None:
    """Time each model's column, and its small groups."""
    for name, where, launch in RUNS:
        cluster = parse_cluster(where)
        architecture = load(name)
        plan = resolve(dataclasses.replace(launch, sp=True), architecture, cluster).plan
        selective = dataclasses.replace(plan, recompute="selective")
        many = columns(architecture, cluster.gpus // plan.pp, count)
        seconds = timed(architecture, cluster, [Group(plan=selective, columns=many)])
        again = timed(architecture, cluster, [Group(plan=selective, columns=many)])
        few = {field: column[:FEW] for field, column in many.items()}
        small = groups(plan, few, 28)
        timed(architecture, cluster, small)
        each = timed(architecture, cluster, small) / len(small)
        print(
            f"{name} on {where}, pp {plan.pp}: {count:,} plans in {seconds:.2f} s of CPU, "
            f"{count / seconds:,.0f} plans/s ({count / again:,.0f} where the pieces are known); "
            f"a group of {FEW} plans {1e3 * each:.1f} ms"
        )
    print(f"numpy {np.__version__}, Python {platform.python_version()}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)

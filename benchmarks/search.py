"""Whole searches of four published trainings: wall time, CPU time and memory.

Run by hand: ``python benchmarks/search.py [NAME ...]``. Each search runs in a process of its
own, as ``tonnage plan`` does, finalists and neighbours among it.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

from tonnage.arch import load
from tonnage.cluster import parse_cluster
from tonnage.plan import Plan
from tonnage.search import Question, find_plans

CASES = {
    "gpt3-175b": ("512xA100-80GB", 512, 2048),
    "megatron-1t": ("3072xA100-80GB", 3072, 2048),
    "llama-3.1-405b": ("16384xH100", 2048, 8192),
    "deepseek-v3": ("2048xH800", 15360, 4096),
}
"""Each model with its cluster, sequences in a step, and tokens in a sequence."""


def search(name: str) -> None:
    """One search, and what it took."""
    gpus, gbs, seq = CASES[name]
    question = Question(
        architecture=load(name), clusters=(parse_cluster(gpus),), base=Plan(gbs=gbs, seq=seq)
    )
    begun, used = time.perf_counter(), time.process_time()
    answer = find_plans(question)
    wall, cpu = time.perf_counter() - begun, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    best = answer.plans[0].estimate
    print(
        f"{name} on {gpus}: {answer.space:,} plans, {answer.evaluated:,} weighed; "
        f"{wall:.1f} s wall, {cpu:.1f} s CPU, {peak:.2f} GiB; best {best.step.seconds:.3f} s "
        f"(tp {best.plan.tp} pp {best.plan.pp} vpp {best.plan.vpp} cp {best.plan.cp} "
        f"ep {best.plan.ep})",
        flush=True,
    )


def main(names: list[str]) -> None:
    """Every case, or those named."""
    if len(names) == 1:
        search(names[0])
        return
    for name in names or CASES:
        subprocess.run([sys.executable, __file__, name], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])

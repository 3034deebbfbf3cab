"""One million plans of one model through the ledger's memory arithmetic.

Run by hand: ``python benchmarks/columns.py``. Prints seconds of CPU time.
"""

from __future__ import annotations

import platform
import sys
import time

import numpy as np
from numpy.typing import NDArray

from tonnage.arch import load
from tonnage.cluster import parse_cluster
from tonnage.ledger import stage_ledgers
from tonnage.memory import stage_memory
from tonnage.plan import Plan, Resolved, resolve

CHUNK = 16_384
"""Plans in a column: small enough for its intermediates to stay in the cache."""


def columns(count: int, seed: int = 0) -> dict[str, NDArray[np.int64]]:
    """Random legal degrees of Llama-3 405B on up to 16,384 GPUs, tp and sequence varied."""
    random = np.random.default_rng(seed)
    tp = 2 ** random.integers(0, 4, count)
    dp = 2 ** random.integers(0, 8, count)
    grad_acc = random.integers(1, 129, count)
    mbs = random.integers(1, 9, count)
    seq = 1024 * random.integers(1, 33, count)
    return {"tp": tp, "dp": dp, "shard": dp, "grad_acc": grad_acc, "mbs": mbs, "seq": seq}


def weigh(resolved: Resolved, degrees: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """The peak of the worst stage of every plan, in bytes."""
    count = len(degrees["tp"])
    peaks = np.empty(count, dtype=np.int64)
    for start in range(0, count, CHUNK):
        part = {name: column[start : start + CHUNK] for name, column in degrees.items()}
        setting = resolved.setting.columns(**part)
        stages = [
            stage_memory(setting, ledger).allocated
            for ledger in stage_ledgers(setting, resolved.stages)
        ]
        peaks[start : start + CHUNK] = np.maximum.reduce(stages)
    return peaks


def main(count: int = 1_000_000) -> None:
    """Time the arithmetic, start-up apart."""
    llama = load("llama-3.1-405b")
    for pp in (1, 2):
        plan = Plan(pp=pp, sp=True, seq=8192, recompute="selective", first_stage_layers=63)
        if pp == 1:
            plan = Plan(sp=True, seq=8192, recompute="selective")
        resolved = resolve(plan, llama, parse_cluster("128xH100"))
        degrees = columns(count)
        weigh(resolved, {name: column[:CHUNK] for name, column in degrees.items()})
        started = time.process_time()
        peaks = weigh(resolved, degrees)
        seconds = time.process_time() - started
        print(
            f"{count:,} plans, {pp} stage(s): {seconds:.2f} s of CPU, "
            f"{count / seconds:,.0f} plans/s; peaks {peaks.min() / 2**30:.1f} to "
            f"{peaks.max() / 2**30:.0f} GiB"
        )
    print(f"numpy {np.__version__}, Python {platform.python_version()}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)

"""CPU and wall seconds of whole commands, start-up included.

Run by hand: ``python benchmarks/startup.py``. Prints the median of some runs of each.
"""

from __future__ import annotations

import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

COMMANDS = (
    ("--help",),
    ("estimate", "llama-3.1-8b", "--gpus", "8xH100", "--tp", "2"),
    (
        "estimate",
        "deepseek-v3",
        "--gpus",
        "2048xH800",
        "--pp",
        "16",
        "--ep",
        "64",
        "--etp",
        "1",
        "--first-stage-layers",
        "4",
        "--last-stage-layers",
        "1",
        "--gbs",
        "15360",
        "--json",
    ),
    ("napkin", "max-params", "--gpus", "8xH100"),
)
RUNS = 11


def once(command: tuple[str, ...]) -> tuple[float, float]:
    """CPU and wall seconds of one run."""
    tonnage = Path(sys.executable).with_name("tonnage")
    # A user's shell caches bytecode; one that does not pays for compiling it every time.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    done = subprocess.run([tonnage, *command], capture_output=True, check=False, env=env)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 3):
        raise SystemExit(done.stderr.decode())
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def main() -> None:
    """Time every command."""
    for command in COMMANDS:
        once(command)
        runs = [once(command) for _ in range(RUNS)]
        cpu, wall = (statistics.median(column) for column in zip(*runs, strict=True))
        print(f"{cpu:.2f} s CPU  {wall:.2f} s wall  tonnage {' '.join(command)}")
    print(f"Python {platform.python_version()}, median of {RUNS}")


if __name__ == "__main__":
    main()

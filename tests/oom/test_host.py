"""Processes that were killed: when it was for memory, and when it may have been."""

import pytest

from tests.oom.test_message import PYTORCH_2_1
from tonnage.oom.diagnosis import diagnose
from tonnage.oom.host import Kill
from tonnage.oom.log import NoFailureError, failure
from tonnage.quantity import KIB

SURE = {
    "[ 7063.2] Memory cgroup out of memory: Killed process 632 (python) total-vm:3149468kB, "
    "anon-rss:164992kB, file-rss:52176kB": Kill(
        sure=True, cgroup=True, process="python", resident=164992 * KIB
    ),
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null)\nOut of memory: Killed process 14 (pt_x) "
    "total-vm:87033376kB, anon-rss:60356340kB": Kill(
        sure=True, process="pt_x", resident=60356340 * KIB
    ),
    "slurmstepd: error: Detected 1 oom_kill event in StepId=113.0.": Kill(sure=True),
    "slurmstepd: error: Detected 2 oom-kill event(s) in StepId=1.batch": Kill(sure=True),
    "Task was killed due to the node running low on memory.": Kill(sure=True),
    "state: terminated, reason: OOMKilled": Kill(sure=True),
}
LIKELY = [
    "failed (exitcode: -9) local_rank: 2 (pid: 161617) of binary: /usr/bin/python",
    "traceback : Signal 9 (SIGKILL) received by PID 394968",
    "loss 0.56\nKilled\n$ ",
    "job.sh: line 28:  8156 Killed                  python3 main.py",
    "Process finished with exit code 137 (interrupted by signal 9: SIGKILL)",
    "died with <Signals.SIGKILL: 9>.",
    "RuntimeError: DataLoader worker (pid 2345) is killed by signal: Killed. ",
    "[launch.py:321:sigkill_handler] exits with return code = -9",
]


@pytest.mark.parametrize("text", SURE)
def test_a_kill_for_memory_is_read(text: str) -> None:
    found = diagnose(failure(f"step 1\n{text}\n"))
    assert found.failure.kill == SURE[text]
    assert found.verdict is not None
    assert found.verdict.cause == "host memory"
    assert "most often" not in found.verdict.why
    assert found.advice


@pytest.mark.parametrize("text", LIKELY)
def test_a_kill_without_a_reason_says_so(text: str) -> None:
    found = diagnose(failure(f"step 1\n{text}\n"))
    assert found.failure.kill == Kill(sure=False)
    assert found.verdict is not None
    assert "most often" in found.verdict.why


def test_a_device_that_ran_out_is_the_cause_of_ranks_that_a_launcher_kills() -> None:
    found = failure(f"{PYTORCH_2_1}\n{LIKELY[0]}\n")
    assert found.message is not None
    assert found.kill is None


@pytest.mark.parametrize("text", ["Killed 3 stale jobs: none", "exit code 1", "signal 15"])
def test_other_ends_are_no_kill(text: str) -> None:
    with pytest.raises(NoFailureError, match="tells of no memory"):
        failure(f"step\n{text}\n")

"""What a row measured, and whether it can be compared."""

from __future__ import annotations

from tonnage.quantity import GIB
from tonnage.score.row import Row

COUNTERS = ("allocated", "reserved", "device")
TRUSTED = ("high", "medium")


def is_complete(row: Row) -> bool:
    """Whether a prediction can be made from the row alone, and its figures can be trusted.

    A file that has no such columns is taken at its word.
    """
    return (
        row.flag("config_complete", default=True)
        and (row.text("confidence") or TRUSTED[0]) in TRUSTED
    )


def ran(row: Row) -> bool:
    """Whether the run went through."""
    return (row.text("status") or "ok") == "ok"


def memory_bytes(row: Row) -> float | None:
    """The measured peak, where its counter is known."""
    size = row.measured("mem_gib")
    known = row.text("counter") in COUNTERS and ran(row) and is_complete(row)
    return size * GIB if size and known else None


def step_seconds(row: Row) -> float | None:
    """The measured time of a step: given, or from the tokens per second of one GPU."""
    if not (ran(row) and is_complete(row)):
        return None
    seconds, rate = row.measured("step_time_s"), row.measured("tok_s_gpu")
    if seconds:
        return seconds
    batch, length = row.measured("gbs"), row.measured("seq_len")
    if not (rate and batch and length):
        return None
    return batch * length / (rate * (row.measured("num_gpus") or 1.0))


def fits(row: Row) -> bool | None:
    """Whether the run fitted: known for runs that went through and those that did not."""
    status = row.text("status") or "ok"
    if status not in ("ok", "oom") or not is_complete(row):
        return None
    return status == "ok"

"""Fragmentation or shortage: the figures decide."""

import pytest

from tests.oom import test_message as wordings
from tonnage.oom.message import Message, find_messages
from tonnage.oom.verdict import verdict
from tonnage.quantity import GIB, MIB

FRAGMENTED = Message(
    backend="CUDA",
    tried=2 * GIB,
    capacity=80 * GIB,
    free=GIB,
    allocated=60 * GIB,
    reserved=70 * GIB,
)
FULL = Message(
    backend="CUDA",
    tried=2 * GIB,
    capacity=80 * GIB,
    free=GIB,
    allocated=77 * GIB,
    reserved=77 * GIB,
)
SHARED = Message(
    backend="CUDA",
    tried=2 * GIB,
    capacity=80 * GIB,
    free=GIB,
    allocated=10 * GIB,
    reserved=10 * GIB,
    process=11 * GIB,
)


@pytest.mark.parametrize(
    ("message", "cause", "missing"),
    [
        (FRAGMENTED, "fragmentation", GIB),
        (FULL, "shortage", GIB),
        (SHARED, "other processes", GIB),
        (
            Message(backend="CUDA", tried=90 * GIB, capacity=80 * GIB, free=GIB),
            "larger than the device",
            89 * GIB,
        ),
        (Message(backend="CUDA", tried=GIB, free=2 * GIB), "driver", None),
        (Message(backend="CUDA"), "unknown", None),
        (Message(backend="CUDA", tried=GIB), "unknown", None),
    ],
)
def test_the_cause(message: Message, cause: str, missing: int | None) -> None:
    found = verdict(message)
    assert (found.cause, found.missing) == (cause, missing)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (wordings.PYTORCH_1_1, "driver"),
        (wordings.PYTORCH_1_9, "larger than the device"),
        (wordings.PYTORCH_2_1, "fragmentation"),
        (wordings.PYTORCH_2_5, "other processes"),
        (wordings.HIP, "own limit"),
        (wordings.NPU, "fragmentation"),
        (wordings.MPS, "own limit"),
    ],
)
def test_the_cause_of_real_messages(text: str, cause: str) -> None:
    ((_, message),) = find_messages(text)
    assert verdict(message).cause == cause


def test_what_is_lacking_is_what_neither_place_has() -> None:
    message = Message(
        backend="CUDA", tried=GIB, free=100 * MIB, allocated=GIB, reserved=GIB + 24 * MIB
    )
    assert verdict(message).missing == GIB - 124 * MIB

"""Fragmentation or shortage: the figures decide."""

import pytest

from tests.oom import test_message as wordings
from tonnage.oom.diagnosis import diagnose
from tonnage.oom.log import failure
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


def old(tried: float, capacity: float, allocated: float, free: float, reserved: float) -> str:
    """A message as PyTorch 1.4 to 2.0 worded it, GiB."""
    return (
        f"CUDA out of memory. Tried to allocate {tried:.2f} GiB (GPU 0; {capacity:.2f} GiB total "
        f"capacity; {allocated:.2f} GiB already allocated; {free:.2f} GiB free; {reserved:.2f} GiB "
        "reserved in total by PyTorch)"
    )


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # 16 GiB of the device are nobody's that the message names.
        (old(1.63, 44.56, 27.91, 0.55, 27.93), "outside the allocator"),
        (old(0.02, 60.97, 10.24, 0.01, 10.65), "outside the allocator"),
        # What a context and communicators may take is no reason to look for another process.
        (old(1.0, 80.0, 77.0, 0.5, 77.2), "shortage"),
        # More is held and unused than what is missing from the account.
        (old(2.0, 80.0, 58.0, 1.0, 70.0), "fragmentation"),
        ("CUDA out of memory. Tried to allocate more than 1EB memory.", "impossible size"),
        ("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes", "host memory"),
        (
            "can NOT allocate memory block with size larger than 4GB! Tried to allocate 6.85 GiB "
            "(GPU  0; 15.56 GiB total capacity; 0 bytes already allocated; 0 bytes reserved in "
            "total by PyTorch)",
            "driver",
        ),
    ],
)
def test_the_cause_of_wordings_with_fewer_figures(text: str, cause: str) -> None:
    ((_, message),) = find_messages(text)
    assert verdict(message).cause == cause


def test_a_message_that_says_not_what_was_free_is_not_taken_to_say_nothing_was() -> None:
    text = (
        "XPU out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 15.11 GiB. "
        "Of the allocated memory 0 bytes is allocated by PyTorch, and 0 bytes is reserved by "
        "PyTorch but unallocated."
    )
    ((_, message),) = find_messages(text)
    found = verdict(message)
    assert (found.cause, found.missing) == ("unknown", None)
    assert "at most 15.11 GiB" in found.why


def test_many_small_contexts_are_ranks_on_the_wrong_device() -> None:
    named = " ".join(f"Process {n} has 414.00 MiB memory in use." for n in range(3))
    text = (
        "CUDA out of memory. Tried to allocate 572.00 MiB. GPU 0 has a total capacity of 39.49 GiB "
        f"of which 321.31 MiB is free. {named} Including non-PyTorch memory, this process has "
        "37.46 GiB memory in use. Of the allocated memory 36.04 GiB is allocated by PyTorch, and "
        "321.37 MiB is reserved by PyTorch but unallocated."
    )
    found = diagnose(failure(text))
    assert found.verdict is not None
    assert found.verdict.cause == "other processes"
    assert "set_device" in found.advice[0]

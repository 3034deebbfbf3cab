"""Every wording of an allocator's failure gives the figures that it prints."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.oom.message import Message, find_messages
from tonnage.oom.wordings import find_starts
from tonnage.quantity import GIB, MIB

PYTORCH_1_1 = (
    "RuntimeError: CUDA out of memory. Tried to allocate 12.50 MiB (GPU 0; 10.92 GiB total "
    "capacity; 8.57 MiB already allocated; 9.28 GiB free; 4.68 MiB cached)"
)
PYTORCH_1_9 = (
    "RuntimeError: CUDA out of memory. Tried to allocate 10.73 GiB (GPU 2; 8.00 GiB total "
    "capacity; 17.20 GiB already allocated; 0 bytes free; 19.15 GiB reserved in total by PyTorch)"
    " If reserved memory is >> allocated memory try setting max_split_size_mb to avoid "
    "fragmentation."
)
PYTORCH_2_1 = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a "
    "total capacty of 23.65 GiB of which 1.66 GiB is free. Including non-PyTorch memory, this "
    "process has 20.81 GiB memory in use. Of the allocated memory 12.09 GiB is allocated by "
    "PyTorch, and 4.84 GiB is reserved by PyTorch but unallocated."
)
PYTORCH_2_5 = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 100.00 MiB. GPU 1 has a total "
    "capacity of 31.37 GiB of which 15.88 MiB is free. Process 4711 has 1.00 GiB memory in use. "
    "Process 4712 has 512.00 MiB memory in use. Including non-PyTorch memory, this process has "
    "29.80 GiB memory in use. Of the allocated memory 28.74 GiB is allocated by PyTorch, with "
    "2.00 GiB allocated in private pools (e.g., CUDA Graphs), and 19.41 MiB is reserved by "
    "PyTorch but unallocated."
)
HIP = (
    "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total "
    "capacity of 255.98 GiB of which 244.65 GiB is free. 1.05 GiB allowed; Of the allocated "
    "memory 1017.01 MiB is allocated by PyTorch, with 17.00 MiB allocated in private pools "
    "(e.g., HIP Graphs), and 54.99 MiB is reserved by PyTorch but unallocated."
)
NPU = (
    "RuntimeError: NPU out of memory. Tried to allocate 5.03 GiB (NPU 3; 60.96 GiB total "
    "capacity; 49.47 GiB already allocated; 49.47 GiB current active; 1.32 GiB free; 57.55 GiB "
    "reserved in total by PyTorch) If reserved memory is >> allocated memory try setting "
    "max_split_size_mb to avoid fragmentation."
)
MPS = (
    "RuntimeError: MPS backend out of memory (MPS allocated: 10.95 GB, other allocations: "
    "7.10 GB, max allowed: 18.13 GB). Tried to allocate 500.00 MB on private pool."
)
CPU = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't "
    "allocate memory: you tried to allocate 274877906944 bytes. Error code 12"
)
BARE = "RuntimeError: CUDA error: out of memory"
XLA = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes."


def gib(value: float) -> int:
    return int(value * 100 + 0.5) * GIB // 100


def mib(value: float) -> int:
    return int(value * 100 + 0.5) * MIB // 100


NOTES = {
    start.backend: start.note
    for text in (BARE, "Cuda failure 2 'out of memory'")
    for start in find_starts(text, 0, len(text))
}

CASES = {
    PYTORCH_1_1: Message(
        backend="CUDA",
        tried=mib(12.5),
        unit=MIB // 100,
        device_index=0,
        capacity=gib(10.92),
        free=gib(9.28),
        allocated=mib(8.57),
        reserved=mib(8.57) + mib(4.68),
    ),
    PYTORCH_1_9: Message(
        backend="CUDA",
        tried=gib(10.73),
        unit=GIB // 100,
        device_index=2,
        capacity=gib(8),
        free=0,
        allocated=gib(17.2),
        reserved=gib(19.15),
    ),
    PYTORCH_2_1: Message(
        backend="CUDA",
        tried=gib(3),
        unit=GIB // 100,
        device_index=0,
        capacity=gib(23.65),
        free=gib(1.66),
        allocated=gib(12.09),
        reserved=gib(12.09) + gib(4.84),
        process=gib(20.81),
    ),
    PYTORCH_2_5: Message(
        backend="CUDA",
        tried=mib(100),
        unit=MIB // 100,
        device_index=1,
        capacity=gib(31.37),
        free=mib(15.88),
        allocated=gib(28.74),
        reserved=gib(28.74) + mib(19.41),
        process=gib(29.8),
        others=gib(1) + mib(512),
        count_others=2,
        pools=gib(2),
    ),
    HIP: Message(
        backend="HIP",
        tried=mib(2),
        unit=MIB // 100,
        device_index=0,
        capacity=gib(255.98),
        free=gib(244.65),
        allocated=mib(1017.01),
        reserved=mib(1017.01) + mib(54.99),
        pools=mib(17),
        allowed=gib(1.05),
    ),
    NPU: Message(
        backend="NPU",
        tried=gib(5.03),
        unit=GIB // 100,
        device_index=3,
        capacity=gib(60.96),
        free=gib(1.32),
        allocated=gib(49.47),
        reserved=gib(57.55),
    ),
    MPS: Message(
        backend="MPS",
        tried=mib(500),
        unit=MIB // 100,
        allocated=gib(10.95),
        reserved=gib(10.95),
        process=gib(10.95) + gib(7.1),
        allowed=gib(18.13),
    ),
    CPU: Message(backend="CPU", tried=274877906944),
    BARE: Message(backend="CUDA", note=NOTES["CUDA"]),
    XLA: Message(backend="XLA", tried=17179869184),
}


@pytest.mark.parametrize("text", CASES)
def test_a_wording_is_read(text: str) -> None:
    ((start, message),) = find_messages(text)
    assert message == CASES[text]
    assert text[start:].split()[0] in text


@pytest.mark.parametrize(
    ("named", "process", "others"),
    [
        ("Process 12 has 78.49 GiB memory in use", 78.49, None),
        (
            "Process 12 has 0.50 GiB memory in use. Process 7 has 77.99 GiB memory in use",
            77.99,
            0.5,
        ),
        ("Process 12 has 1.50 GiB memory in use", None, 1.5),
    ],
)
def test_a_process_too_large_for_another_is_the_own(
    named: str, process: float | None, others: float | None
) -> None:
    # In a container PyTorch does not find its own number among those that the driver lists.
    text = (
        "CUDA out of memory. Tried to allocate 896.00 MiB. GPU 3 has a total capacity of "
        f"79.10 GiB of which 612.31 MiB is free. {named}. Of the allocated memory 74.10 GiB is "
        "allocated by PyTorch, and 1.12 GiB is reserved by PyTorch but unallocated."
    )
    ((_, message),) = find_messages(text)
    assert message.process == (None if process is None else gib(process))
    assert message.others == (None if others is None else gib(others))


def test_messages_of_one_log_do_not_run_into_each_other() -> None:
    found = find_messages("\n".join(CASES))
    assert [message for _, message in found] == list(CASES.values())


def test_the_figures_of_a_message_say_what_lies_outside() -> None:
    ((_, message),) = find_messages(PYTORCH_2_5)
    assert message.unallocated == mib(19.41)
    assert message.beyond == gib(29.8) - gib(28.74) - mib(19.41)


@given(st.text(max_size=400))
def test_no_text_is_more_than_it_can_take(text: str) -> None:
    assert all(
        message.backend == "CUDA" for _, message in find_messages(f"CUDA out of memory.{text}")
    )


BARE_WORDINGS = {
    "RuntimeError: cuda runtime error (2) : out of memory at /x/THCStorage.cu:58": "CUDA",
    "RuntimeError: CUDA driver error: out of memory": "CUDA",
    "HIP error: out of memory": "HIP",
    "CUDA_ERROR_OUT_OF_MEMORY: out of memory": "CUDA",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`": "CUDA",
    "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mCudaStream->get()): "
    "out of memory (/app/tllmBuffers.h:112)": "CUDA",
    "[0] include/alloc.h:103 NCCL WARN Cuda failure 2 'out of memory'": "NCCL",
    "NCCL WARN Cuda failure 'out of memory'": "NCCL",
    "Last error:\nFailed to CUDA calloc async 608 bytes": "NCCL",
    "EL0004: Failed to allocate memory.": "NPU",
}


@pytest.mark.parametrize("text", BARE_WORDINGS)
def test_what_has_no_figures_says_who_asked(text: str) -> None:
    ((_, message),) = find_messages(text)
    assert message.backend == BARE_WORDINGS[text]
    assert message.note


SIZES = {
    "Resource exhausted: Out of memory while trying to allocate 5520758552 bytes.": 5520758552,
    "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. "
    "Used 21.50G of 15.50G hbm. Exceeded hbm capacity by 6.00G.": gib(21.5),
    "OOM when allocating tensor with shape[64,2016,9,9] and type float on GPU:0": 64 * 2016 * 324,
    "Requested amount of GPU memory (24793579520 bytes) could not be allocated.": 24793579520,
    "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 7.25 GiB for an array with "
    "shape (1000,)": gib(7.25),
    "XPU out of memory. Tried to allocate 1.50 GiB (GPU  0; 15.56 GiB total capacity; 0 bytes "
    "already allocated; 0 bytes reserved in total by PyTorch)": gib(1.5),
}


@pytest.mark.parametrize("text", SIZES)
def test_a_size_is_read_in_any_unit_or_as_a_shape(text: str) -> None:
    ((_, message),) = find_messages(text)
    assert message.tried == SIZES[text]


def test_a_length_beyond_any_tensor_is_no_size() -> None:
    ((_, message),) = find_messages("NPU out of memory. Tried to allocate more than 1EB memory")
    assert message.tried is None
    assert "no size of a tensor" in message.note


@pytest.mark.parametrize("told", ["0 bytes", "17179869184.00 GiB"])
def test_a_figure_that_cannot_be_is_none(told: str) -> None:
    # In a container, and under WSL, the driver does not know what a process holds.
    ((_, message),) = find_messages(PYTORCH_2_1.replace("20.81 GiB", told))
    assert message.process is None
    assert message.reserved == gib(12.09) + gib(4.84)


@pytest.mark.parametrize("between", ["\n", "\n  ", "\n2025-01-01T00:00:00Z "])
def test_a_message_broken_into_lines_is_read_whole(between: str) -> None:
    ((_, message),) = find_messages(PYTORCH_2_1.replace(" GiB ", f" GiB{between}"))
    assert message == CASES[PYTORCH_2_1]


def test_a_message_that_was_cut_gives_what_is_left() -> None:
    ((_, message),) = find_messages(PYTORCH_2_1[:100] + "\nINFO 9.00 GiB free")
    assert (message.tried, message.allocated) == (3 * GIB, None)


def test_what_follows_a_message_is_not_its_own() -> None:
    ((_, message),) = find_messages(f"{BARE}\n\nhost: 3.00 GiB free; 9.00 GiB total capacity")
    assert message.free is None

"""What to do about a failure, by its message alone, in the order of what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.oom.log import Failure
from tonnage.oom.message import Message
from tonnage.oom.serving_advice import serving_advice
from tonnage.oom.verdict import OWN, Verdict, others_bytes
from tonnage.quantity import GIB, format_bytes

VARIABLES: Final = {
    "CUDA": "PYTORCH_CUDA_ALLOC_CONF",
    "HIP": "PYTORCH_HIP_ALLOC_CONF",
    "NPU": "PYTORCH_NPU_ALLOC_CONF",
    "XPU": "PYTORCH_ALLOC_CONF",
}
"""The environment variable of each backend's caching allocator."""

_MOMENTS: Final = {
    "loss": (
        "compute the loss without whole copies of the logits (a fused, chunked or linear "
        "cross-entropy): it changes no number and costs next to no time",
    ),
    "optimizer step": (
        "use a fused optimizer step (fused=True, or foreach=False): a foreach step makes a "
        "temporary as large as all it updates",
        "shard the optimizer states over the data-parallel ranks (ZeRO 1 or more)",
    ),
    "gather of parameters": (
        "wrap smaller units, or fetch fewer ahead: whole parameters of two units are there at once",
    ),
    "recomputation": (
        "recompute less at a time: one group of layers is rebuilt at once, so that smaller "
        "groups need less",
    ),
    "setup of communication": (
        "lower NCCL_BUFFSIZE or the number of channels: each communicator has its own buffers",
    ),
    "load": (
        "load shard by shard, or on the meta device: a whole state dict beside the model is twice "
        "the weights",
    ),
}
"""What helps at a moment of the step."""

_WEIGHED: Final = ("loss", "optimizer step", "recomputation")
"""Moments of which an estimate weighs what helps."""

_GENERAL: Final = (
    "a smaller micro-batch with more accumulation: the same step, a little slower",
    "recompute activations in backward: at most a third more FLOPs",
    "more shards: ZeRO, tensor, pipeline or context parallelism",
)


_OUTSIDE: Final = (
    "leave the device room outside the allocator: expandable_segments, or "
    "torch.cuda.set_per_process_memory_fraction below 1; it holds what it once took",
    "fewer or smaller communicators (NCCL_BUFFSIZE, NCCL_MAX_NCHANNELS), fewer graphs, "
    "less pinned memory",
)

_HOST: Final = (
    "fewer workers and less prefetching of each data loader: every worker of every rank has its "
    "own copy of what it has touched",
    "load weights shard by shard, on one rank or on the meta device: else every rank of a node "
    "holds a copy of the whole state dict",
    "states that are offloaded to the host take its memory, pinned copies too (tonnage estimate "
    "says how much a node needs)",
    "raise the limit of the job or container (--mem, memory.max) where the node has more",
)


def advice(failure: Failure, found: Verdict | None, *, weighed: bool = False) -> tuple[str, ...]:
    """What to do, the cheapest first.

    Args:
        failure: what a log tells.
        found: its cause.
        weighed: whether changes of the plan are estimated elsewhere, so that none is told here.
    """
    if failure.shortage is not None:
        return tuple(serving_advice(failure.shortage))
    if found is None:
        return ()
    if failure.kill is not None or found.cause == "host memory":
        return _HOST
    message = failure.message
    assert message is not None
    lines = list(_by_cause(message, found))
    if found.cause in ("shortage", "larger than the device", "unknown"):
        if failure.moment not in _WEIGHED or not weighed:
            lines += _MOMENTS.get(failure.moment or "", ())
        lines += () if weighed else _GENERAL
    if message.pools:
        lines.append(
            f"{format_bytes(message.pools)} lie in private pools: CUDA graphs keep what they were "
            "captured with; capture fewer, or none"
        )
    return tuple(lines)


def _by_cause(message: Message, found: Verdict) -> Iterator[str]:
    if found.cause == "fragmentation":
        yield from _fragmented(message)
    elif found.cause in ("other processes", "outside the allocator"):
        yield from _crowded(message)
    elif found.cause == "own limit":
        yield (
            "raise the limit that the process has set itself "
            "(torch.cuda.set_per_process_memory_fraction, PYTORCH_MPS_HIGH_WATERMARK_RATIO)"
        )
    elif found.cause == "driver" and message.backend == "XPU":
        yield (
            "let one allocation be larger than 4 GiB "
            "(UR_L0_USE_RELAXED_ALLOCATION_LIMITS=1), or make the tensor in pieces"
        )
    elif found.cause == "driver":
        yield "look at dmesg and at limits of the host: locked memory, cgroups, a device that hangs"
    elif found.cause == "impossible size":
        yield (
            "look at what the shape is computed from (lengths, indices, labels), with "
            "CUDA_LAUNCH_BLOCKING=1: another failure, or another rank's, came first"
        )
    elif found.cause == "unknown" and message.note:
        yield from _OUTSIDE
    if (message.beyond or 0) > OWN:
        yield (
            f"{format_bytes(message.beyond or 0)} of the process lie outside its allocator "
            "(context, libraries, communicators): fewer process groups, a smaller NCCL_BUFFSIZE"
        )


def _fragmented(message: Message) -> Iterator[str]:
    variable = VARIABLES.get(message.backend)
    idle = format_bytes(message.unallocated or 0)
    if variable:
        yield f"{variable}=expandable_segments:True: up to {idle} become usable, at no cost"
    yield (
        "sequences of one length, or padded to a few: blocks are then used again instead of "
        "new ones being cut"
    )
    if variable:
        yield (
            f"{variable}=max_split_size_mb:512, where segments cannot expand: large blocks "
            "are no longer cut up"
        )


def _crowded(message: Message) -> Iterator[str]:
    others = others_bytes(message)
    if message.count_others > 1 and others < message.count_others * GIB:
        yield (
            f"{message.count_others} processes hold a context or little more each: ranks of this "
            "job that touched the wrong device; call torch.cuda.set_device(local_rank) before "
            "anything else"
        )
    held = format_bytes(others or message.elsewhere or 0)
    yield (
        f"stop the other processes of the device ({held}), or take another device: nvidia-smi or "
        "its like lists them"
    )

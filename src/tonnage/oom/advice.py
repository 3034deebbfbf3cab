"""What to do about a failure, by its message alone, in the order of what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.oom.log import Failure
from tonnage.oom.message import Message
from tonnage.oom.serving import CacheShortage
from tonnage.oom.verdict import Verdict, others_bytes
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

_GENERAL: Final = (
    "a smaller micro-batch with more accumulation: the same step, a little slower",
    "recompute activations in backward: at most a third more FLOPs",
    "more shards: ZeRO, tensor, pipeline or context parallelism",
)


def advice(failure: Failure, found: Verdict | None) -> tuple[str, ...]:
    """What to do, the cheapest first."""
    if failure.shortage is not None:
        return tuple(_serving(failure.shortage))
    message = failure.message
    if message is None or found is None:
        return ()
    lines = list(_by_cause(message, found))
    if found.cause in ("shortage", "larger than the device", "unknown"):
        lines += _MOMENTS.get(failure.moment or "", ())
        lines += _GENERAL
    if message.pools:
        lines.append(
            f"{format_bytes(message.pools)} lie in private pools: CUDA graphs keep what they were "
            "captured with; capture fewer, or none"
        )
    return tuple(lines)


def _by_cause(message: Message, found: Verdict) -> Iterator[str]:
    variable = VARIABLES.get(message.backend)
    if found.cause == "fragmentation":
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
    elif found.cause == "other processes":
        yield (
            f"stop the other processes of the device ({format_bytes(others_bytes(message))}), or "
            "take another device: nvidia-smi or its like lists them"
        )
    elif found.cause == "own limit":
        yield (
            "raise the limit that the process has set itself "
            "(torch.cuda.set_per_process_memory_fraction, PYTORCH_MPS_HIGH_WATERMARK_RATIO)"
        )
    elif found.cause == "driver":
        yield "look at dmesg and at limits of the host: locked memory, cgroups, a device that hangs"
    if (message.beyond or 0) > 4 * GIB:
        yield (
            f"{format_bytes(message.beyond or 0)} of the process lie outside its allocator "
            "(context, libraries, communicators): fewer process groups, a smaller NCCL_BUFFSIZE"
        )


def _serving(shortage: CacheShortage) -> Iterator[str]:
    if shortage.possible_tokens is not None and shortage.asked_tokens is not None:
        yield f"--max-model-len {shortage.possible_tokens} fits now, at no cost to shorter requests"
    if shortage.needed is not None and shortage.available is not None:
        lacking = format_bytes(max(shortage.needed - shortage.available, 0))
        yield f"{lacking} more are needed: raise --gpu-memory-utilization where the device has them"
    yield "--kv-cache-dtype fp8 halves the cache of a 16-bit one"
    yield "--tensor-parallel-size divides weights and cache over more devices"

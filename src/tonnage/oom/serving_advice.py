"""What to do where a serving engine's weights or cache do not fit, the cheapest first."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tonnage.oom.serving import CacheShortage
from tonnage.quantity import format_bytes


def serving_advice(shortage: CacheShortage) -> Iterator[str]:
    """Flags of the engine that spoke, with figures where its message has them."""
    if shortage.engine == "SGLang":
        yield from _sglang()
    elif shortage.engine == "TensorRT-LLM":
        yield from _tensorrt()
    elif shortage.sequences is not None:
        yield from _sampler(shortage.sequences)
    elif shortage.capacity is not None:
        yield from _startup(shortage)
    else:
        yield from _cache(shortage)


def _cache(shortage: CacheShortage) -> Iterator[str]:
    if shortage.possible_tokens:
        yield f"--max-model-len {shortage.possible_tokens} fits now, at no cost to shorter requests"
    if shortage.needed is not None and shortage.available is not None:
        lacking = format_bytes(max(shortage.needed - shortage.available, 0))
        yield f"{lacking} more are needed: raise --gpu-memory-utilization where the device has them"
        yield (
            f"--kv-cache-dtype fp8 makes a 16-bit cache {format_bytes(shortage.needed // 2)} "
            "smaller, to half"
        )
    else:
        yield "raise --gpu-memory-utilization where the device has more"
        yield "--kv-cache-dtype fp8 halves the cache of a 16-bit one"
    yield "--enforce-eager keeps no CUDA graphs"
    yield "a smaller --max-num-batched-tokens leaves more to the cache"
    yield "--tensor-parallel-size divides weights and cache over more devices"


def _startup(shortage: CacheShortage) -> Iterator[str]:
    """The device is not as free as the engine was told to take."""
    assert shortage.capacity is not None
    free, whole = shortage.available or 0, shortage.capacity
    yield (
        f"stop what holds {format_bytes(whole - free)} of the device: nvidia-smi lists it, and an "
        "engine that failed may still be there"
    )
    share = math.floor(100 * free / whole) / 100
    if share > 0:
        yield (
            f"--gpu-memory-utilization {share:.2f} takes no more than is free "
            f"({format_bytes(share * whole)}), weights and cache together"
        )


def _sampler(sequences: int) -> Iterator[str]:
    yield f"--max-num-seqs {max(sequences // 4, 1)}: fewer requests are sampled at once"
    yield "lower --gpu-memory-utilization: what the cache does not take is left for the sampler"


def _sglang() -> Iterator[str]:
    yield (
        "raise --mem-fraction-static: it is the share for weights and cache together, and the "
        "weights alone pass it"
    )
    yield "--tp-size divides the weights over more devices; a quantised model has smaller ones"
    yield "--max-total-tokens and --context-length are of no help while no token fits"


def _tensorrt() -> Iterator[str]:
    yield "lower kv_cache_config.free_gpu_memory_fraction, or set max_tokens of the cache"
    yield "a smaller --max_num_tokens, --max_batch_size or --max_seq_len: buffers grow with them"
    yield "--tp_size divides weights and cache over more devices"

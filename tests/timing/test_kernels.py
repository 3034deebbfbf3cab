"""Kernels and collectives beside measured ones; the rows are read by path, where they are."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tonnage.cluster import Cluster, find_device
from tonnage.ledger import Collective
from tonnage.mesh import Axis
from tonnage.timing.collective import collective_seconds
from tonnage.timing.decode import Decode, decode_seconds
from tonnage.timing.gemm import Product, ProductRates, product_seconds

ROWS = Path(__file__).parents[3] / "shared" / "truth" / "kernels"
pytestmark = pytest.mark.skipif(not ROWS.exists(), reason="the measured kernels are not here")

DEVICES = {
    "h100_sxm": "H100-80GB",
    "h200_sxm": "H200",
    "b200_sxm": "B200",
    "gb200": "GB200",
    "a100_sxm": "A100-80GB",
    "l40s": "L40S",
}


def rows(name: str) -> Iterator[dict[str, str]]:
    with gzip.open(ROWS / f"{name}.csv.gz", "rt", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def columns(found: list[dict[str, str]], *names: str) -> list[Any]:
    return [np.array([float(row[name]) for row in found]) for name in names]


def error(predicted: Any, measured: Any) -> float:
    return float(np.median(np.abs(predicted / measured - 1)))


# start µs, share of peak, share of bandwidth, wave µs, feed GB/s, split µs, and how much
# longer a product of a millisecond takes: seven constants for each device.
PRODUCTS = {
    "h100_sxm": (2.86, 0.883, 0.889, 0.79, 123, 1.81, 0.087),
    "h200_sxm": (3.01, 0.877, 0.852, 0.63, 134, 1.98, 0.109),
    "b200_sxm": (2.02, 0.852, 0.804, 1.13, 197, 3.68, 0.30),
    "gb200": (2.58, 0.86, 0.831, 0.52, 198, 3.41, 0.54),
}
SHARED = (2.9, 0.841, 0.862, 0.91, None, 2.1, 0.14)
"""The same for a device that nobody has measured; its feed goes with its peak."""


def products(system: str, constants: tuple[Any, ...]) -> float:
    device = find_device(DEVICES[system])
    found = [r for r in rows("gemm") if r["system"] == system and r["gemm_dtype"] == "bfloat16"]
    m, n, k, latency = columns(found, "m", "n", "k", "latency")
    start, share, memory, wave, feed, split, droop = constants
    assert device.multiprocessors
    each = device.peak["bf16"] / device.multiprocessors
    seconds = product_seconds(
        Product(rows=m, columns=n, depth=k),
        ProductRates(
            multiprocessors=device.multiprocessors,
            flops=share * device.peak["bf16"],
            memory=memory * device.bandwidth,
            feed=feed * 1e9 if feed else 0.0151 * each,
            start=start * 1e-6,
            wave=wave * 1e-6,
            split=split * 1e-6,
        ),
    )
    return error(seconds * (1 + droop * np.minimum(seconds / 1e-3, 1)), latency / 1e3)


@pytest.mark.parametrize("system", sorted(PRODUCTS))
def test_products_of_a_known_device(system: str) -> None:
    assert products(system, PRODUCTS[system]) <= 0.06


@pytest.mark.parametrize("system", sorted(PRODUCTS))
def test_products_of_a_device_that_is_not_known(system: str) -> None:
    assert products(system, SHARED) <= 0.10


KERNELS = {
    "vllm_flash_attn_fa3": "fa3",
    "vllm_flashinfer": "flashinfer",
    "vllm_flashinfer_trtllmdecode": "trtllm",
    "vllm_flash_attn_fa2": "fa2",
    "vllm_flashinfer_fidecode": "fa2",
}
L2 = {"h100_sxm": 50e6, "h200_sxm": 50e6, "b200_sxm": 126e6, "l40s": 96e6}


def test_decode_attention() -> None:
    errors: list[Any] = []
    everything = list(rows("decode_attention"))
    for key in {(r["system"], r["kernel_source"], r["kv_cache_dtype"]) for r in everything}:
        found = [
            r for r in everything if (r["system"], r["kernel_source"], r["kv_cache_dtype"]) == key
        ]
        names = ("batch_size", "step", "num_heads", "num_key_value_heads", "head_dim", "latency")
        batch, step, heads, kv_heads, width, latency = columns(found, *names)
        shape = Decode(
            batch=batch,
            length=step + 1,
            heads=heads,
            kv_heads=kv_heads,
            width=width,
            kv_bytes=2 if key[2] == "bfloat16" else 1,
        )
        device = find_device(DEVICES[key[0]])
        seconds = decode_seconds(shape, device, KERNELS[key[1]], L2[key[0]])
        errors.append(np.abs(seconds / (latency / 1e3) - 1))
    assert float(np.median(np.concatenate(errors))) <= 0.09


KINDS: dict[str, Any] = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
}


def test_collectives_from_a_mebibyte() -> None:
    errors: list[float] = []
    for row in rows("collectives_one_node"):
        size = int(row["message_size"]) * (2 if row["nccl_dtype"] == "half" else 1)
        if row["system"] not in ("a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm") or size < 2**20:
            continue
        cluster = Cluster.of(find_device(DEVICES[row["system"]]), 8)
        collective = Collective(kind=KINDS[row["op_name"]], axis="tp", bytes=size, phase="forward")
        axis = Axis(name="tp", size=int(row["num_gpus"]), stride=1)
        seconds = float(collective_seconds(collective, axis, cluster))
        errors.append(abs(seconds / (float(row["latency"]) / 1e3) - 1))
    assert float(np.median(errors)) <= 0.09

"""A model's operations on the roofline, held to counts by hand and to the ledger's totals."""

from __future__ import annotations

import pytest

from tonnage.arch import catalog_names, load
from tonnage.cluster import find_device
from tonnage.dtype import dtype
from tonnage.ledger import sequence_flops, whole, whole_stage
from tonnage.roofline import Point, Size, chart, points, undecoded

BF16 = dtype("bf16")


def found(model: str, phase: str, size: Size, entry: str = "bf16") -> dict[str, Point]:
    every = points(load(model), size, dtype(entry))
    return {point.name: point for point in every if point.phase == phase}


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v3", "gemma-2-9b"])
def test_flops_of_prefill_are_those_of_a_forward_pass(model: str) -> None:
    architecture, size = load(model), Size(seq=2048, mbs=1)
    setting = whole(architecture, seq=2048)
    every = points(architecture, size, BF16)
    forward = sum(p.count * p.flops for p in every if p.phase == "prefill")
    trained = sum(p.count * p.flops for p in every if p.phase == "training")
    model_flops = sequence_flops(setting, (whole_stage(architecture),), causal=True).model
    assert 3 * forward == pytest.approx(model_flops, rel=1e-6)
    assert model_flops < trained < 1.2 * model_flops  # flash attention makes its scores again


def test_decode_reads_every_weight_once() -> None:
    """At one sequence the products of a dense model move about its weights, the table aside."""
    architecture = load("llama-3.1-8b")
    every = points(architecture, Size(seq=1, mbs=1), BF16)
    moved = sum(p.count * p.bytes for p in every if p.phase == "decode")
    table = architecture.vocab * architecture.hidden
    assert moved == pytest.approx(2 * (8_030_261_248 - table), rel=5e-3)


def test_decode_of_grouped_queries_by_hand() -> None:
    """Llama 3.1 8B: 32 query heads of 128 on 8 keys and values, over a cache of 4096."""
    core = found("llama-3.1-8b", "decode", Size(seq=4096, mbs=3))["attention.core"]
    assert core.flops == 3 * 2 * 4096 * 32 * (128 + 128)
    assert core.bytes == 3 * 2 * (4096 * 8 * (128 + 128) + 2 * 32 * 128)
    assert core.intensity == pytest.approx(4, rel=0.01)  # query heads to a key head


def test_decode_of_a_window_reads_the_window() -> None:
    every = points(load("gemma-2-9b"), Size(seq=8192, mbs=1), BF16)
    cores = [p for p in every if p.phase == "decode" and p.name == "attention.core"]
    local, full = sorted(cores, key=lambda point: point.flops)
    assert (local.count, full.count) == (21, 21)
    assert full.flops == 2 * local.flops  # 8192 to a window of 4096


def test_decode_of_latent_attention_reads_latents() -> None:
    """DeepSeek-V3: 128 heads share a cache of 512 + 64 numbers a token."""
    core = found("deepseek-v3", "decode", Size(seq=4096, mbs=1))["attention.core"]
    assert core.flops == 2 * 4096 * 128 * (512 + 64 + 512)
    assert core.bytes == 2 * (4096 * 576 + 128 * (512 + 64 + 512))


def test_a_token_reads_only_the_experts_that_it_visits() -> None:
    one = found("mixtral-8x7b", "decode", Size(seq=1, mbs=1))["moe.expert.gate"]
    many = found("mixtral-8x7b", "decode", Size(seq=1, mbs=64))["moe.expert.gate"]
    expert = 2 * 4096 * 14336
    assert one.bytes == pytest.approx(2 * expert, rel=1e-2)
    assert many.bytes == pytest.approx(8 * expert, rel=5e-2)


def test_a_tied_head_reads_the_table() -> None:
    head = found("gemma-2-9b", "decode", Size(seq=16, mbs=1))["head"]
    assert head.bytes == pytest.approx(2 * 256000 * 3584, rel=1e-3)


def test_narrow_formats_move_fewer_bytes() -> None:
    size = Size(seq=512, mbs=1)
    wide, narrow = (
        found("llama-3.1-8b", "prefill", size, name)["mlp.up"] for name in ("bf16", "fp8")
    )
    assert narrow.bytes == wide.bytes / 2
    assert narrow.flops == wide.flops


def test_recurrent_layers_are_left_out_of_decode() -> None:
    architecture = load("qwen3-next-80b-a3b")
    assert undecoded(architecture) == 36
    assert undecoded(load("llama-3.1-8b")) == 0


def test_every_model_of_the_catalog_has_points() -> None:
    for name in catalog_names():
        for point in points(load(name), Size(seq=4096, mbs=2), BF16):
            assert point.flops > 0
            assert point.bytes > 0


def test_time_is_the_larger_of_two_on_every_roof() -> None:
    devices = [find_device(name) for name in ("H100", "A100")]
    answer = chart(devices, BF16, points(load("llama-3.1-8b"), Size(seq=4096, mbs=1), BF16))
    for roof in answer.roofs:
        for point in answer.points:
            rate = point.flops / roof.seconds(point)
            assert rate == pytest.approx(roof.attainable(point.intensity))
            assert (roof.bound(point) == "compute") == (rate == pytest.approx(roof.peak))
            assert answer.intensities[0] < point.intensity < answer.intensities[1]

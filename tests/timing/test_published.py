"""Step times that papers print."""

from __future__ import annotations

import pytest

from tonnage.arch import load
from tonnage.cluster import parse_cluster
from tonnage.estimation import Limits, estimate
from tonnage.plan import Plan
from tonnage.score import Row
from tonnage.score.predict import predict
from tonnage.timing.constants import EXPERT_HIDDEN

# layers, hidden, heads, gpus, tp, pp, vpp, mbs, gbs
MODELS = {
    "22B": (48, 6144, 64, 8, 8, 1, 1, 4, 4),
    "175B": (96, 12288, 96, 64, 8, 8, 3, 1, 64),
    "530B": (105, 20480, 128, 280, 8, 35, 3, 1, 280),
    "1T": (128, 25600, 160, 512, 8, 64, 1, 1, 512),
}


def megatron(name: str, *, selective: bool, model: tuple[int, ...]) -> float:
    """Seconds of a step of Megatron-LM as it was then, on A100s."""
    names = ("layers", "hidden", "heads", "num_gpus", "tp", "pp", "vpp", "mbs", "gbs")
    cells = {key: str(value) for key, value in zip(names, model, strict=True)}
    answer = predict(
        Row(
            family="paper",
            line=2,
            cells={
                **cells,
                "id": name,
                "framework": "Megatron-LM",
                "ffn": str(4 * model[1]),
                "ffn_gated": "0",
                "vocab": "51200",
                "seq_len": "2048",
                "tied_embed": "1",
                "gpu": "A100-80GB",
                "gpus_per_node": "8",
                "interconnect": "8x200Gb HDR IB per node",
                "sp": str(int(selective)),
                "zero": "none",
                "precision": "fp16 mixed",
                "attention": "unfused",
                "recompute": "selective" if selective else "full",
            },
        )
    )
    assert not answer.refused
    return answer.seconds


@pytest.mark.parametrize(
    ("name", "full", "selective"),
    [("22B", 1.42, 1.10), ("175B", 18.13, 13.75), ("530B", 49.05, 37.83), ("1T", 94.42, 71.49)],
)
def test_with_and_without_full_recomputation(name: str, full: float, selective: float) -> None:
    """Korthikanti et al., arXiv 2205.05198, table 5."""
    model = MODELS[name]
    assert megatron(name, selective=False, model=model) == pytest.approx(full, rel=0.06)
    assert megatron(name, selective=True, model=model) == pytest.approx(selective, rel=0.06)


# parameters, layers, hidden, heads, gpus, tp, pp, mbs, gbs, TFLOP/s of a GPU
SCALING = (
    (1.7e9, 24, 2304, 24, 32, 1, 1, 16, 512, 137),
    (18.4e9, 40, 6144, 48, 256, 8, 1, 8, 1024, 135),
    (145.6e9, 80, 12288, 96, 1536, 8, 8, 2, 2304, 148),
    (1008e9, 128, 25600, 160, 3072, 8, 64, 1, 3072, 163),
)


@pytest.mark.parametrize("row", SCALING, ids=lambda row: f"{row[0] / 1e9:g}B")
def test_weak_scaling_to_a_trillion_parameters(row: tuple[float, ...]) -> None:
    """Narayanan et al., arXiv 2104.04473, table 1; FLOPs by its equation 3."""
    _, layers, hidden, heads, gpus, tp, pp, mbs, gbs, rate = row
    model = tuple(int(x) for x in (layers, hidden, heads, gpus, tp, pp, 1, mbs, gbs))
    s, v = 2048, 51200
    flops = 96 * gbs * s * layers * hidden**2 * (1 + s / (6 * hidden) + v / (16 * layers * hidden))
    expected = flops / (rate * 1e12 * gpus)
    assert megatron("scaling", selective=False, model=model) == pytest.approx(expected, rel=0.10)


@pytest.mark.parametrize(
    ("gpus", "cp", "gbs", "seq", "mfu"),
    [(8192, 1, 2048, 8192, 0.43), (16384, 1, 2048, 8192, 0.41), (16384, 16, 128, 131072, 0.38)],
)
def test_llama_3_405b(gpus: int, cp: int, gbs: int, seq: int, mfu: float) -> None:
    """Grattafiori et al., arXiv 2407.21783, table 4; eight chunks a stage are taken."""
    plan = Plan(
        tp=8,
        cp=cp,
        pp=16,
        vpp=8,
        gbs=gbs,
        seq=seq,
        account_for_embedding=True,
        account_for_loss=True,
    )
    answer = estimate(load("llama-3.1-405b"), plan, parse_cluster(f"{gpus}xH100"))
    assert answer.step.mfu_causal == pytest.approx(mfu, abs=0.03)


def test_deepseek_v3_takes_180_000_hours_a_trillion_tokens() -> None:
    """DeepSeek-AI, arXiv 2412.19437, table 1 and section 3.2: H800 GPU-hours on 2,048 of them.

    Sixteen stages, experts over 64 ranks, ZeRO 1, FP8, and the experts' exchange under another
    micro-batch; 1F1B stands for DualPipe, and nothing is recomputed.
    """
    middle = "|".join(["t" * 4] * 14)
    plan = Plan(
        pp=16,
        ep=64,
        etp=1,
        zero=1,
        precision="fp8",
        gbs=15360,
        seq=4096,
        pipeline_layout=f"Et*3|{middle}|ttL",
        habits=(("ep_overlap", str(EXPERT_HIDDEN)),),
    )
    cluster = parse_cluster("2048xH800")
    answer = estimate(load("deepseek-v3"), plan, cluster, Limits(tokens=10**12))
    assert answer.run is not None
    assert answer.run.gpu_hours == pytest.approx(180_000, rel=0.12)
    low, high = (end / answer.step.seconds for end in answer.step.range_seconds)
    assert low * answer.run.gpu_hours < 180_000 < high * answer.run.gpu_hours

"""Plans drawn from what each tool can be told, with a model and a cluster."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from tests.formats.drawing import MODELS, has_window, known
from tests.plan.strategies import cluster, swiglu
from tonnage.arch import Architecture, Attention
from tonnage.cluster import Cluster
from tonnage.formats.torchtitan_models import find
from tonnage.plan import Plan
from tonnage.plan.layout_text import balanced, written

Case = tuple[Architecture, Plan, Cluster]


def of_torchtitan(name: str, flavor: str) -> Architecture:
    found = find(name, flavor)
    assert found is not None
    return found


LLAMA3 = of_torchtitan("llama3", "debugmodel")
QWEN3 = of_torchtitan("qwen3", "debugmodel_moe")


@st.composite
def degrees(draw: st.DrawFn, *axes: str) -> dict[str, int]:
    found = {axis: draw(st.sampled_from((1, 2, 4))) for axis in axes}
    ranks = 1
    for size in found.values():
        ranks *= size
    found["dp"] = draw(st.sampled_from([n for n in (1, 2, 4) if ranks * n <= 8 or ranks % 8 == 0]))
    return found


LAYOUTS: dict[int, tuple[dict[str, Any], ...]] = {
    2: (
        {},
        {"first_stage_layers": 3},
        {"last_stage_layers": 2},
        {"pipeline_layout": "Ettt|tttttL"},
        {"pipeline_layout": "Ettt|tt|tt|tL", "vpp": 2},
        {"vpp": 2},
        {"vpp": 2, "first_stage_layers": 2, "last_stage_layers": 6},
        {"vpp": 4, "microbatch_group": 2},
        {"account_for_embedding": True, "account_for_loss": True},
    ),
    4: (
        {},
        {"vpp": 2},
        {"first_stage_layers": 1, "last_stage_layers": 3},
        {"pipeline_layout": "Et|(tt|)*2tttL"},
    ),
}
"""Ways to lay eight layers over so many stages."""


@st.composite
def megatron_cases(draw: st.DrawFn, runtime: str) -> Case:
    def pick(*options: Any) -> Any:
        return draw(st.sampled_from(options))

    architecture = draw(known(pick(*MODELS), runtime))
    size = draw(degrees("tp", "pp", *(() if has_window(architecture) else ("cp",))))
    size.setdefault("cp", 1)
    plan: dict[str, Any] = {**size, "runtime": runtime, "zero": pick(0, 1)}
    plan.update(pick(*LAYOUTS.get(size["pp"], ({},))))
    if size["cp"] > 1:
        heads = architecture.layers[0].mixer
        whole = isinstance(heads, Attention) and heads.kv_heads % (size["tp"] * size["cp"]) == 0
        plan["cp_comm"] = pick(None, "p2p", "a2a") if whole else pick(None, "p2p")
    plan["sp"] = size["tp"] > 1
    if architecture.is_moe:
        plan.update(ep=pick(1, size["dp"]), etp=pick(1, size["tp"]))
        plan["moe_capacity_factor"] = pick(None, 1.25)
    narrow = ("fp8", "mxfp8", "nvfp4") if runtime == "megatron" else ()
    plan.update(
        mbs=pick(1, 2),
        grad_acc=size["pp"] * pick(1, 2),
        seq=pick(64, 128),
        precision=pick("bf16-mixed", "bf16-mixed-bf16-grads", "fp16-mixed", "fp32", *narrow),
        optimizer=pick("adamw", "muon"),
        offload_optimizer=pick(0.0, 1.0, *((0.5,) if runtime == "megatron" else ())),
        recompute=pick("none", "selective", "full"),
        attention=pick("flash", "eager"),
        loss=pick(None, "vocab-parallel-fused"),
        overlap_grad_reduce=pick(True, False),
        tp_comm_overlap=pick(True, False),
        wgrad_deferral_limit=pick(None, 0, 2) if size["pp"] > 1 else None,
        habits=pick((), (("vocab_multiple", "64"),)),
    )
    if runtime == "megatron" and swiglu(architecture):
        plan["activation_func_fp8_input_store"] = pick(False, True)
    plan["overlap_param_gather"] = bool(plan["zero"]) and plan["overlap_grad_reduce"]
    if plan["recompute"] == "full":
        plan.update(recompute_method=pick("uniform", "block"), recompute_num_layers=pick(1, 2))
    if plan["recompute"] == "selective":
        sets: list[tuple[str, ...]] = [("core_attn",), ("mlp",)]
        if plan["precision"] != "fp8":
            sets += [("mlp", "layernorm"), *([("moe_act",)] if architecture.is_moe else [])]
        plan["recompute_modules"] = pick(*sets)
    if plan["zero"] and size["dp"] > 1 and size["cp"] == 1:
        plan["hsdp_shard"] = pick(None, size["dp"] // 2)
    ranks = size["tp"] * size["pp"] * size["cp"] * size["dp"]
    return architecture, Plan(**plan), cluster(ranks)


@st.composite
def nanotron_cases(draw: st.DrawFn) -> Case:
    def pick(*options: Any) -> Any:
        return draw(st.sampled_from(options))

    size = draw(degrees("tp", "pp"))
    plan: dict[str, Any] = {**size, "runtime": "nanotron", "zero": pick(0, 1)}
    if size["pp"] > 1:
        plan["schedule"] = pick("1f1b", "gpipe")
    plan.update(
        sp=pick(True, False),
        mbs=pick(1, 2),
        grad_acc=size["pp"] * pick(1, 2),
        seq=pick(64, 128),
        precision=pick("bf16-mixed-accumulate", "bf16", "fp32"),
        optimizer_step=pick("fused", "foreach"),
        recompute=pick("none", "full"),
    )
    ranks = size["tp"] * size["pp"] * size["dp"]
    return LLAMA3, Plan(**plan), cluster(ranks)


@st.composite
def torchtitan_cases(draw: st.DrawFn) -> Case:
    def pick(*options: Any) -> Any:
        return draw(st.sampled_from(options))

    architecture = pick(LLAMA3, QWEN3)
    size = draw(degrees("tp", "pp", "cp"))
    plan: dict[str, Any] = {**size, "runtime": "fsdp2", "sp": size["tp"] > 1, "zero": pick(2, 3)}
    if size["pp"] > 1:
        schedule = pick(None, "1f1b", "gpipe", "interleaved", "zbv", "dualpipev")
        chunks = {"zbv": 2, "dualpipev": 2, "interleaved": pick(2, 3)}.get(str(schedule), 1)
        pieces = size["pp"] * chunks
        layers = len(architecture.layers)
        if pieces > layers:
            schedule, chunks, pieces = "1f1b", 1, size["pp"]
        plan.update(schedule=schedule, vpp=chunks)
        spare = layers - pieces
        cuts = [0, *sorted(pick(*range(spare + 1)) for _ in range(pieces - 1)), spare]
        sizes = [1 + after - before for before, after in pairwise(cuts)]
        plan["pipeline_layout"] = pick(written(sizes), balanced(layers, pieces))
        if chunks == 1 and layers % pieces == 0:
            plan["pipeline_layout"] = pick(None, plan["pipeline_layout"])
    plan.update(
        mbs=pick(1, 2),
        grad_acc=2 * size["pp"] * pick(1, 2),
        cp_comm=pick(None, "allgather", "p2p") if size["cp"] > 1 else None,
        seq=pick(64, 128),
        precision=pick("bf16-amp", "bf16", "fp32", "fp8-amp", "mxfp8-amp"),
        optimizer_step=pick("fused", "foreach"),
        recompute=pick("none", "selective", "full"),
        tp_comm_overlap=pick(True, False),
        loss=pick("eager", "compiled"),
    )
    if plan["recompute"] == "selective":
        plan["recompute_modules"] = pick(("outputs",), ("every-second-layer",))
    replicas = size["dp"] * size["cp"]
    if size["dp"] > 2:
        plan["hsdp_shard"] = pick(None, replicas // 2)
    return architecture, Plan(**plan), cluster(size["tp"] * size["pp"] * replicas)

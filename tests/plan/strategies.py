"""Small models of every kind, and random plans that are legal for them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tonnage.arch import (
    LAYERNORM,
    MLP,
    RMSNORM,
    Architecture,
    Attention,
    LatentAttention,
    Layer,
    MoE,
)
from tonnage.cluster import Cluster, parse_cluster
from tonnage.plan import OPTIMIZERS, PRECISIONS, Plan
from tonnage.plan.idle import without_idle
from tonnage.runtime import RUNTIMES

LAYERS = 8
HIDDEN = 64

GQA = Attention(heads=8, kv_heads=4, head_dim=16)
WINDOWED = Attention(heads=8, kv_heads=4, head_dim=16, window=32, softcap=True)
MHA = Attention(
    heads=8, kv_heads=8, head_dim=8, qkv_bias=True, output_bias=True, rope=False, dropout=0.1
)
LATENT = LatentAttention(
    heads=8, query_rank=24, kv_rank=16, nope_head_dim=8, rope_head_dim=4, value_head_dim=12
)
GATED = MLP(intermediate=160, gated=True, activation="silu")
EXPERTS = MoE(
    experts=8,
    top_k=2,
    expert=MLP(intermediate=48, gated=True, activation="silu"),
    shared=MLP(intermediate=96, gated=True, activation="silu"),
    shared_gate=True,
)


def layer(mixer: Any = GQA, mlp: Any = GATED, **more: Any) -> Layer:
    """A pre-norm RMSNorm layer unless told otherwise."""
    facts: dict[str, Any] = {"mixer_norm": RMSNORM, "mlp_norm": RMSNORM, **more}
    return Layer(mixer=mixer, mlp=mlp, **facts)


def model(name: str, *layers: Layer, **more: Any) -> Architecture:
    """A small architecture of those layers."""
    facts: dict[str, Any] = {
        "hidden": HIDDEN,
        "vocab": 1000,
        "final_norm": RMSNORM,
        "tied_embeddings": False,
        "max_positions": 4096,
        **more,
    }
    return Architecture(name=name, family="test", layers=layers, **facts)


DENSE = model("dense", *[layer()] * LAYERS)
GPT = model(
    "gpt",
    *[
        layer(
            MHA,
            MLP(intermediate=256, gated=False, activation="gelu", bias=True),
            mixer_norm=LAYERNORM,
            mlp_norm=LAYERNORM,
            dropout=0.1,
        )
    ]
    * LAYERS,
    final_norm=LAYERNORM,
    tied_embeddings=True,
    learned_positions=4096,
    embedding_dropout=0.1,
)
MIXTURE = model("mixture", *[layer(mlp=EXPERTS)] * LAYERS)
DEEPSEEK = model("latent", layer(LATENT), *[layer(LATENT, EXPERTS)] * (LAYERS - 1))
HYBRID = model(
    "hybrid",
    *[
        layer(WINDOWED, mixer_output_norm=RMSNORM, mlp_output_norm=RMSNORM),
        layer(mixer_output_norm=RMSNORM, mlp_output_norm=RMSNORM),
    ]
    * (LAYERS // 2),
    tied_embeddings=True,
    logits_softcap=True,
)
PARALLEL = model("parallel", *[layer(mlp_norm=None, parallel=True)] * LAYERS)

MODELS = (DENSE, GPT, MIXTURE, DEEPSEEK, HYBRID, PARALLEL)


def cluster(gpus: int) -> Cluster:
    """A cluster whose device publishes a peak for every recipe."""
    return parse_cluster(f"{gpus}xB200")


def _windowed(architecture: Architecture) -> bool:
    return any(getattr(part.mixer, "window", None) for part in architecture.layers)


Run = tuple[Architecture, Plan, Cluster]


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """A model, a plan that is legal for it, and a cluster that the plan fills."""

    def pick(*options: Any) -> Any:
        return draw(st.sampled_from(options))

    architecture: Architecture = pick(*MODELS)
    runtime = pick(*RUNTIMES.values())
    degree = {axis: pick(1, 2, 4) if axis in runtime.axes else 1 for axis in ("tp", "pp", "cp")}
    if _windowed(architecture):
        degree["cp"] = 1
    if architecture.is_moe and "sp" not in runtime.axes:
        degree["tp"] = 1  # experts with tensor parallelism ask for sequence parallelism
    ranks = degree["tp"] * degree["pp"] * degree["cp"]
    dp = pick(*[n for n in (1, 2, 3, 4) if ranks * n <= 8 or ranks * n % 8 == 0])
    plan: dict[str, Any] = {**degree, "dp": dp, "runtime": runtime.name}
    replicas = dp * degree["cp"]
    if architecture.is_moe:
        etp = pick(1, degree["tp"]) if "etp" in runtime.axes else 1
        stage = replicas * degree["tp"] // etp
        ep = pick(*[n for n in (1, 2, 4, 8) if stage % n == 0]) if "ep" in runtime.axes else 1
        plan["sp"] = degree["tp"] > 1
        plan.update(ep=ep, etp=etp, moe_imbalance=pick(1.0, 1.5), moe_capacity_factor=None)
    elif degree["tp"] > 1:
        plan["sp"] = pick(None, True, False) if "sp" in runtime.axes else None
    if "vpp" in runtime.axes and degree["pp"] > 1:
        plan["vpp"] = pick(1, 2)
    plan["zero"] = pick(*runtime.zero_stages)
    if plan["zero"]:
        plan["hsdp_shard"] = pick(None, *[n for n in (1, 2, 3, 4) if replicas % n == 0])
    if pick(True, False, False) and architecture is not DEEPSEEK:
        bases = (None, "nf4", "int8") if runtime.quantized_bases else (None,)
        plan.update(lora_rank=pick(1, 4, 16), lora_base=pick(*bases))
    if runtime.narrow_activation and swiglu(architecture):
        plan["activation_func_fp8_input_store"] = pick(False, True)
    plan.update(draw(_layout(degree["pp"], plan.get("vpp", 1))))
    rounds = 2 if plan.get("schedule") in ("zbv", "dualpipe", "dualpipev") else 1
    plan.update(
        mbs=pick(1, 2, 3),
        grad_acc=rounds * degree["pp"] * pick(1, 2, 3),
        seq=pick(64, 128, 256),
        precision=pick(*PRECISIONS),
        optimizer=pick(*OPTIMIZERS),
        optimizer_step=pick(None, "foreach", "fused"),
        recompute=pick("none", "selective", "full"),
        recompute_method=pick("uniform", "block"),
        recompute_num_layers=pick(0, 1, 2, 3),
        recompute_modules=pick(
            ("core_attn",), ("mlp",), ("layernorm", "activation"), ("core_attn", "moe")
        ),
        attention=pick("flash", "eager"),
        loss=pick(None, "eager", "chunked", "linear", "in-place"),
        overlap_grad_reduce=pick(None, True, False),
        iteration=pick("first", "steady"),
    )
    return architecture, without_idle(Plan(**plan), architecture), cluster(ranks * dp)


def swiglu(architecture: Architecture) -> bool:
    """Whether every feed-forward part is a SwiGLU."""
    parts = [layer.mlp for layer in architecture.layers]
    blocks = [part.expert if isinstance(part, MoE) else part for part in parts]
    return all(isinstance(b, MLP) and b.gated and b.activation == "silu" for b in blocks)


def _layout(pp: int, vpp: int) -> st.SearchStrategy[dict[str, Any]]:
    options: list[dict[str, Any]] = [{}]
    if vpp == 1 and pp > 1:
        options += [{"schedule": name} for name in ("gpipe", "zero-bubble", "dualpipe")]
    if vpp == 2:
        options += [{"schedule": name} for name in ("zbv", "dualpipev")]
        options.append({"microbatch_group": pp})
    if vpp == 1 and pp == 2:
        options.append({"account_for_embedding": True, "account_for_loss": True})
        options.append({"first_stage_layers": 3})
    if vpp == 1 and pp == 4:
        options.append({"first_stage_layers": 1, "last_stage_layers": 3})
    return st.sampled_from(options)

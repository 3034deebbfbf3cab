"""An architecture as Megatron-LM's options, with what its GPT class lacks as warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tonnage.arch import MLP, Attention, LatentAttention, Layer, MoE
from tonnage.formats.told import Told
from tonnage.formats.write.megatron_constants import (
    Options,
    norm_options,
    rotary_base,
    routing_options,
)

_ACTIVATIONS = {
    "gelu": None,
    "silu": "swiglu",
    "relu2": "squared-relu",
    "quick_gelu": "quick-geglu",
}


def model_options(told: Told, scaling: Callable[[Told, Layer], Options]) -> Options:
    """The options of the model, and warnings where the class cannot be told a fact of it.

    Args:
        told: the plan and the model.
        scaling: how the tool says that rotary positions are stretched.
    """
    facts = told.architecture
    layer = _usual(told)
    found: Options = {
        "num-layers": len(facts.layers),
        "hidden-size": facts.hidden,
        "max-position-embeddings": _positions(told),
        # A null tokenizer adds one token, which ends a document, to those it is told of.
        "tokenizer-type": "NullTokenizer",
        "vocab-size": facts.vocab - 1,
        "hidden-dropout": layer.dropout,
    }
    if not facts.tied_embeddings:
        found["untie-embeddings-and-output-weights"] = None
    found |= _norms(told, layer)
    found |= norm_options(told)
    found |= _mixer(told, layer)
    found |= rotary_base(told, layer) | scaling(told, layer)
    found |= _feed_forward(told, layer)
    _warn_of_the_rest(told)
    return found


def _positions(told: Told) -> int:
    """The context length; Megatron asks for one that is no shorter than the sequence."""
    facts, seq = told.architecture, told.plan.seq or 1
    if facts.learned_positions:
        return facts.learned_positions
    return max(facts.max_positions or seq, seq)


def _usual(told: Told) -> Layer:
    """The layer that most are like; the last of them where some route, as those come last."""
    mixers = Counter(type(layer.mixer).__name__ for layer in told.architecture.layers)
    if len(mixers) > 1 or next(iter(mixers)) not in ("Attention", "LatentAttention"):
        named = ", ".join(sorted(mixers))
        told.warn(
            f"megatron's GPT has attention alone: layers of {named} are written as attention",
            *("mixer", "rope_base"),
        )
    attending = [
        layer
        for layer in told.architecture.layers
        if isinstance(layer.mixer, Attention | LatentAttention)
    ]
    return attending[-1] if attending else told.architecture.layers[-1]


def _norms(told: Told, layer: Layer) -> Options:
    norm = layer.mixer_norm
    found: Options = {}
    if norm is not None and norm.kind == "rmsnorm":
        found["normalization"] = "RMSNorm"
        if norm.centred:
            found["apply-layernorm-1p"] = None
    if layer.mixer_output_norm is not None or layer.mlp_output_norm is not None:
        told.warn(
            "megatron's GPT has no norm after attention or MLP: they are left out",
            *("mixer_output_norm", "mlp_output_norm"),
        )
    if layer.parallel:
        told.warn(
            "megatron's GPT has no parallel attention and MLP: they are written in turn",
            *("parallel", "mlp_norm"),
        )
    return found


def _mixer(told: Told, layer: Layer) -> Options:
    mixer = layer.mixer
    if isinstance(mixer, LatentAttention):
        return _latent(mixer)
    if not isinstance(mixer, Attention):
        return {"num-attention-heads": max(told.architecture.hidden // 128, 1)}
    found: Options = {
        "num-attention-heads": mixer.heads,
        "kv-channels": mixer.head_dim,
        "attention-dropout": mixer.dropout,
    }
    if mixer.kv_heads != mixer.heads:
        found |= {"group-query-attention": None, "num-query-groups": mixer.kv_heads}
    found["position-embedding-type"] = (
        "rope"
        if mixer.rope
        else ("learned_absolute" if told.architecture.learned_positions else "none")
    )
    if mixer.rope and mixer.rope_fraction != 1.0:
        found["rotary-percent"] = mixer.rope_fraction
    if mixer.qk_norm is not None:
        found["qk-layernorm"] = None
    return found | _windows(told) | _biases(told, layer, mixer)


def _windows(told: Told) -> Options:
    """A window in some layers, which skip it by a pattern of zeros and ones."""
    windows = [getattr(layer.mixer, "window", None) for layer in told.architecture.layers]
    sizes = {size for size in windows if size is not None}
    if not sizes:
        return {}
    found: Options = {"window-size": f"({max(sizes) - 1},0)"}
    if None in windows:
        pattern = ",".join("0" if size is None else "1" for size in windows)
        found["window-attn-skip-freq"] = f"[{pattern}]"
    return found


def _biases(told: Told, layer: Layer, mixer: Attention) -> Options:
    expert = layer.mlp.expert if isinstance(layer.mlp, MoE) else layer.mlp
    bias = expert is not None and expert.bias
    if bias and mixer.output_bias:
        return {}
    if bias or mixer.output_bias:
        told.warn(
            "megatron has biases on attention and MLP together: none is written",
            *("bias", "output_bias"),
        )
    found: Options = {"disable-bias-linear": None}
    if mixer.qkv_bias:
        found["add-qkv-bias"] = None
    return found


def _latent(mixer: LatentAttention) -> Options:
    found: Options = {
        "multi-latent-attention": None,
        "num-attention-heads": mixer.heads,
        "kv-lora-rank": mixer.kv_rank,
        "qk-head-dim": mixer.nope_head_dim,
        "qk-pos-emb-head-dim": mixer.rope_head_dim,
        "v-head-dim": mixer.value_head_dim,
        "qk-layernorm": None,
        "disable-bias-linear": None,
        "attention-dropout": mixer.dropout,
        # Without it there would be learnt positions beside the rotary ones.
        "position-embedding-type": "rope",
    }
    if mixer.query_rank is not None:
        found["q-lora-rank"] = mixer.query_rank
    return found


def _feed_forward(told: Told, layer: Layer) -> Options:
    layers = told.architecture.layers
    dense = next((one.mlp for one in layers if isinstance(one.mlp, MLP)), None)
    routed = layer.mlp if isinstance(layer.mlp, MoE) else None
    inner = routed.expert if routed is not None else dense
    if inner is None:
        told.warn("megatron's GPT has an MLP in every layer: one of 4 h is written", "mlp")
        return {}
    found: Options = {"ffn-hidden-size": (dense or inner).intermediate}
    switch = _ACTIVATIONS.get(inner.activation)
    if inner.gated and inner.activation not in ("silu", "quick_gelu"):
        told.warn(
            f"megatron gates with SiLU: {inner.activation} is written as swiglu", "activation"
        )
        switch = "swiglu"
    if switch is not None and (inner.gated or switch == "squared-relu"):
        found[switch] = None
    elif inner.activation not in ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu2"):
        told.warn(
            f"megatron has no {inner.activation} without a gate: GELU is written", "activation"
        )
    return found if routed is None else {**found, **_experts(told, routed)}


def _experts(told: Told, routed: MoE) -> Options:
    routes = [int(isinstance(layer.mlp, MoE)) for layer in told.architecture.layers]
    found: Options = {
        "num-experts": routed.experts,
        "moe-router-topk": routed.top_k,
        "moe-ffn-hidden-size": routed.expert.intermediate,
        "moe-grouped-gemm": None,
        "moe-router-load-balancing-type": "aux_loss",
        "moe-aux-loss-coeff": 0.001,
    }
    if not all(routes):
        found["moe-layer-freq"] = f"[{','.join(map(str, routes))}]"
    if routed.shared is not None:
        found["moe-shared-expert-intermediate-size"] = routed.shared.intermediate
    if routed.shared_gate:
        found["moe-shared-expert-gate"] = None
    if routed.latent is not None or routed.expert_scale:
        told.warn("megatron's experts read the hidden state as it is", "latent", "expert_scale")
    return found | routing_options(told, routed)


def _warn_of_the_rest(told: Told) -> None:
    facts = told.architecture
    if facts.vision is not None:
        told.warn("megatron's GPT has no image encoder: the text model alone is written", "vision")
    for name, what in (
        ("embedding_norm", "a norm after the embedding"),
        ("embedding_width", "an embedding of another width"),
        ("head_bias", "a bias on the head"),
        ("streams", "several residual streams"),
        ("per_layer_vocab", "a second embedding for the layers"),
    ):
        if getattr(facts, name):
            told.warn(f"megatron's GPT lacks {what}: it is left out", name)

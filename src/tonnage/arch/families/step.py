"""Step 3.5 and 3.7 Flash (StepFun, 2026): windows with heads of their own, a gate on each head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.families.blocks import (
    FULL,
    SLIDING,
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    mixture,
    partial_rotary,
    pre_norm_layer,
)
from tonnage.arch.families.towers import encoder_layer, part, patches_per_side
from tonnage.arch.feed_forward import MLP, MoE
from tonnage.arch.keys import DEEPEST, Keys
from tonnage.arch.layer import Layer
from tonnage.arch.mixer import Attention
from tonnage.arch.norm import LAYERNORM, RMSNORM
from tonnage.arch.vision import VisionTower

DENSE_LAYERS: Final = 3
"""First layers without experts in a file that does not say."""

MLP_RATIO: Final = 8960 / 1536
"""Width of the tower's MLP over its own, in a file that does not say."""


def read(keys: Keys) -> Architecture:
    """Read a config whose ``model_type`` is ``step3p7``.

    A file without ``text_config`` describes the text alone, under the same names.
    """
    if keys.values.get("text_config") is None:
        return read_text(keys)
    text = read_text(part(keys, "text_config", "step3p5"))
    tied = keys.flag("tie_word_embeddings", default=False)
    tower = _tower(part(keys, "vision_config", "step3p5_vision", "step3p7_vision"))
    bias = (text.hidden,) if keys.flag("projector_bias", default=False) else ()
    projector = (*tower.projector, (4 * tower.hidden, text.hidden), *((bias,) if bias else ()))
    return replace(text, tied_embeddings=tied, vision=replace(tower, projector=projector))


def read_text(keys: Keys) -> Architecture:
    """Read the text's keys."""
    count = layer_count(keys)
    depth = keys.count(
        "num_nextn_predict_layers", "num_mtp_layers", default=0, least=0, most=DEEPEST
    )
    mixers = _mixers(keys)
    kinds = _kinds(keys, count, depth)
    routes = _routing(keys, count)
    moe, dense = _mixture(keys), gated_mlp(keys)
    layers = tuple(
        pre_norm_layer(mixers[kind], moe if route else dense)
        for kind, route in zip(kinds[:count], routes, strict=True)
    )
    facts = decoder(keys, layers=layers, tied=False)
    further: Layer | None = None
    if len({*kinds[count:]}) == 1:  # the predictors' layers are dense
        further = pre_norm_layer(mixers[kinds[count]], dense)
    return replace(facts, mtp_layers=depth, mtp=further)


def _kinds(keys: Keys, count: int, depth: int) -> tuple[str, ...]:
    """The kind of each layer, and of each predictor's where the list is as long as that."""
    if keys.values.get("layer_types") is None:
        return (FULL,) * (count + depth)
    given = keys.values["layer_types"]
    longer = isinstance(given, list) and len(given) == count + depth
    kinds = keys.words("layer_types", length=count + depth if longer else count) or ()
    if not {*kinds} <= {FULL, SLIDING}:
        keys.refuse("layer_types", problem="is not modelled", accepted=f"{FULL}, {SLIDING}")
    return kinds


def _mixers(keys: Keys) -> Mapping[str, Attention]:
    bias = keys.flag("attention_bias", default=False)
    if keys.values.get("gating", True) not in (True, "per-head"):
        keys.refuse("gating", problem="is not modelled", accepted="true, per-head")
    full = replace(
        grouped_query_attention(
            keys,
            kv_required=True,
            kv_names=("num_key_value_heads", "num_attention_groups"),
            qkv_bias=bias,
            output_bias=bias,
        ),
        qk_norm=RMSNORM,
        gate="head",
        rope_fraction=partial_rotary(keys, default=1.0),
    )
    heads = full.heads
    if keys.values.get("num_sliding_attention_heads") is not None:
        heads = keys.count("num_sliding_attention_heads")
    elif isinstance(keys.values.get("attention_other_setting"), Mapping):
        heads = keys.nested("attention_other_setting").count("num_attention_heads", default=heads)
    if heads % full.kv_heads:
        keys.fail(
            "num_sliding_attention_heads",
            heads,
            problem=f"is no multiple of the {full.kv_heads} key and value heads",
            accepted=f"a multiple of {full.kv_heads}",
        )
    window = keys.optional_count("sliding_window")
    return {FULL: full, SLIDING: replace(full, heads=heads, window=window)}


def _routing(keys: Keys, count: int) -> tuple[bool, ...]:
    """``mlp_layer_types``, ``moe_layers_enum`` (indices between commas), or all but the first."""
    kinds = keys.words("mlp_layer_types", length=count)
    if kinds is not None:
        return tuple(kind == "sparse" for kind in kinds)
    if keys.values.get("moe_layers_enum") is not None:
        listed = keys.word("moe_layers_enum").split(",")
        if not all(item.strip().isascii() and item.strip().isdigit() for item in listed):
            keys.fail(
                "moe_layers_enum",
                keys.values["moe_layers_enum"],
                problem="is not a list of layers",
                accepted="whole numbers between commas",
            )
        chosen = {item.strip().lstrip("0") or "0" for item in listed}
        return tuple(str(i) in chosen for i in range(count))
    first = keys.count("first_k_dense_replace", default=DENSE_LAYERS, least=0, most=DEEPEST)
    return tuple(i >= first for i in range(count))


def _mixture(keys: Keys) -> MoE:
    """The names differ from file to file; the class knows them all by ``attribute_map``."""
    expert = gated_mlp(keys, width="moe_intermediate_size")
    shared = MLP(
        intermediate=keys.count("share_expert_dim", "share_expert_dims"),
        gated=True,
        activation="silu",
    )
    experts = keys.count("n_routed_experts", "moe_num_experts", "num_local_experts", "num_experts")
    return mixture(
        keys,
        experts=experts,
        expert=expert,
        shared=shared,
        top_k_names=("num_experts_per_tok", "moe_top_k"),
    )


def _tower(keys: Keys) -> VisionTower:
    """The tower and the two strided convolutions behind it."""
    hidden = keys.count("width", "hidden_size")
    patch = keys.count("patch_size")
    side = patches_per_side(keys, side=keys.count("image_size"), patch=patch)
    layer = encoder_layer(
        keys,
        hidden=hidden,
        heads=keys.count("heads", "num_attention_heads"),
        intermediate=int(hidden * keys.ratio("mlp_ratio", default=MLP_RATIO)),
        act_default="quick_gelu",
        rope=True,
        layer_scale=True,
    )
    return VisionTower(
        hidden=hidden,
        layers=(layer,) * layer_count(keys, "layers", "num_hidden_layers"),
        patch_size=patch,
        channels=keys.count("num_channels", default=3),
        patch_bias=False,
        positions=keys.count("max_position_embeddings", default=side**2),
        first_norm=LAYERNORM,
        final_norm=None,
        projector=(
            (9 * hidden, 2 * hidden),
            (2 * hidden,),
            (9 * 2 * hidden, 4 * hidden),
            (4 * hidden,),
        ),
    )

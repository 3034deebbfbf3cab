"""Models with all their constants, drawn from what a tool can be told of them."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from tests.plan.strategies import DEEPSEEK, DENSE, GATED, GPT, GQA, LAYERS, MIXTURE, layer, model
from tonnage.arch import CENTRED_RMSNORM, MLP, RMSNORM, Architecture, Attention, LatentAttention
from tonnage.arch.constants import Constants, RopeScaling, Routing

NORMED = model(
    "normed",
    *[layer(replace(GQA, qk_norm=RMSNORM, qkv_bias=True))] * LAYERS,
    tied_embeddings=True,
)
SLIDING = model("sliding", *[layer(replace(GQA, window=32)), layer()] * (LAYERS // 2))
PARTIAL = model(
    "partial",
    *[
        layer(
            replace(GQA, rope_fraction=0.5),
            MLP(intermediate=192, gated=False, activation="relu2"),
            mixer_norm=CENTRED_RMSNORM,
            mlp_norm=CENTRED_RMSNORM,
        )
    ]
    * LAYERS,
    final_norm=CENTRED_RMSNORM,
)
DIRECT = model(
    "direct",
    *[
        layer(
            LatentAttention(
                heads=8,
                query_rank=None,
                kv_rank=16,
                nope_head_dim=8,
                rope_head_dim=4,
                value_head_dim=12,
            ),
            GATED,
        )
    ]
    * LAYERS,
)
MODELS = (DENSE, GPT, MIXTURE, DEEPSEEK, NORMED, SLIDING, PARTIAL, DIRECT)


def has_window(architecture: Architecture) -> bool:
    """Whether some layer sees a part of the positions alone."""
    return any(getattr(each.mixer, "window", None) for each in architecture.layers)


@st.composite
def known(draw: st.DrawFn, architecture: Architecture, tool: str) -> Architecture:
    """The model with constants that the tool can be told, every one known."""
    mixer = architecture.layers[0].mixer
    turns = isinstance(mixer, LatentAttention) or (isinstance(mixer, Attention) and mixer.rope)
    found: dict[str, Any] = {"norm_eps": draw(st.sampled_from([1e-5, 1e-6, 3e-7]))}
    if turns:
        found["rope_base"] = float(draw(st.integers(1000, 10**8)))
        kinds = _scalings(tool, latent=isinstance(mixer, LatentAttention))
        found["rope_scaling"] = draw(st.none() | kinds)
    if architecture.is_moe:
        found["routing"] = draw(routings())
    return dataclasses.replace(architecture, constants=Constants(**found))


def routings() -> st.SearchStrategy[Routing]:
    """Ways to weigh two of eight experts that Megatron's router has."""
    groups = st.sampled_from([(1, 1), (2, 1), (4, 2)])
    scale = st.sampled_from([1.0, 2.5])
    soft = st.builds(
        lambda normalised, group, scale: Routing(
            normalised=normalised, groups=group[0], top_groups=group[1], scale=scale
        ),
        st.booleans(),
        groups,
        scale,
    )
    sharp = st.builds(
        lambda bias, group, scale: Routing(
            score="sigmoid",
            normalised=True,
            bias=bias,
            groups=group[0],
            top_groups=group[1],
            scale=scale,
        ),
        st.booleans(),
        groups,
        scale,
    )
    return soft | sharp


def _scalings(tool: str, *, latent: bool) -> st.SearchStrategy[RopeScaling]:
    factor = st.sampled_from([2.0, 8.0, 40.0])
    scale = st.sampled_from([0.707, 1.0])
    free = tool == "mindspeed"
    original = st.sampled_from([2048, 4096]) if free else st.just(4096)
    yarn = st.builds(
        RopeScaling,
        kind=st.just("yarn"),
        factor=factor,
        original_positions=original,
        beta_fast=st.sampled_from([16.0, 32.0]) if free else st.just(32.0),
        beta_slow=st.just(1.0),
        mscale=scale,
        mscale_all_dim=scale,
    )
    llama3 = st.builds(
        RopeScaling,
        kind=st.just("llama3"),
        factor=factor,
        original_positions=st.just(8192),
        low_freq_factor=st.just(1.0),
        high_freq_factor=st.sampled_from([2.0, 4.0]) if free else st.just(4.0),
    )
    if free:
        return llama3 | yarn
    return (
        yarn if latent else llama3 | st.builds(RopeScaling, kind=st.just("linear"), factor=factor)
    )

"""Numbers that a model computes with, on which neither a byte nor a second depends.

A launch must be told them all the same: with another rotary base another model is trained.
They are read leniently: what is no number, or is not there, is not known (None).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_BASES: Final = ("rope_theta", "rotary_emb_base", "rotary_base")
_EPSILONS: Final = (
    *("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon"),
    *("norm_epsilon", "norm_eps"),
)
_SIGMOID: Final = frozenset(
    {"deepseek_v3", "deepseek_v32", "glm4_moe", "glm_moe_dsa", "kimi_k2", "kimi_k25"}
    | {"minimax_m2", "minimax_m3", "minimax_m3_vl", "minimax_m3_vl_text"}
)
"""Families whose class scores with a sigmoid and a learnt correction, whatever the file says."""

_NORMALISED: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("mixtral", "gpt_oss", "megatron", *_SIGMOID), True),
    **dict.fromkeys(("qwen2_moe", "qwen3_moe", "olmoe", "deepseek_v2"), False),
}
"""Whether weights of the chosen experts are made to add up to 1 where the file does not say."""


@dataclass(frozen=True, kw_only=True)
class RopeScaling:
    """How rotary frequencies are stretched beyond the context of pretraining.

    Attributes:
        kind: ``llama3``, ``yarn`` (arXiv 2309.00071), ``linear``, …: ``rope_type`` of the config.
        factor: by how much.
        original_positions: the context before it.
        low_freq_factor: Llama 3's bound of the long waves.
        high_freq_factor: Llama 3's bound of the short ones.
        beta_fast: YaRN's bound of the fast turns.
        beta_slow: YaRN's bound of the slow ones.
        mscale: YaRN's factor of the attention's temperature.
        mscale_all_dim: the same over all of a head.
    """

    kind: str
    factor: float | None = None
    original_positions: int | None = None
    low_freq_factor: float | None = None
    high_freq_factor: float | None = None
    beta_fast: float | None = None
    beta_slow: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None


@dataclass(frozen=True, kw_only=True)
class Routing:
    """How a router weighs the experts that it picks.

    Attributes:
        score: ``softmax``, ``sigmoid``, …: what makes scores of logits.
        normalised: the weights of the picked experts add up to 1; None: not known.
        bias: a learnt correction takes part in the pick and not in the weight (arXiv 2408.15664).
        groups: groups that the experts are divided into; 1: none.
        top_groups: groups that a token may visit.
        scale: factor on the weights.
    """

    score: str = "softmax"
    normalised: bool | None = None
    bias: bool = False
    groups: int = 1
    top_groups: int = 1
    scale: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Constants:
    """What is known of them.

    Attributes:
        rope_base: base of the rotary frequencies; None: not known.
        rope_scaling: how they are stretched; None: they are not.
        norm_eps: what is added to the variance in a norm; None: not known.
        routing: how experts are weighed; None: there are none.
    """

    rope_base: float | None = None
    rope_scaling: RopeScaling | None = None
    norm_eps: float | None = None
    routing: Routing | None = None


UNKNOWN: Final = Constants()
"""Where nothing is known of them."""


def read_constants(config: Mapping[str, object], family: str, *, routed: bool) -> Constants:
    """What a config.json says of them.

    Args:
        config: its keys; those of a language model's part go before the others.
        family: its ``model_type``.
        routed: whether the model has experts.
    """
    part = config.get("text_config")
    keys = {**config, **part} if isinstance(part, Mapping) else config
    turning = _section(keys, "rope_parameters") or _section(keys, "rope_scaling")
    return Constants(
        rope_base=_first(keys, _BASES) or _first(turning, _BASES),
        rope_scaling=_scaling(turning),
        norm_eps=_first(keys, _EPSILONS),
        routing=_routing(keys, family) if routed else None,
    )


def _section(keys: Mapping[str, object], name: str) -> Mapping[str, object]:
    """The object under a key; the one of layers that see everything where each kind has its own."""
    found = keys.get(name)
    if not isinstance(found, Mapping):
        return {}
    whole = found.get("full_attention")
    return whole if isinstance(whole, Mapping) else found


def _scaling(turning: Mapping[str, object]) -> RopeScaling | None:
    kind = turning.get("rope_type") or turning.get("type")
    if not isinstance(kind, str) or kind in ("default", "mrope"):
        return None
    original = _number(turning.get("original_max_position_embeddings"))
    return RopeScaling(
        kind=kind,
        original_positions=int(original) if original else None,
        **{
            name: _number(turning.get(name))
            for name in (
                *("factor", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow"),
                *("mscale", "mscale_all_dim"),
            )
        },
    )


def _routing(keys: Mapping[str, object], family: str) -> Routing:
    score = keys.get("scoring_func") or keys.get("moe_router_score_function")
    usual = "sigmoid" if family in _SIGMOID else "softmax"
    normalised = keys.get("norm_topk_prob")
    early = keys.get("moe_router_pre_softmax")
    if isinstance(early, bool):
        normalised = not early
    bias = keys.get("moe_router_enable_expert_bias") or keys.get("use_routing_bias")
    return Routing(
        score=score if isinstance(score, str) else usual,
        normalised=normalised if isinstance(normalised, bool) else _NORMALISED.get(family),
        bias=bool(bias) or keys.get("topk_method") == "noaux_tc" or family in _SIGMOID,
        groups=_whole(keys, "n_group", "moe_router_num_groups"),
        top_groups=_whole(keys, "topk_group", "moe_router_group_topk"),
        scale=_first(keys, ("routed_scaling_factor", "moe_router_topk_scaling_factor")) or 1.0,
    )


def _first(keys: Mapping[str, object], names: tuple[str, ...]) -> float | None:
    found = (_number(keys.get(name)) for name in names)
    return next((number for number in found if number), None)


def _whole(keys: Mapping[str, object], *names: str) -> int:
    return int(_first(keys, names) or 1)


def _number(value: object) -> float | None:
    """A number from 0 on that is one; None for all else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if 0 <= found < math.inf else None

"""The constants of a model as Megatron-LM's and MindSpeed-LLM's options.

Rotary positions, the epsilon of norms, and how a router weighs its experts: none changes what a
step costs, each changes what is trained.
"""

from __future__ import annotations

from typing import TypeAlias

from tonnage.arch import Attention, LatentAttention, Layer, MoE
from tonnage.arch.constants import RopeScaling
from tonnage.formats.told import Told

Options: TypeAlias = dict[str, str | int | float | None]
"""Options without hyphens in front; None: one without a value."""

LLAMA3 = RopeScaling(
    kind="llama3", low_freq_factor=1.0, high_freq_factor=4.0, original_positions=8192
)
YARN = RopeScaling(
    kind="yarn", beta_fast=32.0, beta_slow=1.0, original_positions=4096, mscale=1.0,
    mscale_all_dim=0.0,
)  # fmt: skip
"""What Megatron's own stretching starts from (``RotaryEmbedding``, ``MLATransformerConfig``)."""

SCORES = ("softmax", "sigmoid")


def norm_options(told: Told) -> Options:
    """The epsilon of every norm."""
    epsilon = told.architecture.constants.norm_eps
    return {} if epsilon is None else {"norm-epsilon": epsilon}


def rotary_base(told: Told, layer: Layer) -> Options:
    """The base of the rotary frequencies, a whole number in Megatron."""
    if not turns(layer):
        return {}
    base = told.architecture.constants.rope_base
    if base is None:
        told.warn(
            f"the rotary base of {told.architecture.name} is not known: 10000 is left as it is"
        )
        return {}
    if not base.is_integer():
        told.warn(f"{told.kind}'s rotary base is a whole number: {base} is rounded", "rope_base")
    return {"rotary-base": round(base)}


def turns(layer: Layer) -> bool:
    """Whether positions are rotary."""
    mixer = layer.mixer
    return isinstance(mixer, LatentAttention) or (isinstance(mixer, Attention) and mixer.rope)


def megatron_scaling(told: Told, layer: Layer) -> Options:
    """How Megatron-LM stretches rotary positions: YaRN in latent attention, Llama 3's elsewhere."""
    scaling = told.architecture.constants.rope_scaling
    if isinstance(layer.mixer, LatentAttention):
        return _latent_scaling(told, scaling)
    if scaling is None or not turns(layer):
        return {}
    if scaling.kind == "llama3":
        _check_start(told, scaling, LLAMA3, "low_freq_factor", "high_freq_factor")
        return {"use-rope-scaling": None, "rope-scaling-factor": scaling.factor or 8.0}
    if scaling.kind == "linear" and scaling.factor and scaling.factor.is_integer():
        return {"rotary-seq-len-interpolation-factor": int(scaling.factor)}
    told.warn(
        f"megatron's GPT has no {scaling.kind} stretching of rotary positions: none is written",
        "rope_scaling",
    )
    return {}


def _latent_scaling(told: Told, scaling: RopeScaling | None) -> Options:
    """Latent attention stretches by YaRN unless it is told not to."""
    if scaling is None or scaling.kind != "yarn":
        if scaling is not None:
            told.warn(f"megatron's MLA has no {scaling.kind} stretching of rotary positions",
                      "rope_scaling")  # fmt: skip
        return {"rope-type": "rope", "no-rope-fusion": None}
    _check_start(told, scaling, YARN, "beta_fast", "beta_slow")
    return {
        "rope-type": "yarn",
        "rotary-scaling-factor": scaling.factor or 1.0,
        "mscale": YARN.mscale if scaling.mscale is None else scaling.mscale,
        "mscale-all-dim": scaling.mscale_all_dim or 0.0,
    }


def _check_start(told: Told, ours: RopeScaling, theirs: RopeScaling, *fields: str) -> None:
    """Say what of a stretching no option sets."""
    for field in (*fields, "original_positions"):
        mine, fixed = getattr(ours, field), getattr(theirs, field)
        if mine not in (None, fixed):
            told.warn(f"megatron's {ours.kind} has {field} {fixed}, not {mine}", field)


def mindspeed_scaling(told: Told, layer: Layer) -> Options:
    """MindSpeed-LLM names the kind, and all that it starts from."""
    scaling = told.architecture.constants.rope_scaling
    if scaling is None or not turns(layer):
        return {}
    if scaling.kind not in ("llama3", "yarn"):
        sentence = f"mindspeed has no {scaling.kind} stretching of rotary positions"
        told.warn(f"{sentence}: none is written", "rope_scaling")
        return {}
    found: Options = {
        "rope-scaling-type": scaling.kind,
        "rope-scaling-factor": scaling.factor or 1.0,
    }
    names = _MINDSPEED_YARN if scaling.kind == "yarn" else _MINDSPEED_LLAMA3
    values = {option: getattr(scaling, field) for field, option in names.items()}
    return found | {option: value for option, value in values.items() if value is not None}


_MINDSPEED_LLAMA3 = {
    "low_freq_factor": "low-freq-factor",
    "high_freq_factor": "high-freq-factor",
    "original_positions": "original-max-position-embeddings",
}
_MINDSPEED_YARN = {
    "beta_fast": "beta-fast",
    "beta_slow": "beta-slow",
    "mscale": "rope-scaling-mscale",
    "mscale_all_dim": "rope-scaling-mscale-all-dim",
    "original_positions": "rope-scaling-original-max-position-embeddings",
}


def routing_options(told: Told, routed: MoE) -> Options:
    """How the router scores and weighs; softmax over the picked experts is what is not said."""
    routing = told.architecture.constants.routing
    if routing is None:
        told.warn(f"how {told.architecture.name} weighs its experts is not known: a softmax over "
                  "those picked is left as it is")  # fmt: skip
        return _before(routed.top_k == 1)
    if routing.score not in SCORES:
        told.warn(f"megatron's router has no {routing.score}: softmax is left as it is", "routing")
        return _before(routed.top_k == 1)
    if routing.normalised is None:
        told.warn(f"whether {told.architecture.name} makes the weights of its experts add up to 1 "
                  "is not known: they do in megatron")  # fmt: skip
    found: Options = {}
    if routing.score == "sigmoid":
        found["moe-router-score-function"] = "sigmoid"
        if routing.normalised is False and routed.top_k > 1:
            told.warn("megatron's sigmoid router makes weights add up to 1", "normalised")
        if routing.bias:
            found |= {"moe-router-enable-expert-bias": None, "moe-router-dtype": "fp32"}
    else:
        found |= _before(routing.normalised is False or routed.top_k == 1)
        if routing.bias:
            told.warn("megatron's softmax router has no bias of experts", "bias")
    if routing.groups > 1:
        found["moe-router-num-groups"] = routing.groups
        found["moe-router-group-topk"] = routing.top_groups
    if routing.scale != 1.0:
        found["moe-router-topk-scaling-factor"] = routing.scale
    return found


def _before(early: bool) -> Options:
    """Softmax over all experts, whose picked weights are taken as they are."""
    return {"moe-router-pre-softmax": None} if early else {}

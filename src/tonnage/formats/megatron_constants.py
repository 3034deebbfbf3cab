"""Constants of a model under Megatron's names: rotary positions, norms and routing.

They change nothing that is estimated, so a value that is no number is as good as not given.
"""

from __future__ import annotations

import math
from typing import Any

from tonnage.formats.megatron_names import Names

_YARN_START = {"beta_fast": 32.0, "beta_slow": 1.0, "original_max_position_embeddings": 4096}
_LLAMA3_START = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
"""What Megatron-Core starts from where no option says (``rotary_pos_embedding.py``)."""

_OWN = {
    "factor": ("rope-scaling-factor",),
    "low_freq_factor": ("low-freq-factor",),
    "high_freq_factor": ("high-freq-factor",),
    "beta_fast": ("beta-fast", "rope-scaling-beta-fast"),
    "beta_slow": ("beta-slow", "rope-scaling-beta-slow"),
    "mscale": ("rope-scaling-mscale",),
    "mscale_all_dim": ("rope-scaling-mscale-all-dim",),
    "original_max_position_embeddings": (
        "rope-scaling-original-max-position-embeddings",
        "original-max-position-embeddings",
    ),
}
"""MindSpeed-LLM's options, by the keys of a config.json."""


def constants(names: Names, *, latent: bool) -> dict[str, Any]:
    """The constants as keys of the family's config; None where the file says nothing.

    Args:
        names: where the file keeps Megatron's options.
        latent: whether attention is latent, which Megatron stretches by YaRN.
    """
    score = names.peek("moe-router-score-function")
    return {
        "rotary_base": _number(names, "rotary-base"),
        "layernorm_epsilon": _number(names, "norm-epsilon", "layernorm-epsilon"),
        "layernorm_zero_centered_gamma": _switch(names, "apply-layernorm-1p"),
        "rope_scaling": _scaling(names, latent=latent),
        "moe_router_score_function": score if isinstance(score, str) else None,
        "moe_router_pre_softmax": _switch(names, "moe-router-pre-softmax"),
        "moe_router_enable_expert_bias": _switch(names, "moe-router-enable-expert-bias"),
        "moe_router_num_groups": _number(names, "moe-router-num-groups"),
        "moe_router_group_topk": _number(names, "moe-router-group-topk"),
        "moe_router_topk_scaling_factor": _number(names, "moe-router-topk-scaling-factor"),
    }


def _scaling(names: Names, *, latent: bool) -> dict[str, Any] | None:
    own = names.peek("rope-scaling-type")
    if isinstance(own, str):
        said = {key: _number(names, *options) for key, options in _OWN.items()}
        return {"rope_type": own} | {key: value for key, value in said.items() if value is not None}
    if latent:
        factor = _number(names, "rotary-scaling-factor")
        if factor is None or names.peek("rope-type") == "rope":
            return None
        scales = {
            "mscale": 1.0 if (given := _number(names, "mscale")) is None else given,
            "mscale_all_dim": _number(names, "mscale-all-dim") or 0.0,
        }
        return {"rope_type": "yarn", "factor": factor, **_YARN_START, **scales}
    if _switch(names, "use-rope-scaling"):
        factor = _number(names, "rope-scaling-factor")
        return {"rope_type": "llama3", **_LLAMA3_START, **({"factor": factor} if factor else {})}
    factor = _number(names, "rotary-seq-len-interpolation-factor")
    return {"rope_type": "linear", "factor": factor} if factor and factor > 1 else None


def _switch(names: Names, *options: str) -> bool | None:
    value = names.peek(*options)
    return str(value).strip().lower() in ("true", "yes", "on", "1") if value is not None else None


def _number(names: Names, *options: str) -> float | None:
    value = names.peek(*options)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if 0 <= found < math.inf else None

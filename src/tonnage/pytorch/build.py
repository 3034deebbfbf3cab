"""A model of transformers' own class from the keys of a config.json, without storage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import transformers
from transformers.initialization import no_init_weights

from tonnage.plan import Setting
from tonnage.pytorch import kernels

FORMATS = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}
"""PyTorch's names of the formats that a recipe stores weights in."""


def build_model(config: Mapping[str, object], setting: Setting) -> torch.nn.Module:
    """The model as a plan trains it: format of its weights, attention kernel, checkpoints.

    Call it where tensors are fake. Weights are not initialised: they have no values.

    Args:
        config: the keys of a config.json.
        setting: the resolved plan.
    """
    keys = {key: value for key, value in config.items() if key != "auto_map"}
    settings = transformers.AutoConfig.for_model(**keys)
    settings.use_cache = False
    kernels.register()
    flash = setting.plan.attention == "flash"
    with no_init_weights():
        model: Any = transformers.AutoModelForCausalLM.from_config(
            settings,
            dtype=FORMATS[setting.precision.weights],
            attn_implementation=kernels.NAME if flash else "eager",
        )
    model.tie_weights()
    model.train()
    if setting.plan.recompute == "full":
        checkpoint = {"use_reentrant": False, "preserve_rng_state": False}
        model.activation_checkpointing_enable(activation_checkpointing_kwargs=checkpoint)
    assert isinstance(model, torch.nn.Module)
    return model


def build_optimizer(model: torch.nn.Module, setting: Setting) -> torch.optim.Optimizer:
    """The optimizer of a plan, over all weights."""
    step = setting.runtime.optimizer_step
    return torch.optim.AdamW(model.parameters(), foreach=step == "foreach", fused=step == "fused")

"""The model, the optimizer and their place in a world, as a plan trains them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import torch
import transformers
from torch import nn
from transformers.initialization import no_init_weights

from tonnage.plan import Setting
from tonnage.pytorch import kernels
from tonnage.pytorch.checkpoints import checkpointed_layers
from tonnage.pytorch.formats import FORMATS
from tonnage.pytorch.parallel import replicate, shard_fully, split_over_tensor_ranks
from tonnage.pytorch.recorder import Recorder
from tonnage.pytorch.reference import ReferenceTransformer
from tonnage.pytorch.world import World

ModelCode: TypeAlias = Literal["reference", "transformers"]
"""Whose code the model is built of."""


def build_model(config: Mapping[str, object], setting: Setting, code: ModelCode) -> Any:
    """The model on one rank, its activation checkpoints not yet in place.

    Call it where tensors are fake. Weights are not initialised: they have no values.

    Args:
        config: the keys of a config.json.
        setting: the resolved plan.
        code: whose class.
    """
    if code == "transformers":
        return _from_transformers(config, setting)
    before = torch.get_default_dtype()
    torch.set_default_dtype(FORMATS[setting.precision.weights])
    try:
        with no_init_weights():
            return ReferenceTransformer(setting).train()
    finally:
        torch.set_default_dtype(before)


def spread(
    model: Any, setting: Setting, code: ModelCode, world: World, recorder: Recorder
) -> nn.Module:
    """Put a model in its place in a world: split, checkpointed, then sharded or replicated."""
    with recorder.paused():
        if world.tp > 1:
            split_over_tensor_ranks(model, world.tensor)
        if code == "reference":
            checkpointed_layers(setting, model.layers)
        elif setting.plan.recompute == "full":
            again = setting.runtime.rebuilt_output
            options = {"use_reentrant": again, "preserve_rng_state": False}
            model.activation_checkpointing_enable(activation_checkpointing_kwargs=options)
        if setting.gathers:
            shard_fully(model, layers_of(model, setting), setting, world)
    recorder.adopt_module(model)
    if world.copies * world.shards > 1 and setting.runtime.bucket_copy:
        return replicate(model, recorder)
    return model


def layers_of(model: nn.Module, setting: Setting) -> nn.ModuleList:
    """The layers of a model: its first list of as many modules."""
    count = len(setting.architecture.layers)
    return next(
        part for part in model.modules() if isinstance(part, nn.ModuleList) and len(part) == count
    )


def build_optimizer(model: nn.Module, setting: Setting) -> torch.optim.Optimizer:
    """The optimizer of a plan, over all weights."""
    step = setting.runtime.optimizer_step
    return torch.optim.AdamW(model.parameters(), foreach=step == "foreach", fused=step == "fused")


def _from_transformers(config: Mapping[str, object], setting: Setting) -> Any:
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
    return model.train()

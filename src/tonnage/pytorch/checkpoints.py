"""Activation checkpoints, as a plan asks for them, with PyTorch's own wrappers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    checkpoint_wrapper,
)
from torch.utils.checkpoint import (
    CheckpointPolicy,
    create_selective_checkpoint_contexts,
    set_checkpoint_early_stop,
)

from tonnage.ledger.selective import OUTPUTS
from tonnage.memory.activations import EVERY_SECOND
from tonnage.plan import Setting

ops = torch.ops

PRODUCTS = frozenset({ops.aten.mm.default, ops.aten.addmm.default})
"""Products, of which every second one is run again."""

KEPT = frozenset(
    {
        ops.aten._scaled_dot_product_flash_attention.default,
        ops.aten._scaled_dot_product_efficient_attention.default,
        ops._c10d_functional.reduce_scatter_tensor.default,
    }
)
"""Operators whose results stay under the policy by operator."""

INSIDE = {"core_attn": "attention.core", "mlp": "mlp"}
"""The module of a layer that a name among the plan's recompute modules stands for."""


def checkpointed_layers(setting: Setting, layers: nn.ModuleList) -> None:
    """Wrap what the plan recomputes: whole layers, parts of them, or by operator."""
    for index, layer in enumerate(layers):
        layers[index] = _checkpointed(setting, index, layer)


def stops_early(setting: Setting) -> AbstractContextManager[None]:
    """Whether recomputation ends with the last tensor that backward needs."""
    plan = setting.plan
    layers = plan.recompute == "full" or EVERY_SECOND in plan.recompute_modules
    early = layers and setting.runtime.recompute_ends == "early"
    stops: AbstractContextManager[None] = set_checkpoint_early_stop(early)
    return stops


def _checkpointed(setting: Setting, index: int, layer: nn.Module) -> nn.Module:
    plan = setting.plan
    if plan.recompute == "full":
        inside = plan.recompute_method == "uniform" or index < plan.recompute_num_layers
        return _wrap(setting, layer) if inside else layer
    if plan.recompute == "none":
        return layer
    modules = plan.recompute_modules
    if EVERY_SECOND in modules:
        return _wrap(setting, layer) if index % 2 else layer
    if OUTPUTS in modules:
        return _wrap(setting, layer, context_fn=_contexts)
    for name in modules:
        owner, _, last = INSIDE[name].rpartition(".")
        part = layer.get_submodule(owner)
        setattr(part, last, _wrap(setting, getattr(part, last)))
    return layer


def _wrap(setting: Setting, module: nn.Module, **more: Any) -> nn.Module:
    again = setting.runtime.rebuilt_output and setting.plan.recompute == "full"
    kind = CheckpointImpl.REENTRANT if again else CheckpointImpl.NO_REENTRANT
    wrapped: nn.Module = checkpoint_wrapper(
        module, checkpoint_impl=kind, preserve_rng_state=False, **more
    )
    return wrapped


def _contexts() -> Any:
    return create_selective_checkpoint_contexts(_policy())


def _policy() -> Callable[..., CheckpointPolicy]:
    """torchtitan's: attention and reduced sums stay, and every second product from the first.

    Products are counted apart in the forward pass and in the one that is run again.
    """
    counts = {False: 0, True: 0}

    def decide(context: Any, func: Any, *_: Any, **__: Any) -> CheckpointPolicy:
        again = bool(context.is_recompute)
        counts[again] += func in PRODUCTS
        odd = func in PRODUCTS and counts[again] % 2 == 1
        return CheckpointPolicy.MUST_SAVE if odd or func in KEPT else _RECOMPUTED

    return decide


_RECOMPUTED = CheckpointPolicy.PREFER_RECOMPUTE

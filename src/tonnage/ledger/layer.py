"""One decoder layer as a list of operations, and what recomputation leaves of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tonnage.algebra import Number, total
from tonnage.arch import (
    MLP,
    Attention,
    GatedDelta,
    LatentAttention,
    Layer,
    LightningAttention,
    Mamba,
    Mamba2,
    MoE,
    Norm,
    ShortConvolution,
)
from tonnage.ledger.attention import attention
from tonnage.ledger.delta import gated_delta
from tonnage.ledger.elementwise import norm, residual
from tonnage.ledger.latent_attention import latent_attention
from tonnage.ledger.lightning import lightning_attention
from tonnage.ledger.mamba import mamba
from tonnage.ledger.mamba2 import mamba2
from tonnage.ledger.mlp import mlp
from tonnage.ledger.moe import moe
from tonnage.ledger.operation import Operation, Operations, Tensor, union_bytes
from tonnage.ledger.short_convolution import short_convolution
from tonnage.plan import Setting

Branch = Callable[[Setting, Any, Tensor], tuple[Operations, Tensor]]

MIXERS: dict[type, Branch] = {
    Attention: attention,
    GatedDelta: gated_delta,
    LatentAttention: latent_attention,
    LightningAttention: lightning_attention,
    Mamba: mamba,
    Mamba2: mamba2,
    ShortConvolution: short_convolution,
}
FEED_FORWARDS: dict[type, Branch] = {MLP: mlp, MoE: moe}

DISCARDED = frozenset({"layernorm", "activation"})
"""Modules whose recomputation also frees their outputs, which the next product would keep."""


def layer_input(setting: Setting) -> Tensor:
    """The residual stream that a layer reads, ``[shard_tokens, hidden]``."""
    return Tensor(
        name="layer.input",
        elements=setting.shard_tokens * setting.architecture.hidden,
        format=setting.stream,
    )


def layer_operations(setting: Setting, layer: Layer) -> Operations:
    """The operations of one layer on one rank and one micro-batch."""
    stream = layer_input(setting)
    operations: list[Operation] = []

    def normed(spec: Norm | None, name: str, read: Tensor) -> Tensor:
        if spec is None:
            return read
        done, output = norm(setting, spec, name=name, read=read, width=setting.architecture.hidden)
        operations.extend(done)
        return output

    def add(branch: Tensor, name: str) -> Tensor:
        done, output = residual(
            setting, name=name, branch=branch, stream=stream, dropout=layer.dropout
        )
        operations.extend(done)
        return output

    first = mixed = stream
    if layer.mixer is not None:
        first = normed(layer.mixer_norm, "layer.mixer_norm", stream)
        done, mixed = MIXERS[type(layer.mixer)](setting, layer.mixer, first)
        operations.extend(done)
        mixed = normed(layer.mixer_output_norm, "layer.mixer_output_norm", mixed)
        if not layer.parallel:
            stream = add(mixed, "layer.middle")
    if layer.mlp is not None:
        shares = layer.parallel and layer.mlp_norm is None
        second = first if shares else normed(layer.mlp_norm, "layer.mlp_norm", stream)
        done, fed = FEED_FORWARDS[type(layer.mlp)](setting, layer.mlp, second)
        operations.extend(done)
        fed = normed(layer.mlp_output_norm, "layer.mlp_output_norm", fed)
        if layer.parallel:
            stream = add(mixed, "layer.middle")
        add(fed, "layer.output")
    return tuple(operations)


def recomputed_modules(setting: Setting) -> frozenset[str]:
    """The modules that selective recomputation picks; none under the other granularities."""
    plan = setting.plan
    return frozenset(plan.recompute_modules if plan.recompute == "selective" else ())


def saved_tensors(
    operations: Operations, modules: frozenset[str] = frozenset()
) -> tuple[Tensor, ...]:
    """What one layer keeps for backward while some of its modules are recomputed.

    A recomputed module keeps the tensors that enter it. One in `DISCARDED` also frees what
    leaves it, since the same hook that needs the output rebuilds it.
    """
    again = [op for op in operations if modules.intersection(op.modules)]
    inside = {tensor.name for op in again for tensor in op.outputs}
    discarded = {
        tensor.name
        for op in again
        if DISCARDED.intersection(modules, op.modules)
        for tensor in op.outputs
    }
    kept: dict[str, Tensor] = {}
    for op in operations:
        if modules.intersection(op.modules):
            entering = [tensor for tensor in op.inputs if tensor.name not in inside]
        else:
            entering = [tensor for tensor in op.saves if tensor.name not in discarded]
        kept.update({tensor.name: tensor for tensor in entering})
    return tuple(kept.values())


def saved_bytes(setting: Setting, operations: Operations) -> Number:
    """Bytes that one layer keeps for backward, under the plan's selective recomputation."""
    return union_bytes(saved_tensors(operations, recomputed_modules(setting)))


def recomputed_flops(setting: Setting, operations: Iterable[Operation]) -> Number:
    """FLOPs that selective recomputation adds to the backward pass of one layer."""
    modules = recomputed_modules(setting)
    return total(op.flops for op in operations if modules.intersection(op.modules))

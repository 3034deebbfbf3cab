"""One decoder layer as a list of operations, and what recomputation leaves of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tonnage.algebra import Number, total
from tonnage.arch import (
    MLP,
    RMSNORM,
    Attention,
    CompressedAttention,
    FeedForward,
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
from tonnage.ledger.compressed_attention import compressed_attention
from tonnage.ledger.delta import gated_delta
from tonnage.ledger.elementwise import norm, residual
from tonnage.ledger.hyper_connections import collapse, expand
from tonnage.ledger.latent_attention import latent_attention
from tonnage.ledger.lightning import lightning_attention
from tonnage.ledger.mamba import mamba
from tonnage.ledger.mamba2 import mamba2
from tonnage.ledger.mlp import mlp
from tonnage.ledger.moe import moe
from tonnage.ledger.operation import Operation, Operations, Tensor, Weight, renamed, union_bytes
from tonnage.ledger.per_layer import per_layer_input
from tonnage.ledger.piece import by_piece
from tonnage.ledger.selective import OUTPUTS, keeps_output, kept_outputs
from tonnage.ledger.short_convolution import short_convolution
from tonnage.plan import Setting

Branch = Callable[[Setting, Any, Tensor], tuple[Operations, Tensor]]

MIXERS: dict[type, Branch] = {
    Attention: attention,
    CompressedAttention: compressed_attention,
    GatedDelta: gated_delta,
    LatentAttention: latent_attention,
    LightningAttention: lightning_attention,
    Mamba: mamba,
    Mamba2: mamba2,
    ShortConvolution: short_convolution,
}

DISCARDED = frozenset({"layernorm", "activation", "moe_act", "mla_up_proj"})
"""Modules whose recomputation also frees their outputs, which the next product would keep."""


def layer_input(setting: Setting) -> Tensor:
    """The residual stream that a layer reads, ``[shard_tokens, streams · hidden]``."""
    architecture = setting.architecture
    return Tensor(
        name="layer.input",
        elements=setting.shard_tokens * architecture.hidden * (architecture.streams or 1),
        format=setting.stream,
    )


class _Stream:
    """The residual on its way through a layer, and the operations met so far."""

    def __init__(self, setting: Setting, layer: Layer) -> None:
        self.setting = setting
        self.layer = layer
        self.residual = layer_input(setting)
        self.operations: list[Operation] = []
        self._mixed: Tensor | None = None

    def enter(self, name: str) -> Tensor:
        """What a part reads: the residual, or one mixture of its streams."""
        if not self.layer.streams:
            return self.residual
        done, narrow, self._mixed = collapse(self.setting, self.layer.streams, self.residual, name)
        self.operations.extend(done)
        return narrow

    def normed(self, spec: Norm | None, name: str, read: Tensor, before: object = None) -> Tensor:
        """The norm of a tensor as wide as one stream; the tensor itself where there is none.

        Args:
            spec: the norm.
            name: prefix of its tensors and weights.
            read: what is normalised.
            before: the part that reads the norm's output.
        """
        if spec is None:
            return read
        width = self.setting.architecture.hidden
        modules = _norm_modules(self.setting, before)
        done, output = norm(self.setting, spec, name=name, read=read, width=width, modules=modules)
        self.operations.extend(done)
        return output

    def branch(self, done: tuple[Operations, Tensor]) -> Tensor:
        """Add the operations of a part; its output."""
        self.operations.extend(done[0])
        return done[1]

    def leave(self, branch: Tensor, name: str) -> None:
        """Add a part's output to the residual, or write it into its streams."""
        if self.layer.layer_scale:
            done, branch = _scale(self.setting, branch, f"{name}_scale")
            self.operations.append(done)
        if not self.layer.streams:
            dropout = self.layer.dropout
            summed, self.residual = residual(
                self.setting, name=name, branch=branch, stream=self.residual, dropout=dropout
            )
            self.operations.extend(summed)
            return
        assert self._mixed is not None
        wide, mixed = self.residual, self._mixed
        written, self.residual = expand(self.setting, self.layer.streams, wide, mixed, branch, name)
        self.operations.append(written)


def _norm_modules(setting: Setting, before: object) -> tuple[str, ...]:
    """Under which names recomputation may pick the norm before a part.

    A norm that is part of the product behind it is recomputed with that, or not at all:
    Transformer Engine's before a dense MLP and before queries, keys and values.
    """
    if setting.runtime.norm_in_linear and isinstance(before, MLP):
        return ("mlp",)
    if setting.runtime.norm_in_linear and isinstance(before, Attention):
        return ()
    return ("layernorm",)


def layer_operations(setting: Setting, layer: Layer) -> Operations:
    """The operations of one layer on one rank and one micro-batch."""
    stream = _Stream(setting, layer)
    if layer.norm_after_sum:
        return _post_norm(stream)
    first = mixed = stream.residual
    if layer.mixer is not None:
        first = stream.normed(
            layer.mixer_norm, "layer.mixer_norm", stream.enter("layer.mixer"), layer.mixer
        )
        mixed = stream.branch(MIXERS[type(layer.mixer)](setting, layer.mixer, first))
        mixed = stream.normed(layer.mixer_output_norm, "layer.mixer_output_norm", mixed)
        if not layer.parallel:
            stream.leave(mixed, "layer.middle")
    if layer.cross is not None:
        entered = stream.normed(layer.cross_norm, "layer.cross_norm", stream.residual)
        stream.leave(stream.branch(_cross(setting, layer.cross, entered)), "layer.crossed")
    if layer.mlp is not None:
        entered = stream.enter("layer.mlp")
        shares = layer.parallel and layer.mlp_norm is None
        second = first
        if not shares:
            second = stream.normed(layer.mlp_norm, "layer.mlp_norm", entered, layer.mlp)
        fed = stream.branch(_feed_forward(setting, layer.mlp, second, entered))
        fed = stream.normed(layer.mlp_output_norm, "layer.mlp_output_norm", fed)
        if layer.parallel:
            stream.leave(mixed, "layer.middle")
        stream.leave(fed, "layer.output")
    if layer.per_layer_input is not None:
        fed = stream.branch(per_layer_input(setting, layer.per_layer_input, stream.residual))
        stream.leave(stream.normed(RMSNORM, "layer.per_layer_norm", fed), "layer.fed")
    return tuple(stream.operations)


def _post_norm(stream: _Stream) -> Operations:
    """A layer whose norms follow the residual sums (Vaswani et al., arXiv 1706.03762)."""
    setting, layer = stream.setting, stream.layer
    assert layer.mixer is not None
    assert layer.mlp is not None
    mixed = stream.branch(MIXERS[type(layer.mixer)](setting, layer.mixer, stream.residual))
    stream.leave(mixed, "layer.middle")
    stream.residual = stream.normed(layer.mixer_norm, "layer.mixer_norm", stream.residual)
    fed = stream.branch(_feed_forward(setting, layer.mlp, stream.residual, stream.residual))
    stream.leave(fed, "layer.output")
    stream.residual = stream.normed(layer.mlp_norm, "layer.mlp_norm", stream.residual)
    return tuple(stream.operations)


def _cross(setting: Setting, spec: Attention, normed: Tensor) -> tuple[Operations, Tensor]:
    """Attention to the encoder's output, under names apart from the self-attention's."""
    done, branch = attention(setting, spec, normed)
    return tuple(renamed(operation, "attention.", "cross.") for operation in done), branch.cast(
        branch.name.replace("attention.", "cross."), branch.format
    )


def _feed_forward(
    setting: Setting, spec: FeedForward, normed: Tensor, stream: Tensor
) -> tuple[Operations, Tensor]:
    """The feed-forward part; only experts may read the residual beside its norm."""
    if isinstance(spec, MoE):
        return moe(setting, spec, normed, stream)
    return mlp(setting, spec, normed)


def _scale(setting: Setting, branch: Tensor, name: str) -> tuple[Operation, Tensor]:
    """A learnt weight a channel on a part's output (CaiT, arXiv 2103.17239)."""
    output = branch.cast(name, setting.stream)
    weight = Weight(
        name=f"{name}.weight",
        shape=(setting.architecture.hidden,),
        trains=setting.trains_base,
    )
    operation = Operation(
        name=name,
        kind="elementwise",
        inputs=(branch,),
        outputs=(output,),
        saves=(branch,),
        weights=(weight,),
    )
    return operation, output


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
    if OUTPUTS in modules:
        return kept_outputs(operations)
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
            reads = op.reentry or op.inputs
            entering = [t for t in reads if not inside.intersection((t.name, t.copy_of))]
        else:
            entering = [t for t in op.saves if not discarded.intersection((t.name, t.copy_of))]
        kept.update({tensor.name: tensor for tensor in entering})
    return tuple(kept.values())


@by_piece()
def saved_bytes(setting: Setting, operations: Operations) -> Number:
    """Bytes that one layer keeps for backward, under the plan's selective recomputation."""
    return union_bytes(saved_tensors(operations, recomputed_modules(setting)))


def recomputed_flops(setting: Setting, operations: Iterable[Operation]) -> Number:
    """FLOPs that selective recomputation adds to the backward pass of one layer."""
    modules = recomputed_modules(setting)
    if OUTPUTS in modules:
        steps = tuple(operations)
        pairs = zip(steps, keeps_output(steps), strict=True)
        return total(op.flops for op, kept in pairs if not kept)
    return total(op.flops for op in operations if modules.intersection(op.modules))

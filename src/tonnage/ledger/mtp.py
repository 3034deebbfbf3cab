"""Multi-token prediction: predictors of further tokens that train with the model.

DeepSeek-V3, arXiv 2412.19437, section 2.2; Megatron-Core
``multi_token_prediction.py``. Each depth norms the stream before it and the embedding of the
next token, joins and projects them, and runs a layer and a norm of its own. The embedding and
the head are the model's.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from tonnage.algebra import Number, total
from tonnage.arch import RMSNORM, Layer
from tonnage.dtype import dtype
from tonnage.ledger.elementwise import norm
from tonnage.ledger.embedding import token_table
from tonnage.ledger.head import head, logits
from tonnage.ledger.layer import layer_operations, recomputed_modules, saved_tensors
from tonnage.ledger.linear import Linear, Rows, gather, linear
from tonnage.ledger.operation import Operation, Operations, Tensor, renamed, union_bytes
from tonnage.plan import Setting


@dataclass(frozen=True, kw_only=True)
class Predictors:
    """The predictors of a stage; none of them away from the head.

    Attributes:
        depth: how many there are.
        operations: those of one, from the two streams to its logits.
        table: the embedding that a stage holds for them alone.
    """

    depth: int = 0
    operations: Operations = ()
    table: Operations = ()


NO_PREDICTORS = Predictors()
"""Those of a plan that trains none, and of stages away from the head."""


def predictors(setting: Setting, *, apart: bool) -> Predictors:
    """The predictors that a plan trains.

    Args:
        setting: the run.
        apart: the embedding is on another pipeline stage, so that this one needs a copy; a
            tied head is that copy.
    """
    depth = setting.plan.mtp
    if not depth:
        return NO_PREDICTORS
    architecture = setting.architecture
    layer = architecture.mtp or architecture.layers[-1]
    own = apart and not architecture.tied_embeddings
    return Predictors(
        depth=depth,
        operations=(*_joined(setting, layer), *layer_operations(setting, layer), *_head(setting)),
        table=_table(setting) if own else (),
    )


def _table(setting: Setting) -> Operations:
    """The embedding, as an operation that owns it and does nothing more."""
    table = dataclasses.replace(token_table(setting), name="mtp.embedding")
    return (Operation(name="mtp.embedding", kind="elementwise", weights=(table,)),)


def _stream(setting: Setting, name: str, width: Number) -> Tensor:
    return Tensor(name=name, elements=setting.shard_tokens * width, format=setting.stream)


def _joined(setting: Setting, layer: Layer) -> Operations:
    """Two normed streams side by side, and the projection of both to one, ``[2h, h]``.

    The projection splits its outputs over the tensor-parallel ranks, which gather them again.
    """
    hidden = setting.architecture.hidden
    rule = layer.mlp_norm or layer.mixer_norm or RMSNORM
    operations: list[Operation] = []
    normed: list[Tensor] = []
    for name in ("stream", "embedding"):
        read = _stream(setting, f"mtp.{name}", hidden)
        done, output = norm(setting, rule, name=f"mtp.{name}_norm", read=read, width=hidden)
        operations.extend(done)
        normed.append(output)
    both = _stream(setting, "mtp.joined", 2 * hidden)
    join = Operation(
        name="mtp.join", kind="elementwise", inputs=tuple(normed), outputs=(both,), moves=True
    )
    entry, full = gather(setting, both, 2 * hidden)
    spec = Linear(
        name="mtp.project", width_in=2 * hidden, width_out=hidden, split="column", narrow=True
    )
    rows = Rows(read=full, kept=both, tokens=setting.tokens, degree=setting.tp)
    projected, split = linear(setting, spec, rows)
    output = _stream(setting, "layer.input", hidden)
    leave = Operation(
        name="mtp.gather", kind="elementwise", inputs=(split,), outputs=(output,), moves=True
    )
    return (*operations, join, *entry, *projected, leave)


def _head(setting: Setting) -> Operations:
    """A norm of its own and the model's head, whose weight is not here again."""
    shared = tuple(renamed(op, "layer.input", "mtp.output") for op in head(setting))
    return tuple(dataclasses.replace(op, weights=()) if op.name == "head" else op for op in shared)


def predictors_keep(setting: Setting, found: Predictors) -> Number:
    """Bytes that the predictors keep of one micro-batch, without their losses.

    Full recomputation keeps the two streams that each begins with. The first reads what the
    model's own head keeps anyway.
    """
    if not found.depth:
        return 0
    stream = _stream(setting, "mtp.stream", setting.architecture.hidden).bytes
    if setting.plan.recompute == "full":
        return (2 * found.depth - 1) * stream
    kept = saved_tensors(found.operations, recomputed_modules(setting))
    return found.depth * union_bytes(kept) - stream


def predictors_losses(setting: Setting, found: Predictors) -> Number:
    """Bytes that the losses of the predictors keep until backward: one for each depth.

    A loss in place keeps its logits, the others an fp32 softmax.
    """
    if not found.depth:
        return 0
    narrow = setting.runtime.loss in ("in-place", "compiled", "chunked", "chunked-compiled")
    each = dtype(setting.format if narrow else "fp32").bytes
    return found.depth * each * logits(setting).elements


def predictors_flops(found: Predictors) -> Number:
    """FLOPs of all predictors, forward and backward."""
    return found.depth * total(op.flops + op.flops_backward for op in found.operations)

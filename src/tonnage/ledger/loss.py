"""The loss as operations: from the logits to the gradient of the logits, rule by rule."""

from __future__ import annotations

from tonnage.algebra import ceil_div
from tonnage.ledger.head import logits
from tonnage.ledger.loss_copies import CHUNKS
from tonnage.ledger.operation import Operation, Operations, Tensor
from tonnage.plan import Setting


def known(setting: Setting) -> bool:
    """Whether the rule of the runtime's loss is one of those that are written out here."""
    return setting.runtime.loss in _RULES


def loss(setting: Setting) -> Operations:
    """The operations of what `tonnage.ledger.loss_copies.loss_bytes` puts into one figure."""
    return _RULES[setting.runtime.loss](setting, logits(setting))


def _step(name: str, reads: Tensor, *writes: Tensor, **more: object) -> Operation:
    return Operation(
        name=f"loss.{name}",
        kind="elementwise",
        inputs=(reads,),
        outputs=writes,
        **more,  # type: ignore[arg-type]
    )


def _eager(_: Setting, read: Tensor) -> Operations:
    """An fp32 copy, its log-softmax, which is kept, and a gradient of each."""
    wide = read.cast("loss.logits_fp32", "fp32")
    softmax = read.cast("loss.log_softmax", "fp32")
    return (
        _step("cast", read, wide),
        _step("log_softmax", wide, softmax, saves=(softmax,)),
        _step("pick", softmax),
    )


def _vocab_parallel(_: Setting, read: Tensor) -> Operations:
    """The softmax is made in the fp32 copy, and its gradient in the softmax."""
    softmax = read.cast("loss.softmax", "fp32")
    last = _step("softmax", softmax, saves=(softmax,), frames=(read,), gradient_into=softmax.name)
    return (_step("cast", read, softmax), last)


def _fused(_: Setting, read: Tensor) -> Operations:
    """As above, but a compiled piece writes the softmax beside the copy."""
    wide = read.cast("loss.logits_fp32", "fp32")
    softmax = read.cast("loss.softmax", "fp32")
    last = _step("softmax", wide, saves=(softmax,), frames=(read, wide), gradient_into=softmax.name)
    return (_step("cast", read, wide), last)


def _two_copies(_: Setting, read: Tensor) -> Operations:
    """The loss clones the fp32 logits; the model's frame holds the first copy until it returns."""
    wide = read.cast("loss.logits_fp32", "fp32")
    softmax = read.cast("loss.softmax", "fp32")
    last = _step("softmax", wide, saves=(softmax,), gradient_into=softmax.name)
    return (_step("cast", read, wide), last)


def _in_place(_: Setting, read: Tensor) -> Operations:
    return (_step("kernel", read, saves=(read,), gradient_into=read.name),)


def _compiled(_: Setting, read: Tensor) -> Operations:
    return (_step("kernel", read, saves=(read,)),)


def _chunked(_: Setting, read: Tensor) -> Operations:
    """One chunk at a time in fp32, with its gradient."""
    piece = Tensor(name="loss.chunk", elements=ceil_div(read.elements, CHUNKS), format="fp32")
    return (_step("chunks", read, saves=(read,), scratch=(piece,), scratch_backward=(piece,)),)


_RULES = {
    "eager": _eager,
    "vocab-parallel": _vocab_parallel,
    "vocab-parallel-fused": _fused,
    "vocab-parallel-two-copies": _two_copies,
    "in-place": _in_place,
    "compiled": _compiled,
    "chunked": _chunked,
}

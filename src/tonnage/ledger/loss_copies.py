"""Bytes of the logits and of the loss's copies of them."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.algebra import Number, ceil_div, minimum, next_power_of_two, where
from tonnage.dtype import dtype
from tonnage.ledger.embedding import saved_module
from tonnage.ledger.head import logits
from tonnage.plan import Setting

CHUNKS = 8
"""Pieces of the sequence that torchtune's chunked loss works through."""


@dataclass(frozen=True, kw_only=True)
class Copies:
    """Bytes for each logit.

    Attributes:
        loss: where they are most, at the loss.
        head: while the head's backward pass runs.
        stranded: freed by then, in a block that no later request of the loss fits into: of the
            allocator's reserve, not of what is allocated.
    """

    loss: Number
    head: float
    stranded: float = 0


def loss_bytes(setting: Setting) -> Number:
    """Bytes of the logits and of the loss's copies of them, where they are most.

    Bytes for each logit by rule, e being the bytes of an activation:

    * ``eager``: fp32 logits, log-softmax and gradient: 12 (PyTorch; transformers 5, or to 4.45).
      DTensor over a split vocabulary: the log-softmax, its exponential, the targets' share of
      the gradient and the sum: 16 (``torch/distributed/tensor/parallel/loss.py``).
    * ``eager-held``: the caller still refers to the 16-bit logits: e + 12 (transformers
      4.46-4.48).
    * ``upcast-in-place``: fp32 logits and their shifted copy, which the gradient overwrites: 8
      (Unsloth's kernel); ``upcast-in-place-held``: e + 8.
    * ``eager-narrow``: a model that does not upcast (GPT-BigCode, Qwen): logits, their shifted
      copy, log-softmax and gradient: 4e; under autocast the last three in fp32: 12.
    * ``eager-narrow-held``: under autocast through backward also the outputs, e + 4 (seen in
      measured memory with transformers 4.48, its cause is not known).
    * ``narrow-in-place``: the same with the kernel: 3e or 8; ``narrow-in-place-held``.
    * ``upcast-in-chunks``: fp32 logits and log-softmax, piece by piece: 8 (LitGPT with adapters).
    * ``vocab-parallel``: the logits and an fp32 softmax in place of a copy: e + 4 (Megatron-Core).
    * ``vocab-parallel-fused``: compiled pieces write out of place: e + 8 (Megatron-Core).
    * ``vocab-parallel-two-copies``: two fp32 copies, the logits gone by then: 8 (nanotron).
    * ``in-place``: the gradient overwrites the logits: e (Transformer Engine before 2.18).
    * ``compiled``: the logits and their gradient: 2e (torch.compile).
    * ``chunked``: the logits, and one of eight chunks in fp32 with its gradient: e + 6/8
      (torchtune); ``chunked-compiled``: the chunk's gradient only: e + e/8.
    * ``linear``: `_linear`.
    """
    rule = setting.runtime.loss
    elements = logits(setting).elements
    if rule == "linear":
        return _linear(setting)
    if rule in ("chunked", "chunked-compiled"):
        e = dtype(setting.format).bytes
        return elements * e + (6 if rule == "chunked" else e) * ceil_div(elements, CHUNKS)
    return elements * copies(setting).loss


def logits_in_backward(setting: Setting) -> Number:
    """Bytes of the logits, and of their gradient, while the head's backward pass runs."""
    return logits(setting).elements * copies(setting).head


def logits_in_product(setting: Setting) -> Number:
    """Bytes of the logits' gradient, in the format that the head's product reads.

    The logits beside it where the caller still refers to them; nothing where the head is
    multiplied in pieces.
    """
    rule = setting.runtime.loss
    if rule == "linear" or head_in_pieces(setting):
        return 0
    held = 2 if rule.endswith("held") else 1
    return logits(setting).elements * held * dtype(setting.format).bytes


def head_in_pieces(setting: Setting) -> bool:
    """Whether the head is multiplied chunk by chunk, and its gradient summed from pieces."""
    return setting.runtime.loss in ("chunked", "chunked-compiled")


def stranded_logits(setting: Setting) -> Number:
    """Bytes of the allocator's reserve that hold nothing at the loss."""
    return logits(setting).elements * copies(setting).stranded


def copies(setting: Setting) -> Copies:
    """Bytes for each logit, under the loss's rule.

    A gradient made in fp32 is there once more in 16 bits when the head reads it. The 16-bit
    logits' block cannot hold an fp32 copy.
    """
    e = dtype(setting.format).bytes
    autocast = setting.runtime.autocast
    wide, outputs = (4, e + 4) if autocast else (e, e)
    gone = 0 if autocast else e
    split = False if setting.runtime.regathers else setting.tp > 1
    return {
        "eager": Copies(loss=where(split, 16, 12), head=4 + e, stranded=e if e < 4 else 0),
        "eager-held": Copies(loss=12 + e, head=4 + 2 * e),
        "upcast-in-place": Copies(loss=8, head=4 + e, stranded=e if e < 4 else 0),
        "upcast-in-place-held": Copies(loss=8 + e, head=4 + 2 * e),
        "eager-narrow": Copies(loss=3 * wide + gone, head=wide + e, stranded=e - gone),
        "narrow-in-place": Copies(loss=2 * wide + gone, head=wide + e, stranded=e - gone),
        "eager-narrow-held": Copies(loss=3 * wide + outputs, head=wide + outputs),
        "narrow-in-place-held": Copies(loss=2 * wide + outputs, head=wide + outputs),
        "upcast-in-chunks": Copies(loss=8, head=8),
        "vocab-parallel": Copies(loss=e + 4, head=e + 4),
        "vocab-parallel-fused": Copies(loss=e + 8, head=e + 4),
        "vocab-parallel-two-copies": Copies(loss=8, head=e + 4),
        "in-place": Copies(loss=e, head=e),
        "compiled": Copies(loss=2 * e, head=e),
        "chunked": Copies(loss=e, head=e),
        "chunked-compiled": Copies(loss=e, head=e),
        "linear": Copies(loss=0, head=0),
    }[setting.runtime.loss]


def _linear(setting: Setting) -> Number:
    """Product and loss in one kernel, chunk by chunk (Liger ``fused_linear_cross_entropy``).

    As many tokens at a time as make the logits about as large as the hidden states, rounded up
    to a power of two; the logits and the product that they come from. All of the hidden states'
    gradient is made on the way, and the head's where it trains.
    """
    hidden = setting.architecture.hidden
    element = dtype(setting.format)
    pieces = ceil_div(setting.vocab, hidden)
    chunk = minimum(next_power_of_two(ceil_div(setting.tokens, pieces)), setting.tokens)
    trains = setting.trains_base or bool(saved_module(setting, "head"))
    weight = element.storage(setting.vocab * hidden) if trains else 0
    return element.storage(2 * chunk * setting.vocab + setting.tokens * hidden) + weight

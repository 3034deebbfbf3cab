"""Bytes of the logits and of the loss's copies of them."""

from __future__ import annotations

from tonnage.algebra import Number, ceil_div, minimum, next_power_of_two
from tonnage.dtype import dtype
from tonnage.ledger.embedding import saved_module
from tonnage.ledger.head import logits
from tonnage.plan import Setting


def loss_bytes(setting: Setting) -> Number:
    """Bytes of the logits and of the loss's copies of them, where they are most.

    Bytes an element of the logits by rule, e being the bytes of an activation:

    * ``eager``: fp32 logits, log-softmax and gradient: 12 (transformers 5 and up to 4.45, PyTorch).
    * ``eager-held``: the caller still refers to the 16-bit logits: e + 12 (transformers 4.46-4.48).
    * ``upcast-in-place``: fp32 logits and their shifted copy, which the gradient overwrites: 8
      (Unsloth's kernel); ``upcast-in-place-held``: e + 8.
    * ``eager-narrow-held``: a model that does not upcast (GPT-BigCode): shifted logits, log-softmax
      and gradient, 3e or under autocast 12; through backward also the outputs, e or under
      autocast e + 4 (seen in measured memory, its cause is not known).
    * ``narrow-in-place-held``: the same with the kernel: 2e or 8, and the outputs.
    * ``upcast-in-chunks``: fp32 logits and log-softmax, the head and loss chunk by chunk: 8 (LitGPT).
    * ``vocab-parallel``: the logits and an fp32 softmax in place of a copy: e + 4 (Megatron-Core).
    * ``vocab-parallel-fused``: compiled pieces write out of place: e + 8 (Megatron-Core).
    * ``vocab-parallel-two-copies``: two fp32 copies, the logits gone by then: 8 (nanotron).
    * ``in-place``: the gradient overwrites the logits: e (Transformer Engine before 2.18).
    * ``compiled``: the logits and their gradient: 2e (torch.compile).
    * ``chunked``: the logits, and one of eight chunks in fp32 with its gradient: e + 6/8
      (torchtune).
    * ``linear``: `_linear`.
    """
    element = dtype(setting.format).bytes
    elements = logits(setting).elements
    rule = setting.runtime.loss
    if rule == "chunked":
        return elements * element + ceil_div(3 * elements, 4)
    if rule == "linear":
        return _linear(setting)
    autocast = setting.runtime.autocast
    wide = 4 if autocast else element
    held = element + 4 if autocast else element
    copies = {
        "eager": 12,
        "eager-held": 12 + element,
        "eager-narrow-held": 3 * wide + held,
        "upcast-in-place": 8,
        "upcast-in-place-held": 8 + element,
        "narrow-in-place-held": 2 * wide + held,
        "upcast-in-chunks": 8,
        "vocab-parallel": element + 4,
        "vocab-parallel-fused": element + 8,
        "vocab-parallel-two-copies": 8,
        "in-place": element,
        "compiled": 2 * element,
    }
    return elements * copies[rule]


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

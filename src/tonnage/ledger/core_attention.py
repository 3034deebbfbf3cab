"""The core of softmax attention: scores, softmax, and the weighted sum of the values."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from tonnage.algebra import Number, exact_div, minimum, total
from tonnage.ledger.context_parallel import sharing
from tonnage.ledger.elementwise import dropout_mask
from tonnage.ledger.operation import Operation, Operations, Tensor, Weight
from tonnage.ledger.pairs import ALL_BEFORE, Sight, twice_pairs
from tonnage.plan import Setting

MODULES = ("core_attn",)


@dataclass(frozen=True, kw_only=True)
class Core:
    """Shape of an attention core.

    Attributes:
        heads: query heads.
        kv_heads: key and value heads.
        key_width: width of a query or key head.
        value_width: width of a value head.
        sight: which keys a query sees.
        far: which compressed blocks it sees beside them, or None.
        softcap: scores are capped by a tanh.
        softmax_fp32: unfused, the softmax is asked for in fp32.
        sinks: each head has a learnt score in the softmax, which no value follows.
        relative_buckets: rows of a table of biases by distance that scores are added to.
        dropout: probability of dropout on the attention weights.
        borrowed: keys and values are another layer's, which keeps them.
        views: queries, keys and values are views of one projection.
    """

    heads: Number
    kv_heads: Number
    key_width: Number
    value_width: Number
    sight: Sight = ALL_BEFORE
    far: Sight | None = None
    softcap: bool = False
    softmax_fp32: bool = True
    sinks: bool = False
    relative_buckets: Number = 0
    dropout: float = 0.0
    borrowed: bool = False
    views: bool = False

    @property
    def sights(self) -> tuple[Sight, ...]:
        """All that a query sees, kind by kind."""
        return (self.sight,) if self.far is None else (self.sight, self.far)


def core_attention(
    setting: Setting, core: Core, query: Tensor, key: Tensor, value: Tensor
) -> tuple[Operations, Tensor]:
    """The core, with the kernel that the plan names.

    Returns:
        The operations and the context, ``[tokens, heads · value_width / tp]``.
    """
    context = Tensor(
        name="attention.context",
        elements=setting.tokens * exact_div(core.heads, setting.tp) * core.value_width,
        format=setting.format,
    )
    build = _flash if setting.plan.attention == "flash" else _eager
    return (*build(setting, core, (query, key, value), context),), context


def kept_context(setting: Setting, context: Tensor) -> Tensor:
    """What is kept of a core's output, for its own backward pass and the product behind it."""
    if setting.runtime.attention_output == "whole":
        return context
    return context.copy(f"{context.name}.e5m6", "e5m6")


def pair_flops(setting: Setting, core: Core, width: Number) -> Number:
    """FLOPs of a product over all (query, key) pairs of a micro-batch on one rank.

    ``2 · width`` a pair and head.
    """
    twice = total(twice_pairs(setting, sight) for sight in core.sights)
    return exact_div(width * core.heads * setting.mbs * twice, setting.cp * setting.tp)


def _weights(setting: Setting, core: Core) -> tuple[Weight, ...]:
    """What the scores are added to: sinks, and biases by distance."""
    heads = exact_div(core.heads, setting.tp)
    trains = setting.trains_base
    weights = []
    if core.sinks:
        weights.append(Weight(name="attention.sinks", shape=(heads,), trains=trains))
    if core.relative_buckets:
        shape = (core.relative_buckets, heads)
        weights.append(Weight(name="attention.relative_bias", shape=shape, trains=trains))
    return tuple(weights)


def _flash(
    setting: Setting, core: Core, inputs: tuple[Tensor, Tensor, Tensor], context: Tensor
) -> Operations:
    """Flash attention keeps its inputs, its output and a log-sum-exp, but no scores.

    Backward makes the scores again: half of a forward pass when both widths are equal
    (Dao, arXiv 2307.08691, section 3.1).
    """
    repeat: Operations = ()
    kept = inputs
    if setting.runtime.repeat_kv and core.kv_heads != core.heads:
        repeat, inputs = _repeat_heads(setting, core, inputs)
        repeat = tuple(dataclasses.replace(op, saves=()) for op in repeat)
        kept = inputs
    elif setting.runtime.values == "view":
        kept = (*inputs[:2], _projection(inputs))
    rows = setting.tokens * exact_div(core.heads, setting.tp)
    output = kept_context(setting, context)
    saves = [*(inputs[:1] if core.borrowed else kept), output]
    if setting.runtime.norm_statistics:
        each = setting.runtime.attention_statistics
        saves.append(Tensor(name="attention.logsumexp", elements=each * rows, format="fp32"))
    if setting.runtime.attention_layout == "sbhd" and setting.plan.attention_version == 2:
        saves.append(context.cast("attention.context_transposed", context.format))
    picks = (picked(setting, sight) for sight in core.sights if sight.top_k is not None)
    saves.extend(picks)
    widened = () if output is context else (context.cast("attention.widened", context.format),)
    shared = sharing(setting, inputs, context, views=core.views)
    saves.extend(shared.saves)
    scores = pair_flops(setting, core, core.key_width)
    flops = scores + pair_flops(setting, core, core.value_width)
    return (
        *repeat,
        Operation(
            name="attention.core",
            kind="attention",
            inputs=inputs,
            outputs=(context,),
            saves=tuple(saves),
            weights=_weights(setting, core),
            flops=flops,
            flops_backward=2 * flops,
            flops_inside=scores,
            collectives=shared.collectives,
            modules=MODULES,
            rows=rows,
            scratch=shared.scratch,
            scratch_backward=(
                *_accumulators(setting, core, inputs[0]),
                *shared.scratch_backward,
                *widened,
            ),
        ),
    )


def _projection(inputs: tuple[Tensor, ...]) -> Tensor:
    """The whole projection, which values that are a view of it keep alive."""
    elements = total(tensor.elements for tensor in inputs)
    return Tensor(name="attention.qkv_storage", elements=elements, format=inputs[0].format)


FLASH_2 = 2
"""The generation of the flash kernel whose backward pass is known to the byte."""

FLASH_BLOCK = 128
"""Rows that FlashAttention-2's backward kernel rounds a sequence up to."""


def _accumulators(setting: Setting, core: Core, query: Tensor) -> tuple[Tensor, ...]:
    """What FlashAttention-2's backward kernel needs beside the gradients; of others, nothing.

    The queries' gradient is summed in fp32, over a sequence rounded up; a row sum for each
    query and head; with fewer key heads, gradients of keys and values as wide as the
    queries' (flash_attn ``mha_bwd``).
    """
    if setting.plan.attention_version != FLASH_2:
        return ()
    heads = exact_div(core.heads, setting.tp)
    rows = setting.tokens + FLASH_BLOCK * setting.mbs
    scratch = [
        Tensor(name="attention.row_sums", elements=rows * heads, format="fp32"),
        Tensor(name="attention.dq_sums", elements=rows * heads * core.key_width, format="fp32"),
    ]
    if core.heads != core.kv_heads:
        scratch += [query.cast(f"attention.d{letter}_wide", setting.format) for letter in "kv"]
    return tuple(scratch)


def _eager(
    setting: Setting, core: Core, inputs: tuple[Tensor, Tensor, Tensor], context: Tensor
) -> Operations:
    """Attention as separate products: every query-key pair is a stored number.

    Kept: q, k, v; the probabilities (1/2 of the ``5·a·s²·b`` of arXiv 2205.05198,
    section 4.1, in 16 bits); with dropout its mask and the dropped probabilities.
    """
    repeat, (query, key, value) = _repeat_heads(setting, core, inputs)
    size = setting.tokens * exact_div(core.heads, setting.tp)
    pairs = size * total(sight.keys(setting) for sight in core.sights)
    scores = Tensor(name="attention.scores", elements=pairs, format=setting.format)
    product = Operation(
        name="attention.scores",
        kind="matmul",
        inputs=(query, key),
        outputs=(scores,),
        saves=(query,) if core.borrowed and not repeat else (query, key),
        flops=pair_flops(setting, core, core.key_width),
        flops_backward=2 * pair_flops(setting, core, core.key_width),
        modules=MODULES,
        collectives=sharing(setting, inputs, context).collectives,
    )
    softmax, weights = _softmax(setting, core, scores)
    weighted = Operation(
        name="attention.core",
        kind="matmul",
        inputs=(weights, value),
        outputs=(context,),
        saves=(weights,) if core.borrowed and not repeat else (weights, value),
        flops=pair_flops(setting, core, core.value_width),
        flops_backward=2 * pair_flops(setting, core, core.value_width),
        modules=MODULES,
    )
    return (*repeat, product, *softmax, weighted)


def picked(setting: Setting, sight: Sight) -> Tensor:
    """The keys that an indexer picked, ``[tokens, top_k]`` of 32 bits."""
    count = minimum(sight.top_k, sight.keys(setting))
    return Tensor(name="attention.picked", elements=setting.tokens * count, format="fp32")


def _repeat_heads(
    setting: Setting, core: Core, inputs: tuple[Tensor, Tensor, Tensor]
) -> tuple[Operations, tuple[Tensor, Tensor, Tensor]]:
    """Keys and values repeated to the query heads, which a plain product asks for."""
    query, key, value = inputs
    if core.kv_heads == core.heads:
        return (), inputs
    rows = exact_div(setting.mbs * total(sight.keys(setting) for sight in core.sights), setting.cp)
    rows = rows * exact_div(core.heads, setting.tp)
    same = "_value" if key.name == value.name else ""
    wide_key = Tensor(
        name=f"{key.name}.repeated", elements=rows * core.key_width, format=key.format
    )
    wide_value = Tensor(
        name=f"{value.name}.repeated{same}", elements=rows * core.value_width, format=value.format
    )
    # Where q, k and v are views of one storage, q keeps the narrow ones alive as well.
    kept = (key, value) if setting.runtime.qkv == "fused" and not core.borrowed else ()
    operation = Operation(
        name="attention.repeat",
        kind="elementwise",
        inputs=(key, value),
        outputs=(wide_key, wide_value),
        saves=kept,
        modules=MODULES,
    )
    return (operation,), (query, wide_key, wide_value)


def _softmax(setting: Setting, core: Core, scores: Tensor) -> tuple[Operations, Tensor]:
    # A sink is one more column of the softmax.
    columns = scores.elements
    if core.sinks:
        columns = columns + setting.tokens * exact_div(core.heads, setting.tp)
    probabilities = Tensor(name="attention.probabilities", elements=columns, format=setting.format)
    # A softmax keeps its result; what is cast from that is kept by whoever reads it. Under
    # autocast an fp32 mask widens the scores, whatever the class asks for.
    asked = core.softmax_fp32 or setting.casts
    wide = asked and setting.runtime.softmax == "fp32" and setting.format != "fp32"
    saves = [probabilities.cast("attention.probabilities_fp32", "fp32") if wide else probabilities]
    if core.softcap:
        saves.append(scores.cast("attention.softcap_tanh", setting.format))
    operations = [
        Operation(
            name="attention.softmax",
            kind="elementwise",
            inputs=(scores,),
            outputs=(probabilities,),
            saves=tuple(saves),
            weights=_weights(setting, core),
            modules=MODULES,
        )
    ]
    if not core.dropout > 0:
        return tuple(operations), probabilities
    dropped = scores.cast("attention.dropped", setting.format)
    mask = dropout_mask("attention.probabilities", scores.elements)
    operations.append(
        Operation(
            name="attention.dropout",
            kind="elementwise",
            inputs=(probabilities,),
            outputs=(dropped,),
            saves=(mask,),
            modules=MODULES,
        )
    )
    return tuple(operations), dropped

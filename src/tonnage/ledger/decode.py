"""One new token a sequence: the operations of a layer that reads a cache of keys and values."""

from __future__ import annotations

import dataclasses

from tonnage.algebra import Number
from tonnage.arch import Attention, LatentAttention, Layer
from tonnage.ledger.layer import layer_operations
from tonnage.ledger.operation import Operation, Operations, Tensor
from tonnage.plan import Setting


def decodes(layer: Layer) -> bool:
    """Whether decoding is modelled: causal softmax attention without an indexer, or no mixer."""
    if isinstance(layer.mixer, LatentAttention):
        return layer.mixer.top_k is None
    if isinstance(layer.mixer, Attention):
        return layer.mixer.causal and layer.mixer.top_k is None and not layer.mixer.cross
    return layer.mixer is None


def decode_operations(setting: Setting, layer: Layer) -> Operations:
    """The operations of one layer for one token of each sequence.

    Args:
        setting: the run; ``seq`` tokens are in the cache, ``mbs`` sequences are decoded
            at once.
        layer: one that `decodes` holds for.
    """
    plan = dataclasses.replace(setting.plan, attention="flash")
    uncut = dataclasses.replace(setting, causal=False, plan=plan)
    whole = {op.name: op for op in layer_operations(uncut, layer) if op.kind == "attention"}
    one = dataclasses.replace(setting, seq=1, plan=plan)
    return tuple(
        _core(setting, layer, whole[op.name], op) if op.kind == "attention" else op
        for op in layer_operations(one, layer)
    )


def _core(setting: Setting, layer: Layer, whole: Operation, one: Operation) -> Operation:
    """Attention of one query to the cache.

    The keys that it sees are those of a query in the uncut square: FLOPs are two for each
    element of query and context, and each key. Of the cache it reads as many.
    """
    square = whole.inputs[0].elements + whole.outputs[0].elements
    seen = whole.flops / (2 * square)
    query, context = one.inputs[0], one.outputs[0]
    if isinstance(layer.mixer, LatentAttention):
        query, context, cache = _latent(setting, layer.mixer, query, seen)
    else:
        cache = tuple(
            dataclasses.replace(tensor, elements=tensor.elements * seen)
            for tensor in one.inputs[1:]
        )
    return Operation(
        name=one.name,
        kind="attention",
        inputs=(query, *cache),
        outputs=(context,),
        weights=one.weights,
        flops=2 * seen * (query.elements + context.elements),
        modules=one.modules,
    )


def _latent(
    setting: Setting, spec: LatentAttention, query: Tensor, seen: Number
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Latent attention on its cache of latents, which all heads share.

    The up projection of the keys is multiplied into the query and that of the values into
    the output (DeepSeek-V2, arXiv 2405.04434, section 2.1.2): a head's query is as wide as
    the latent and the key with position, and its context as wide as the latent.
    """
    rows = query.elements / (spec.nope_head_dim + spec.rope_head_dim)
    width = spec.kv_rank + spec.rope_head_dim
    cache = dataclasses.replace(query, name="attention.cache", elements=setting.mbs * seen * width)
    return (
        dataclasses.replace(query, elements=rows * width),
        dataclasses.replace(query, name="attention.context", elements=rows * spec.kv_rank),
        (cache,),
    )

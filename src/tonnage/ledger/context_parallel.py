"""How context-parallel ranks share keys and values, and what that keeps and sends.

Each rank has every head of its own positions, ``[tokens, heads · width / tp]``. Softmax
attention needs the keys and values of all of them. See docs/derivations/parallelism.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.algebra import Number, total, where
from tonnage.ledger.operation import Collective, CollectiveKind, Phase, Tensor
from tonnage.plan import Setting


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """What sharing adds to an attention core; all of it is nothing on one rank.

    Attributes:
        collectives: what is sent.
        saves: kept for backward beside what attention keeps.
        scratch: alive while the forward core runs.
        scratch_backward: alive while the backward core runs.
    """

    collectives: tuple[Collective, ...]
    saves: tuple[Tensor, ...] = ()
    scratch: tuple[Tensor, ...] = ()
    scratch_backward: tuple[Tensor, ...] = ()


def sharing(
    setting: Setting,
    inputs: tuple[Tensor, Tensor, Tensor],
    context: Tensor,
    *,
    views: bool = False,
) -> Sharing:
    """Share keys and values as the stack's habit or the plan says.

    * ``p2p``: `ring` (Liu et al., arXiv 2310.01889).
    * ``a2a``: `exchange` (DeepSpeed-Ulysses, arXiv 2309.14509).
    * ``allgather``: `gathered` (Llama 3, arXiv 2407.21783, section 3.3.2).

    Args:
        setting: the run.
        inputs: queries, keys and values of this rank's positions.
        context: the core's output.
        views: whether they are views of one projection, which lives as long as any of them.
    """
    query, key, value = inputs
    rule = setting.runtime.cp_comm
    if rule == "a2a":
        return exchange(setting, (query, key, value), context)
    if rule == "allgather":
        return gathered(setting, key, value)
    return ring(setting, key, value, views=views)


def ring(setting: Setting, key: Tensor, value: Tensor, *, views: bool) -> Sharing:
    """Keys and values go once around; backward sends them again, with their gradients.

    A step computes with one pair while the next arrives. Backward has two buffers, each of a
    pair and its gradients, one of which is left as the result. Where the ring's pair is joined
    in a tensor of its own (Transformer Engine ``AttnFuncWithCPAndKVP2P``), it takes the place
    of turned keys and values; views of a projection leave that alive beside it.
    """
    around = (key.bytes + value.bytes) * (setting.cp - 1)
    joined = views and setting.runtime.ring_keys == "joined"
    return Sharing(
        collectives=(_one("send", around, "forward"), _one("send", 2 * around, "backward")),
        saves=(_pairs(setting, "attention.kv_joined", key, value, 1),) if joined else (),
        scratch=(_pairs(setting, "attention.kv_received", key, value, 1),),
        scratch_backward=(_pairs(setting, "attention.kv_buffers", key, value, 3),),
    )


def exchange(setting: Setting, inputs: tuple[Tensor, Tensor, Tensor], context: Tensor) -> Sharing:
    """Each rank gives away heads for positions, attends to whole sequences, and changes back.

    What comes of the exchange is as large as what went in, and kept in its place; but the
    core keeps its own output, and the projection the one that has been changed back.
    """
    before = total(tensor.bytes for tensor in inputs)
    kept = _several(setting, "attention.context_by_heads", context.elements, context.format)
    swapped = total(tensor.elements for tensor in inputs)
    return Sharing(
        collectives=(
            _one("all_to_all", before, "forward"),
            _one("all_to_all", context.bytes, "forward"),
            _one("all_to_all", context.bytes, "backward"),
            _one("all_to_all", before, "backward"),
        ),
        saves=(kept,),
        scratch=(_several(setting, "attention.heads_given", swapped, context.format),),
        scratch_backward=(_several(setting, "attention.heads_taken", swapped, context.format),),
    )


def gathered(setting: Setting, key: Tensor, value: Tensor) -> Sharing:
    """All keys and values on every rank while a core runs, and in backward their gradients.

    Only this rank's are kept; backward gathers again, and reduce-scatters the gradients.
    """
    whole = (key.bytes + value.bytes) * setting.cp
    everything = _pairs(setting, "attention.kv_gathered", key, value, setting.cp)
    gradients = _pairs(setting, "attention.dkv_gathered", key, value, setting.cp)
    return Sharing(
        collectives=(
            _one("all_gather", whole, "forward"),
            _one("all_gather", whole, "backward"),
            _one("reduce_scatter", whole, "backward"),
        ),
        scratch=(everything,),
        scratch_backward=(everything, gradients),
    )


def _one(kind: CollectiveKind, size: Number, phase: Phase) -> Collective:
    return Collective(kind=kind, axis="cp", bytes=size, phase=phase)


def _pairs(setting: Setting, name: str, key: Tensor, value: Tensor, count: Number) -> Tensor:
    return _several(setting, name, count * (key.elements + value.elements), key.format)


def _several(setting: Setting, name: str, elements: Number, number_format: str) -> Tensor:
    """A tensor that is there with more than one rank only."""
    return Tensor(name=name, elements=where(setting.cp > 1, elements, 0), format=number_format)

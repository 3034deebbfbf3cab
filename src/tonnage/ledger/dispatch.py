"""How tokens reach their experts and come back, by dispatcher.

Names and shapes follow the token dispatchers of Megatron-Core (``token_dispatcher.py``).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from tonnage.algebra import Number, exact_div, minimum, where
from tonnage.arch import MoE
from tonnage.dtype import dtype
from tonnage.ledger.operation import (
    Collective,
    CollectiveKind,
    Operation,
    Operations,
    Phase,
    Tensor,
)
from tonnage.plan import Setting

MODULE = "moe"


@dataclass(frozen=True, kw_only=True)
class Route:
    """Tensors on the way of a token to its experts and back, each ``[copies, hidden]``.

    Attributes:
        permuted: the rank's own copies, sorted by destination.
        received: what arrived from the other ranks; nothing where one local expert can
            read it as it is.
        sorted: what arrived, sorted by local expert: the experts' input.
    """

    permuted: Tensor
    received: Tensor
    sorted: Tensor


def token_width(setting: Setting, spec: MoE) -> Number:
    """Width of a token on its way to the experts."""
    return setting.architecture.hidden if spec.latent is None else spec.latent


def route(setting: Setting, spec: MoE, arriving: Number) -> Route:
    """The tensors of the plan's dispatcher.

    * ``alltoall``: every rank permutes its copies of the tokens, sends and sorts them.
    * ``allgather``: every rank has all tokens of its group, and picks from them; none of its
      own copies are made, and nothing is sorted twice.
    * ``deepep``: tokens are sent as they are, once to each rank that wants them (DeepEP,
      arXiv 2412.19437, section 3.2.2: at most to as many ranks as there are copies).

    Args:
        setting: the run.
        spec: the experts.
        arriving: copies that the experts of this rank read.
    """
    width = token_width(setting, spec)

    def copies(name: str, rows: Number) -> Tensor:
        return Tensor(name=f"moe.{name}", elements=rows * width, format=setting.format)

    own = setting.shard_tokens
    several = where(exact_div(spec.experts, setting.ep) > 1, 1, 0)
    sent, arrived = own * spec.top_k, arriving * several
    if _uses(setting, "allgather"):
        sent, arrived = own * setting.ep * setting.etp, 0
    elif _uses(setting, "deepep"):
        sent, arrived = 0, own * minimum(spec.top_k, setting.ep) * setting.etp
    return Route(
        permuted=copies("permuted", sent),
        received=copies("received", arrived),
        sorted=copies("dispatched", arriving),
    )


def _uses(setting: Setting, dispatcher: str) -> bool:
    return setting.runtime.routing == "map" and setting.plan.moe_dispatcher == dispatcher


def dispatch(setting: Setting, way: Route, normed: Tensor) -> Operations:
    """Bring tokens to their experts, sorted by local expert."""
    if setting.runtime.routing == "index":
        sent = _exchange(way.permuted.bytes, setting, way.permuted, way.sorted, inward=True)
        return (step("moe.gather", (normed,), (way.sorted,), scattered=True), _wire(sent))
    if _uses(setting, "allgather"):
        return (
            _gather(setting, normed, way.permuted, inward=True),
            step("moe.sort", (way.permuted,), (way.sorted,), scattered=True),
        )
    if _uses(setting, "deepep"):
        size = exact_div(way.received.bytes, setting.etp)
        return (
            _exchange(size, setting, normed, way.received, inward=True),
            step("moe.sort", (way.received,), (way.sorted,), scattered=True),
        )
    return (
        step("moe.permute", (normed,), (way.permuted,), scattered=True),
        _exchange(way.permuted.bytes, setting, way.permuted, way.received, inward=True),
        step("moe.sort", (way.received,), (way.sorted,), scattered=True),
    )


def combine(setting: Setting, way: Route, output: Tensor, branch: Tensor) -> Operations:
    """Bring the experts' outputs back and sum them, token by token.

    Megatron's all-to-all dispatcher still refers to its own copies of the tokens while the
    outputs come back. Where probabilities are applied after the experts, the outputs are kept.
    """
    if setting.runtime.routing == "index":
        sent = _exchange(way.permuted.bytes, setting, output, way.permuted, inward=False)
        return (
            _wire(sent),
            step("moe.sum", (output,), (branch,), saves=(output,), scattered=True),
        )
    unsorted = way.received.cast("moe.unsorted", output.format)
    returned = way.permuted.cast("moe.returned", output.format)
    if _uses(setting, "allgather"):
        return (
            step("moe.unsort", (output,), (returned,), scattered=True),
            _gather(setting, returned, branch, inward=False),
        )
    if _uses(setting, "deepep"):
        size = exact_div(way.received.bytes, setting.etp)
        return (
            step("moe.unsort", (output,), (unsorted,), scattered=True),
            _exchange(size, setting, unsorted, branch, inward=False),
        )
    back = _exchange(way.permuted.bytes, setting, unsorted, returned, inward=False)
    return (
        step("moe.unsort", (output,), (unsorted,), scattered=True),
        dataclasses.replace(back, frames=(way.permuted, way.received, output)),
        step("moe.unpermute", (returned,), (branch,), scattered=True),
    )


def _gather(setting: Setting, read: Tensor, wrote: Tensor, *, inward: bool) -> Operation:
    """All tokens of the experts' group to all its ranks, or their sums back to each."""
    whole = (wrote if inward else read).bytes
    there: CollectiveKind = "all_gather" if inward else "reduce_scatter"
    back: CollectiveKind = "reduce_scatter" if inward else "all_gather"
    inner = exact_div(whole, setting.ep)
    collectives = tuple(
        Collective(kind=kind, axis=axis, bytes=size, phase=phase)
        for axis, size in (("etp", inner), ("ep", whole))
        for kind, phase in _both(there, back)
    )
    return Operation(
        name="moe.dispatch" if inward else "moe.combine",
        kind="communication",
        inputs=(read,),
        outputs=(wrote,),
        collectives=collectives,
        modules=(MODULE,),
    )


def _both(
    there: CollectiveKind, back: CollectiveKind
) -> tuple[tuple[CollectiveKind, Phase], tuple[CollectiveKind, Phase]]:
    return (there, "forward"), (back, "backward")


def _wire(exchange: Operation) -> Operation:
    """An exchange without tensors of its own: what it brings is what is there already."""
    return dataclasses.replace(exchange, inputs=(), outputs=())


def step(
    name: str,
    read: tuple[Tensor, ...],
    wrote: tuple[Tensor, ...],
    saves: tuple[Tensor, ...] = (),
    *,
    scattered: bool = False,
) -> Operation:
    """A kernel of the mixture that copies or sums."""
    return Operation(
        name=name,
        kind="elementwise",
        inputs=read,
        outputs=wrote,
        saves=saves,
        modules=(MODULE,),
        scattered=scattered,
    )


def _exchange(
    sent: Number, setting: Setting, read: Tensor, wrote: Tensor, *, inward: bool
) -> Operation:
    """Send tokens to the ranks of their experts, or back; backward does the reverse.

    With tensor-parallel experts their group gathers what arrived and reduce-scatters what
    leaves.

    Args:
        sent: bytes that a rank sends in the activations' format.
        setting: the run.
        read: what is sent.
        wrote: what arrives.
        inward: to the experts, or back.
    """
    narrow = _narrow(setting, sent)
    forward, backward = (narrow, sent) if inward else (sent, narrow)
    there: CollectiveKind = "all_gather" if inward else "reduce_scatter"
    back: CollectiveKind = "reduce_scatter" if inward else "all_gather"
    collectives = (
        Collective(kind="all_to_all", axis="ep", bytes=forward, phase="forward"),
        Collective(kind="all_to_all", axis="ep", bytes=backward, phase="backward"),
        Collective(kind=there, axis="etp", bytes=forward * setting.etp, phase="forward"),
        Collective(kind=back, axis="etp", bytes=backward * setting.etp, phase="backward"),
    )
    return Operation(
        name="moe.dispatch" if inward else "moe.combine",
        kind="communication",
        inputs=(read,),
        outputs=(wrote,),
        collectives=collectives,
        modules=(MODULE,),
    )


def _narrow(setting: Setting, sent: Number) -> Number:
    """Bytes of what goes to the experts: tokens forward, gradients of their outputs backward.

    In the recipe's narrow format where the stack quantises before it sends (arXiv 2412.19437,
    section 3.3.3), and else in the activations'. What comes back is not quantised.
    """
    narrow = setting.precision.quantized
    if setting.runtime.dispatch_format == "activations" or narrow is None:
        return sent
    elements = exact_div(sent, dtype(setting.format).storage(1))
    return dtype(narrow).storage(elements)

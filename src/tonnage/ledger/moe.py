"""A mixture of experts: router, dispatch, experts, combine, and the shared expert.

Names and shapes follow the token dispatcher of Megatron-Core: tokens are permuted by
expert, sent by all-to-all over the expert-parallel ranks, and come back the same way.
"""

from __future__ import annotations

from fractions import Fraction

from tonnage.algebra import Number, ceil_div, exact_div
from tonnage.arch import MoE
from tonnage.ledger.linear import Linear, Rows, linear
from tonnage.ledger.mlp import feed_forward, mlp
from tonnage.ledger.operation import Collective, Operation, Operations, Tensor
from tonnage.plan import Setting

MODULE = "moe"


def moe(setting: Setting, spec: MoE, normed: Tensor) -> tuple[Operations, Tensor]:
    """A mixture of experts from its normed input to the combined output.

    Args:
        setting: the run.
        spec: the experts and the router.
        normed: ``[shard_tokens, hidden]``.

    Returns:
        The operations, and the branch ``[shard_tokens, hidden]`` before its residual sum.
    """
    hidden = setting.architecture.hidden
    copies = routed_tokens(setting, spec)
    routing = _router(setting, spec, normed)
    arrived = Tensor(name="moe.dispatched", elements=copies * hidden, format=setting.format)
    dispatch = _exchange(setting, spec, "moe.dispatch", normed, arrived)
    rows = Rows(
        read=arrived,
        kept=arrived,
        tokens=copies,
        degree=setting.etp,
        copies=exact_div(spec.experts, setting.ep),
        group="expert",
    )
    experts, output = feed_forward(setting, spec.expert, rows, name="moe.expert", module=MODULE)
    branch = Tensor(name="moe.combined", elements=normed.elements, format=setting.format)
    combine = _exchange(setting, spec, "moe.combine", output, branch)
    shared = _shared(setting, spec, normed) if spec.shared is not None else ()
    return (*routing, dispatch, *experts, combine, *shared), branch


def routed_tokens(setting: Setting, spec: MoE) -> Number:
    """Token copies that arrive at the experts of one rank: M.

    Balanced, that is every token of the rank, ``top_k`` times (what leaves for other ranks
    is replaced by what they send); the ranks of an expert's tensor-parallel group each see
    all of the group's. A capacity factor pads to it, an imbalance multiplies it.
    """
    balanced = setting.shard_tokens * spec.top_k * setting.etp
    factor = setting.plan.moe_capacity_factor or setting.plan.moe_imbalance
    if factor == 1:
        return balanced
    ratio = Fraction(factor).limit_denominator(1000)
    return ceil_div(balanced * ratio.numerator, ratio.denominator)


def _router(setting: Setting, spec: MoE, normed: Tensor) -> Operations:
    """Scores in fp32, and the map or the indices that say which token goes where."""
    tokens = setting.shard_tokens
    gate = Linear(
        name="moe.router",
        width_in=setting.architecture.hidden,
        width_out=spec.experts,
        bias=spec.router_bias,
        modules=(MODULE,),
        narrow=False,
    )
    rows = Rows(read=normed, kept=normed, tokens=tokens, degree=1)
    scored, logits = linear(setting, gate, rows)
    scores = tokens * spec.experts
    saves: tuple[Tensor, ...]
    if setting.runtime.routing == "map":
        # Logits, scores and their sum in fp32, a boolean map, and the permutation's row map.
        saves = (
            Tensor(name="moe.router.scores", elements=3 * scores, format="fp32"),
            Tensor(name="moe.router.map", elements=scores, format="int8"),
            Tensor(name="moe.router.rows", elements=2 * scores + tokens, format="fp32"),
        )
    else:
        # Softmax or sigmoid in fp32, the chosen weights, and four int64 index tensors.
        saves = (
            Tensor(name="moe.router.scores", elements=scores, format="fp32"),
            Tensor(name="moe.router.indices", elements=9 * tokens * spec.top_k, format="fp32"),
        )
    choose = Operation(
        name="moe.router.top_k",
        kind="elementwise",
        inputs=(logits,),
        saves=saves,
        modules=(MODULE,),
    )
    return (*scored, choose)


def _exchange(setting: Setting, spec: MoE, name: str, read: Tensor, wrote: Tensor) -> Operation:
    """Permute and send tokens to their experts, or back; backward does the reverse.

    Each way carries every token ``top_k`` times over ``ep``; with tensor-parallel experts
    their group gathers what arrived and reduce-scatters what leaves.
    """
    hidden = setting.architecture.hidden
    sent = Tensor(
        name=name, elements=setting.shard_tokens * spec.top_k * hidden, format=setting.format
    )
    grouped = Tensor(name=name, elements=sent.elements * setting.etp, format=setting.format)
    inward = name == "moe.dispatch"
    collectives = [
        Collective(kind="all_to_all", axis="ep", bytes=sent.bytes, phase="forward"),
        Collective(kind="all_to_all", axis="ep", bytes=sent.bytes, phase="backward"),
        Collective(
            kind="all_gather" if inward else "reduce_scatter",
            axis="etp",
            bytes=grouped.bytes,
            phase="forward",
        ),
        Collective(
            kind="reduce_scatter" if inward else "all_gather",
            axis="etp",
            bytes=grouped.bytes,
            phase="backward",
        ),
    ]
    # Where probabilities are applied after the experts, their output is kept for the product.
    kept = () if inward or setting.runtime.routing == "map" else (read,)
    return Operation(
        name=name,
        kind="elementwise",
        inputs=(read,),
        outputs=(wrote,),
        saves=kept,
        collectives=tuple(collectives),
        modules=(MODULE,),
    )


def _shared(setting: Setting, spec: MoE, normed: Tensor) -> Operations:
    """The shared expert, tensor-parallel like a dense MLP, and the gate some put on it."""
    assert spec.shared is not None
    body, output = mlp(setting, spec.shared, normed, name="moe.shared", module=MODULE)
    if not spec.shared_gate:
        return body
    gate = Linear(
        name="moe.shared_gate",
        width_in=setting.architecture.hidden,
        width_out=1,
        modules=(MODULE,),
        narrow=False,
    )
    tokens = setting.shard_tokens
    scored, score = linear(setting, gate, Rows(read=normed, kept=normed, tokens=tokens, degree=1))
    scale = Operation(
        name="moe.shared_scale",
        kind="elementwise",
        inputs=(output, score),
        saves=(output, score),
        modules=(MODULE,),
    )
    return (*body, *scored, scale)

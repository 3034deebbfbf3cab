"""A mixture of experts: router, dispatch, experts, combine, and the shared expert.

Names and shapes follow the token dispatcher of Megatron-Core: tokens are permuted by
expert, sent by all-to-all over the expert-parallel ranks, and come back the same way.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction

from tonnage.algebra import Number, ceil_div, exact_div
from tonnage.arch import MoE, Norm
from tonnage.ledger.dispatch import MODULE, combine, dispatch, route, step, token_width
from tonnage.ledger.elementwise import norm
from tonnage.ledger.linear import Linear, Rows, linear
from tonnage.ledger.mlp import feed_forward, mlp
from tonnage.ledger.operation import (
    Operation,
    Operations,
    Tensor,
    Weight,
)
from tonnage.plan import Setting


def moe(setting: Setting, spec: MoE, normed: Tensor, stream: Tensor) -> tuple[Operations, Tensor]:
    """A mixture of experts from its normed input to the combined output.

    Args:
        setting: the run.
        spec: the experts and the router.
        normed: ``[shard_tokens, hidden]``.
        stream: the residual ``[shard_tokens, hidden]`` that ``normed`` is the norm of.

    Returns:
        The operations, and the branch ``[shard_tokens, hidden]`` before its residual sum.
    """
    copies = routed_tokens(setting, spec)
    inside = _experts_setting(setting)
    before, read = _normed(setting, spec.router_norm, "moe.router_norm", stream, normed)
    routing = (*before, *_router(setting, spec, read))
    own, read = _normed(setting, spec.input_norm, "moe.input_norm", stream, normed)
    way_there = route(inside, spec, copies)
    arrived = way_there.sorted
    rows = Rows(
        read=arrived,
        kept=arrived,
        tokens=copies,
        degree=setting.etp,
        copies=exact_div(spec.experts, setting.ep),
        group="expert",
    )
    width = token_width(setting, spec)
    experts, output = feed_forward(
        inside, spec.expert, rows, name="moe.expert", module=MODULE, width=width
    )
    pieces = setting.runtime.experts == "loop"
    if pieces:
        experts = tuple(dataclasses.replace(op, slices=rows.copies) for op in experts)
    inward, sent = _latent(setting, spec, read, "moe.latent_down")
    combined = Tensor(
        name="moe.combined", elements=setting.shard_tokens * width, format=setting.format
    )
    back = combine(setting, way_there, output, combined)
    if pieces:
        back = tuple(dataclasses.replace(op, slices=rows.copies) for op in back)
    way = (*dispatch(setting, way_there, sent), *experts, *back)
    outward, branch = _latent(setting, spec, combined, "moe.latent_up")
    after, branch = _normed(setting, spec.output_norm, "moe.output_norm", branch, branch)
    shared, branch = _add_shared(setting, spec, normed, branch)
    return (*routing, *own, *inward, *way, *outward, *after, *shared), branch


def _normed(
    setting: Setting, rule: Norm | None, name: str, read: Tensor, otherwise: Tensor
) -> tuple[Operations, Tensor]:
    """The norm of a tensor; another tensor where there is no such norm."""
    if rule is None:
        return (), otherwise
    width = setting.architecture.hidden
    return norm(setting, rule, name=name, read=read, width=width, modules=(MODULE,))


def _experts_setting(setting: Setting) -> Setting:
    """The setting of the experts' products.

    torch.autocast does not know the grouped product, so experts read and write the format
    of their weights, and cast nothing.
    """
    if not (setting.casts and setting.runtime.routing == "index"):
        return setting
    stored = setting.precision.weights
    uncast = dataclasses.replace(setting.precision, compute=stored, activations=stored)
    return dataclasses.replace(setting, precision=uncast)


def _latent(setting: Setting, spec: MoE, read: Tensor, name: str) -> tuple[Operations, Tensor]:
    """The projection to the experts' latent or back, which every rank does for its tokens."""
    if spec.latent is None:
        return (), read
    widths = (setting.architecture.hidden, spec.latent)
    wide_in, wide_out = widths if name == "moe.latent_down" else widths[::-1]
    part = Linear(
        name=name,
        width_in=wide_in,
        width_out=wide_out,
        bias=spec.latent_bias,
        target="latent_proj",
        modules=(MODULE,),
    )
    return linear(setting, part, Rows(read=read, kept=read, tokens=setting.shard_tokens, degree=1))


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
    wide = spec.router_fp32 and setting.runtime.routing == "index"
    copied = wide and not setting.casts and normed.format != "fp32"
    kept = normed.cast("moe.router.input_fp32", "fp32") if copied else normed
    rows = Rows(read=normed, kept=kept, tokens=tokens, degree=1)
    scored, logits = linear(setting, gate, rows)
    if wide:
        scored = tuple(_in_fp32(setting, operation) for operation in scored)
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
        saves = _indexed(setting, spec, "fp32" if not (wide and setting.casts) else setting.format)
    factors = Weight(
        name="moe.router.expert_scale",
        shape=(spec.experts,),
        trains=setting.trains_base,
    )
    choose = Operation(
        name="moe.router.top_k",
        kind="elementwise",
        inputs=(logits,),
        weights=(factors,) if spec.expert_scale else (),
        saves=saves,
        modules=(MODULE,),
    )
    return (*scored, choose)


def _indexed(setting: Setting, spec: MoE, scores_format: str) -> tuple[Tensor, ...]:
    """What a router that hands out indices keeps.

    The scores; the chosen ones as they are picked and as they are sorted, and their sum, all
    in the scores' format: fp32, unless autocast made the product narrow and nobody asked for
    more. Four int64 indices a copy, and where each expert's rows end.
    """
    copies = setting.shard_tokens * spec.top_k
    chosen = 2 * copies + setting.shard_tokens
    return (
        Tensor(
            name="moe.router.scores",
            elements=setting.shard_tokens * spec.experts + chosen,
            format=scores_format,
        ),
        Tensor(name="moe.router.indices", elements=8 * copies, format="fp32"),
        Tensor(name="moe.router.ends", elements=spec.experts, format="fp32"),
    )


def _in_fp32(setting: Setting, operation: Operation) -> Operation:
    """A product in fp32, whose weight is widened again where an engine hands it out narrow."""
    weights = tuple(dataclasses.replace(weight, format="fp32") for weight in operation.weights)
    saves = operation.saves
    if setting.gathers and setting.precision.compute != "fp32" and weights:
        elements = weights[0].numel
        saves = (*saves, Tensor(name="moe.router.weight_fp32", elements=elements, format="fp32"))
    return dataclasses.replace(operation, weights=weights, saves=saves)


def _add_shared(
    setting: Setting, spec: MoE, normed: Tensor, branch: Tensor
) -> tuple[Operations, Tensor]:
    """The shared expert's output beside the routed ones'."""
    if spec.shared is None:
        return (), branch
    body, output = _shared(setting, spec, normed)
    both = branch.cast("moe.output", branch.format)
    add = Operation(
        name="moe.add_shared",
        kind="elementwise",
        inputs=(branch, output),
        outputs=(both,),
        modules=(MODULE,),
        passes_gradient=True,
    )
    return (*body, add), both


def _shared(setting: Setting, spec: MoE, normed: Tensor) -> tuple[Operations, Tensor]:
    """The shared expert, tensor-parallel like a dense MLP, and the gate some put on it."""
    assert spec.shared is not None
    body, output = mlp(setting, spec.shared, normed, name="moe.shared", module=MODULE)
    after, output = _normed(setting, spec.shared_output_norm, "moe.shared_norm", output, output)
    body = (*body, *after)
    if not spec.shared_gate:
        return body, output
    gate = Linear(
        name="moe.shared_gate",
        width_in=setting.architecture.hidden,
        width_out=1,
        modules=(MODULE,),
        narrow=False,
    )
    tokens = setting.shard_tokens
    scored, score = linear(setting, gate, Rows(read=normed, kept=normed, tokens=tokens, degree=1))
    scaled = output.cast("moe.shared_scaled", output.format)
    scale = step("moe.shared_scale", (output, score), (scaled,), saves=(output, score))
    return (*body, *scored, scale), scaled

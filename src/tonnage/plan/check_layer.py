"""What one layer makes impossible: degrees that do not divide its heads, widths and experts."""

from __future__ import annotations

import typing
from typing import Final

from tonnage.arch import (
    MLP,
    Architecture,
    Attention,
    CompressedAttention,
    FeedForward,
    GatedDelta,
    LatentAttention,
    Layer,
    LightningAttention,
    Mamba,
    Mamba2,
    Mixer,
    Recurrent,
    ShortConvolution,
)
from tonnage.errors import InputError, NotModelledError
from tonnage.plan.layout import divisors_text
from tonnage.plan.plan import Plan
from tonnage.runtime import Runtime

TP_SPLITS: Final[dict[type, tuple[tuple[str, str], ...]]] = {
    Attention: (("heads", "attention heads"), ("kv_heads", "key-value heads")),
    CompressedAttention: (("output_groups", "groups of attention heads"),),
    LatentAttention: (("heads", "attention heads"),),
    GatedDelta: (("key_heads", "key heads"), ("value_heads", "value heads")),
    LightningAttention: (("heads", "attention heads"),),
    Mamba: (("inner", "channels of Mamba"),),
    Mamba2: (("groups", "groups of Mamba-2"), ("heads", "heads of Mamba-2")),
    ShortConvolution: (("channels", "channels of the convolution"),),
}
"""What tensor parallelism splits of each mixer: the field, and its name in an error."""


def check_layer(plan: Plan, layer: Layer) -> None:
    """Check the degrees of a plan against one kind of layer.

    Raises:
        InputError: a degree does not divide what it splits.
        NotModelledError: the combination makes sense and is not accounted for.
    """
    if layer.mixer is not None:
        _check_mixer(plan, layer.mixer)
    if plan.pp > 1:
        _check_stages(plan, layer)
    if layer.mlp is not None:
        _check_mlp(plan, layer.mlp)
        _check_stored(plan, layer.mlp)


def _check_mixer(plan: Plan, mixer: Mixer) -> None:
    for field, what in TP_SPLITS.get(type(mixer), ()):
        _check_divides("tp", plan.tp, getattr(mixer, field), what)
    if plan.cp == 1:
        return
    if plan.cp_comm == "a2a":
        _check_exchange(plan, mixer)
    if isinstance(mixer, Attention | CompressedAttention | LatentAttention) and mixer.is_local:
        _refuse_cp(plan, "attention that sees only some positions")
    if isinstance(mixer, typing.get_args(Recurrent)):
        _refuse_cp(plan, "recurrent mixers, whose state would pass from rank to rank")


def _check_exchange(plan: Plan, mixer: Mixer) -> None:
    """Heads are given away for positions: each rank of the group is left with whole ones."""
    for field, what in TP_SPLITS.get(type(mixer), ()):
        local = getattr(mixer, field) // plan.tp
        if local % plan.cp:
            raise InputError(
                field="cp",
                value=plan.cp,
                problem=f"does not divide the {local} {what} of a rank, which a2a exchanges",
                accepted=divisors_text(local),
                hint="--cp-comm p2p or allgather",
            )


def _check_stages(plan: Plan, layer: Layer) -> None:
    """Refuse what would have to pass from stage to stage beside the residual stream."""
    beside = ""
    if isinstance(layer.mixer, Attention) and layer.mixer.shares_kv:
        beside = "keys and values that several layers share"
    elif layer.per_layer_input is not None:
        beside = "an input of its own for each layer"
    if beside:
        raise NotModelledError(
            field="pp",
            value=plan.pp,
            problem=f"is not modelled together with {beside}",
            accepted="1",
        )


def _refuse_cp(plan: Plan, what: str) -> None:
    raise NotModelledError(
        field="cp", value=plan.cp, problem=f"is not modelled together with {what}", accepted="1"
    )


def _check_mlp(plan: Plan, mlp: FeedForward) -> None:
    if isinstance(mlp, MLP):
        _check_divides("tp", plan.tp, mlp.intermediate, "units of the MLP")
        return
    _check_divides("ep", plan.ep, mlp.experts, "experts")
    _check_divides("etp", plan.etp, mlp.expert.intermediate, "units of an expert")
    if mlp.shared is not None:
        _check_divides("tp", plan.tp, mlp.shared.intermediate, "units of the shared expert")
    if plan.tp > 1 and not plan.sp:
        raise InputError(
            field="sp",
            value=False,
            problem="cannot be off with experts and tp > 1",
            accepted="true",
            hint="Megatron asks for --sequence-parallel here",
        )


def _check_stored(plan: Plan, mlp: FeedForward) -> None:
    """Megatron-Core keeps an activation's input in FP8 for SwiGLU alone."""
    parts = (mlp,) if isinstance(mlp, MLP) else (mlp.expert, *((mlp.shared,) if mlp.shared else ()))
    for part in parts:
        if plan.activation_func_fp8_input_store and not _is_swiglu(part):
            raise InputError(
                field="activation_func_fp8_input_store",
                value=True,
                problem=f"is for SwiGLU, and the activation here is {part.activation}"
                + ("" if part.gated else ", without a gate"),
                accepted="false",
            )


def _is_swiglu(part: MLP) -> bool:
    return part.gated and part.activation in ("silu", "swish", "swiglu")


def check_activation(plan: Plan, runtime: Runtime) -> None:
    """What an activation reads is kept in FP8 where the stack can do that.

    Raises:
        InputError: it cannot.
    """
    if plan.activation_func_fp8_input_store and not runtime.narrow_activation:
        raise InputError(
            field="activation_func_fp8_input_store",
            value=True,
            problem=f"is not something that {runtime.name} has",
            accepted="false",
            hint="--runtime megatron or hai-llm",
        )


def check_predictors(plan: Plan, architecture: Architecture, runtime: Runtime) -> None:
    """Predictors of further tokens train where the stack has them.

    Raises:
        InputError: it has none, or the number is none.
        NotModelledError: their input would be several streams.
    """
    if plan.mtp and not runtime.trains_predictors:
        raise InputError(
            field="mtp",
            value=plan.mtp,
            problem=f"is not something that {runtime.name} trains",
            accepted="0",
            hint="--runtime megatron or mindspeed",
        )
    if plan.mtp and architecture.streams:
        raise NotModelledError(
            field="mtp",
            value=plan.mtp,
            problem="is not modelled together with hyper-connections",
            accepted="0",
        )


def _check_divides(field: str, degree: int | None, number: int, what: str) -> None:
    if degree and number % degree:
        raise InputError(
            field=field,
            value=degree,
            problem=f"does not divide the {number} {what}",
            accepted=divisors_text(number, limit=max(8 * degree, 64)),
        )

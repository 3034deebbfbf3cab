"""What stays from step to step: parameters, master weights, gradients, optimizer states."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.algebra import Number, ceil_div, total
from tonnage.dtype import dtype
from tonnage.ledger import StageLedger, Weight
from tonnage.ledger.optimizer import state_bytes
from tonnage.ledger.piece import Pieces, Size, sum_of, weight_sums
from tonnage.ledger.quantized import stored
from tonnage.plan import Setting


@dataclass(frozen=True, kw_only=True)
class States:
    """Bytes of one stage on one rank, after ZeRO has sharded them."""

    parameters: Number
    master_weights: Number
    gradients: Number
    optimizer_states: Number


def states(setting: Setting, ledger: StageLedger) -> States:
    """The states of a stage on the device; none where they are held in host memory.

    ZeRO shards the optimizer's part from stage 1, gradients from 2 and parameters from 3
    (Rajbhandari et al., arXiv 1910.02054, section 5); `fully_shard` always shards the
    parameters it stores, and at stage 2 merely keeps them gathered as well.
    """
    if setting.plan.offload_parameters:
        return States(parameters=0, master_weights=0, gradients=0, optimizer_states=0)
    pieces = ledger.pieces()
    beside = total(count * sum_of(setting, piece, _beside) for piece, count in pieces)
    stored = sharded(setting, pieces, parameter_bytes, setting.gathers)
    master = sharded(setting, pieces, master_bytes, setting.zero >= 1)
    moments = sharded(setting, pieces, state_bytes, setting.zero >= 1)
    return States(
        parameters=beside + stored + reference_bytes(setting, pieces),
        master_weights=device_share(setting, master),
        gradients=gradients(setting, pieces),
        optimizer_states=device_share(setting, moments),
    )


def device_share(setting: Setting, size: Number) -> Number:
    """The part of the optimizer's states that is not held in host memory."""
    kept = 1000 - round(1000 * setting.plan.offload_optimizer)
    return size if kept == 1000 else size * kept // 1000


def reference_bytes(setting: Setting, pieces: Pieces) -> Number:
    """A frozen copy of all weights, in the recipe's format and sharded as they are.

    Adapters need none: without them their base is the reference.
    """
    if not setting.plan.reference_model or not setting.trains_base:
        return 0
    return sharded(setting, pieces, _plain_bytes, setting.gathers)


def _plain_bytes(setting: Setting, weight: Weight) -> Number:
    return dtype(setting.precision.weights).storage(weight.numel)


def gradients(setting: Setting, pieces: Pieces) -> Number:
    """Gradients of some pieces' weights once they are reduced."""
    if setting.plan.optimizer_in_backward or setting.plan.offload_parameters:
        return 0
    if setting.plan.offload_optimizer and _gathers_on_host(setting):
        return 0
    return sharded(setting, pieces, gradient_bytes, setting.zero >= 2)


def _gathers_on_host(setting: Setting) -> bool:
    """Whether reduced gradients leave for the host (ZeRO-Offload, arXiv 2101.06840)."""
    return setting.runtime.sharding == "partitioned" and setting.zero >= 2


def gradient_bytes(setting: Setting, weight: Weight) -> Number:
    """The gradient of one weight that the optimizer reads, with its accumulation buffer."""
    if not weight.trains:
        return 0
    recipe = setting.precision
    own = copies(setting, weight) * dtype(weight.format or recipe.gradients).storage(weight.numel)
    more = recipe.accumulation is not None and weight.format is None
    return own + dtype(recipe.accumulation or "fp32").storage(weight.numel) if more else own


def passing_gradients(setting: Setting, ledger: StageLedger) -> Number:
    """Gradients that are added to an accumulation buffer at the end of a backward pass.

    They are among a stage's gradients, but not there in between.
    """
    recipe = setting.precision
    passes = setting.runtime.gradient_buffer == "persistent" and recipe.accumulation is not None
    if not passes or setting.plan.optimizer_in_backward or setting.plan.offload_parameters:
        return 0
    return sharded(setting, ledger.pieces(), _handed, setting.zero >= 2)


def _handed(setting: Setting, weight: Weight) -> Number:
    """The gradient of one weight that is added to an accumulation buffer."""
    if not weight.trains or weight.format is not None:
        return 0
    return copies(setting, weight) * dtype(setting.precision.gradients).storage(weight.numel)


def copies(setting: Setting, weight: Weight) -> int:
    """How often a weight and its gradient are there.

    Twice for adapters that an engine leaves on every rank (fms-acceleration over FSDP1; seen in
    measured memory at rest and at the end of backward, its cause is not known).
    """
    apart = weight.adapter and setting.runtime.adapter_sharding == "replicated"
    return 2 if apart and setting.gathers else 1


def master_bytes(setting: Setting, weight: Weight) -> Number:
    """The full-precision copy of one weight; one stored in a format of its own has none."""
    master = setting.precision.master
    if master is None or not weight.trains or weight.format is not None:
        return 0
    return dtype(master).storage(weight.numel)


def sharded(setting: Setting, pieces: Pieces, size: Size, sharded: bool) -> Number:
    """The sum of a size over weights, dense and expert ones each over their own shards."""
    sums: dict[str, Number] = {"dense": 0, "expert": 0, "whole": 0}
    replicated = setting.runtime.adapter_sharding == "replicated"
    for piece, count in pieces:
        for (owner, adapter), whole in weight_sums(setting, piece, size).items():
            group = "whole" if adapter and replicated else owner
            sums[group] = sums[group] + count * whole
    if not sharded:
        return total(sums.values())
    dense = ceil_div(sums["dense"], setting.shard)
    return dense + ceil_div(sums["expert"], setting.expert_shard) + sums["whole"]


def parameter_bytes(setting: Setting, weight: Weight) -> Number:
    """Storage of one weight, with the narrow copies that FP8 and FP4 recipes keep of it.

    A narrow recipe caches the quantised weight and, for devices whose narrow products read
    both operands by rows, its transpose over the micro-batches (Transformer Engine); with
    ``fp8_param_gather`` there is no wide weight beside them. A frozen base may be stored in 4 or
    8 bits (QLoRA).
    """
    recipe, base = setting.precision, setting.plan.lora_base
    if base is not None and weight.base and not weight.trains:
        return stored(base, weight).packed
    wide = dtype(weight.format or recipe.weights).storage(weight.numel)
    stored_bytes = copies(setting, weight) * wide
    if recipe.quantized and weight.narrow and not recipe.dynamic:
        kept = 2 if setting.runtime.weight_transposes else 1
        narrow = kept * dtype(recipe.quantized).storage(weight.numel)
        return narrow if setting.plan.fp8_param_gather else stored_bytes + narrow
    return stored_bytes


def _beside(setting: Setting, weight: Weight) -> Number:
    """Scales and indices of a quantised base weight, which every rank keeps whole."""
    base = setting.plan.lora_base
    if base is None or not weight.base or weight.trains:
        return 0
    return stored(base, weight).beside

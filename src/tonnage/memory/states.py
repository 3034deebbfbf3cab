"""What stays from step to step: parameters, master weights, gradients, optimizer states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tonnage.algebra import Number, ceil_div
from tonnage.dtype import dtype
from tonnage.ledger import StageLedger, Weight
from tonnage.ledger.optimizer import state_bytes
from tonnage.plan import Setting


@dataclass(frozen=True, kw_only=True)
class States:
    """Bytes of one stage on one rank, after ZeRO has sharded them."""

    parameters: Number
    master_weights: Number
    gradients: Number
    optimizer_states: Number


def states(setting: Setting, ledger: StageLedger) -> States:
    """The states of a stage.

    ZeRO shards the optimizer's part from stage 1, gradients from 2 and parameters from 3
    (Rajbhandari et al., arXiv 1910.02054, section 5); `fully_shard` always shards the
    parameters it stores, and at stage 2 merely keeps them gathered as well.
    """
    weights = ledger.weights()
    stored = setting.zero == 3 or (
        setting.zero == 2 and setting.runtime.sharding == "fully-sharded"
    )
    recipe = setting.precision
    accumulation = dtype(recipe.accumulation).bytes if recipe.accumulation else 0
    master = dtype(recipe.master).bytes if recipe.master else 0

    def trained(each: Number) -> Callable[[Weight], Number]:
        return lambda weight: weight.numel * each if weight.trains else 0

    def gradient(weight: Weight) -> Number:
        # What is accumulated elsewhere comes from autograd in the weight's own format.
        handed = recipe.weights if recipe.accumulation else recipe.gradients
        return trained(dtype(weight.format or handed).bytes + accumulation)(weight)

    return States(
        parameters=sharded(setting, weights, lambda w: parameter_bytes(setting, w), stored),
        master_weights=sharded(setting, weights, trained(master), setting.zero >= 1),
        gradients=sharded(setting, weights, gradient, setting.zero >= 2),
        optimizer_states=sharded(
            setting, weights, lambda w: state_bytes(setting, w), setting.zero >= 1
        ),
    )


def passing_gradients(setting: Setting, ledger: StageLedger) -> Number:
    """Gradients that are added to an accumulation buffer at the end of a backward pass.

    They are among a stage's gradients, but not there in between.
    """
    recipe = setting.precision
    if not recipe.accumulation:
        return 0

    def handed(weight: Weight) -> Number:
        each = dtype(weight.format or recipe.weights).bytes
        return weight.numel * each if weight.trains else 0

    return sharded(setting, ledger.weights(), handed, setting.zero >= 2)


def sharded(
    setting: Setting,
    weights: list[tuple[Weight, int]],
    size: Callable[[Weight], Number],
    sharded: bool,
) -> Number:
    """The sum of a size over weights, dense and expert ones each over their own shards."""
    sums: dict[str, Number] = {"dense": 0, "expert": 0}
    for weight, count in weights:
        sums[weight.group] = sums[weight.group] + count * size(weight)
    if not sharded:
        return sums["dense"] + sums["expert"]
    return ceil_div(sums["dense"], setting.shard) + ceil_div(sums["expert"], setting.expert_shard)


def parameter_bytes(setting: Setting, weight: Weight) -> Number:
    """Storage of one weight, with the narrow copies that FP8 and FP4 recipes keep of it.

    A narrow recipe caches the quantised weight and its transpose over the micro-batches
    (Transformer Engine). A frozen base may be stored in 4 or 8 bits (QLoRA).
    """
    recipe, base = setting.precision, setting.plan.lora_base
    if base is not None and weight.base and not weight.trains:
        return dtype(base).storage(weight.numel)
    stored = dtype(weight.format or recipe.weights).storage(weight.numel)
    if recipe.quantized and weight.narrow:
        stored = stored + 2 * dtype(recipe.quantized).storage(weight.numel)
    return stored

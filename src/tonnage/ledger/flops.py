"""FLOPs of the model, per token and per step.

Model FLOPs are what forward and backward need (2 per multiply-add, matrix products and
attention; norms and activations are left out, as in every published count). Hardware
FLOPs add what activation recomputation repeats. What flash attention's backward kernel
recomputes inside itself counts as neither.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from tonnage.algebra import Number, total
from tonnage.arch import Layer
from tonnage.errors import NotModelledError
from tonnage.ledger.frozen import reaches_layers
from tonnage.ledger.layer import recomputed_flops
from tonnage.ledger.model import stage_ledgers, whole, whole_stage
from tonnage.ledger.mtp import predictors_flops
from tonnage.ledger.operation import Operations, forward_flops
from tonnage.plan import Plan, Setting, Stage


@dataclass(frozen=True, kw_only=True)
class ModelFlops:
    """FLOPs of one sequence, forward and backward, over the whole model."""

    model: Number
    hardware: Number


def sequence_flops(setting: Setting, stages: tuple[Stage, ...], *, causal: bool) -> ModelFlops:
    """FLOPs that one sequence costs.

    Args:
        setting: the run; its sequence length, adapters and recomputation are read.
        stages: the pipeline's layout, which decides what a block of recomputed layers is.
        causal: count the lower half of attention, or the whole square.
    """
    # What a token needs does not depend on where its experts are or how full they are.
    balanced = dataclasses.replace(setting.plan, moe_imbalance=1.0, moe_capacity_factor=None)
    if setting.architecture.only_counted:
        raise NotModelledError(
            field="MODEL",
            value=setting.architecture.name,
            problem=f"is {setting.architecture.only_counted}: its parameters are counted, "
            "and a run of it is not modelled",
            accepted="a model of one sequence of tokens",
        )
    alone = dataclasses.replace(
        whole(setting.architecture, balanced, seq=setting.seq), causal=causal
    )
    (ledger,) = stage_ledgers(alone, (whole_stage(setting.architecture),))
    counts = setting.architecture.kinds()
    again = layers_recomputed(setting, stages) if reaches_layers(setting) else {}
    model: Number = 0
    extra: Number = 0
    for layer, operations in ledger.layers.items():
        backward = total(op.flops_backward for op in operations)
        model = model + counts[layer] * (forward_flops(operations) + backward)
        extra = extra + counts[layer] * recomputed_flops(setting, operations)
        if layer in again:
            extra = extra + again[layer] * forward_flops(run_again(setting, operations))
    ends = (*ledger.embedding, *ledger.head)
    model = model + total(op.flops + op.flops_backward for op in ends)
    if setting.plan.reference_model:
        extra = extra + total(
            forward_flops(ops) * counts[layer] for layer, ops in ledger.layers.items()
        )
        extra = extra + forward_flops(ends)
    model = model + predictors_flops(ledger.predictors)
    return ModelFlops(model=model, hardware=model + extra)


def run_again(setting: Setting, operations: Operations) -> Operations:
    """What full recomputation of a layer runs.

    One that stops early ends as soon as the last tensor is back that backward needs: what
    comes after is not run, nor is a last product, which needs its input alone.
    """
    if setting.runtime.recompute_ends != "early":
        return operations
    needed = max(index for index, operation in enumerate(operations) if operation.saves)
    return operations[:needed]


def layers_recomputed(setting: Setting, stages: tuple[Stage, ...]) -> dict[Layer, int]:
    """How many layers of each kind full recomputation runs forward again."""
    counts: dict[Layer, int] = {}
    if "every-second-layer" in setting.plan.recompute_modules:
        for stage in stages:
            for layer in stage.layers[1::2]:
                counts[layer] = counts.get(layer, 0) + 1
        return counts
    if setting.plan.recompute != "full":
        return counts
    for stage in stages:
        for index, chunk in enumerate(stage.chunks):
            for layer in chunk[: block_length(setting.plan, index, len(chunk))]:
                counts[layer] = counts.get(layer, 0) + 1
    return counts


def block_length(plan: Plan, chunk: int, layers: int) -> int:
    """Layers of a chunk that full recomputation reaches: the first ones of a block, or all.

    Counted over a stage, they are dealt out to its chunks in turn.

    Args:
        plan: recomputation and vpp.
        chunk: position of the chunk in its stage.
        layers: layers of the chunk.
    """
    if plan.recompute_method != "block":
        return layers
    reach = plan.recompute_num_layers
    if plan.recompute_per_stage:
        reach = max(0, -((chunk - reach) // plan.vpp))
    return min(reach, layers)

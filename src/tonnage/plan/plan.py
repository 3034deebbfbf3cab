"""How a model is run: everything that a launch line decides.

A `Plan` as a person writes it may leave fields at None; `tonnage.plan.resolve` checks it
against the architecture and the cluster, fills the blanks and says what it filled in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Schedule: TypeAlias = Literal[
    "1f1b", "gpipe", "interleaved", "zero-bubble", "dualpipe", "dualpipev"
]
Recompute: TypeAlias = Literal["none", "selective", "full"]
RecomputeMethod: TypeAlias = Literal["uniform", "block"]
RecomputeModule: TypeAlias = Literal["core_attn", "mlp", "moe", "layernorm", "activation"]
AttentionKernel: TypeAlias = Literal["flash", "eager"]
OptimizerStep: TypeAlias = Literal["foreach", "fused"]
Dispatcher: TypeAlias = Literal["alltoall", "allgather", "deepep"]
LoraTarget: TypeAlias = Literal[
    "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "all"
]
QuantizedBase: TypeAlias = Literal["nf4", "int8"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a launch line decides.

    Attributes:
        runtime: the software stack, by name.
        habits: habits of the runtime that this plan overrides, as (name, value).
        tp: tensor-parallel size.
        sp: Megatron's sequence parallelism; None: with tp > 1.
        pp: pipeline stages.
        vpp: virtual stages (model chunks) per pipeline stage.
        cp: context-parallel size.
        ep: expert-parallel size.
        etp: tensor-parallel size inside an expert; None: tp, and 1 without experts.
        dp: data-parallel size, without cp; None: what the other degrees leave.
        schedule: pipeline schedule; None: 1f1b, interleaved with vpp > 1.
        first_stage_layers: decoder layers of the first stage; None: an even share.
        last_stage_layers: decoder layers of the last stage; None: an even share.
        account_for_embedding: the embedding takes one layer's place in the split.
        account_for_loss: the head and loss take one layer's place in the split.
        zero: ZeRO stage 0 to 3 (arXiv 1910.02054); None: the runtime's habit.
        hsdp_shard: ranks that a parameter is sharded over, replicated beyond (HSDP).
        mbs: sequences in a micro-batch.
        gbs: sequences in a step over all ranks; None: from grad_acc.
        grad_acc: micro-batches in a step on one rank; None: from gbs.
        seq: tokens in a sequence.
        precision: recipe by name; None: the runtime's habit.
        weights_dtype: overrides one role of the recipe, as do the next five.
        gradients_dtype: see `tonnage.plan.precision.Precision`.
        reduction_dtype: see there.
        master_dtype: see there; ``none`` for no master copy.
        moments_dtype: see there.
        optimizer: the optimizer by name.
        optimizer_step: its implementation; None: the runtime's habit.
        recompute: granularity of activation recomputation.
        recompute_method: full: ``uniform`` groups of layers, or the first layers of a
            ``block``.
        recompute_num_layers: uniform: layers in a group, 0 for the square root of the layers
            of a stage (Chen et al., arXiv 1604.06174); block: layers recomputed.
        recompute_modules: selective: which parts of a layer are recomputed.
        attention: attention kernel: ``flash`` keeps no score matrix.
        attention_version: generation of the flash kernel; None: the device's usual one.
        loss: how the cross-entropy is computed; None: the runtime's habit.
        compile: torch.compile.
        cuda_graphs: captured CUDA graphs.
        overlap_grad_reduce: None: the runtime's habit.
        overlap_param_gather: None: the runtime's habit.
        tp_comm_overlap: tensor-parallel communication split into GEMM-sized pieces.
        offload_optimizer: share of the optimizer states held in host memory.
        offload_parameters: parameters held in host memory.
        offload_activations: saved activations held in host memory.
        moe_dispatcher: how tokens reach their experts.
        moe_capacity_factor: expert capacity over a balanced share (GShard); None: dropless.
        moe_imbalance: tokens at the busiest rank over a balanced share.
        mtp: multi-token-prediction layers trained.
        lora_rank: rank of LoRA adapters (arXiv 2106.09685); None: every weight trains.
        lora_targets: the linear layers that get an adapter.
        lora_base: format of the frozen base's linear weights (QLoRA, arXiv 2305.14314);
            None: the recipe's weights.
        freeze: parts that do not train.
        packing: packed sequences with document masks.
        iteration: the first step (no optimizer states before it) or a later one.
    """

    runtime: str = "megatron"
    habits: tuple[tuple[str, str], ...] = ()
    tp: int = 1
    sp: bool | None = None
    pp: int = 1
    vpp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int | None = None
    dp: int | None = None
    schedule: Schedule | None = None
    first_stage_layers: int | None = None
    last_stage_layers: int | None = None
    account_for_embedding: bool = False
    account_for_loss: bool = False
    zero: int | None = None
    hsdp_shard: int | None = None
    mbs: int = 1
    gbs: int | None = None
    grad_acc: int | None = None
    seq: int | None = None
    precision: str | None = None
    weights_dtype: str | None = None
    gradients_dtype: str | None = None
    reduction_dtype: str | None = None
    master_dtype: str | None = None
    moments_dtype: str | None = None
    optimizer: str = "adamw"
    optimizer_step: OptimizerStep | None = None
    recompute: Recompute = "none"
    recompute_method: RecomputeMethod = "uniform"
    recompute_num_layers: int = 1
    recompute_modules: tuple[RecomputeModule, ...] = ("core_attn",)
    attention: AttentionKernel = "flash"
    attention_version: int | None = None
    loss: str | None = None
    compile: bool = False
    cuda_graphs: bool = False
    overlap_grad_reduce: bool | None = None
    overlap_param_gather: bool | None = None
    tp_comm_overlap: bool = False
    offload_optimizer: float = 0.0
    offload_parameters: bool = False
    offload_activations: bool = False
    moe_dispatcher: Dispatcher = "alltoall"
    moe_capacity_factor: float | None = None
    moe_imbalance: float = 1.0
    mtp: int = 0
    lora_rank: int | None = None
    lora_targets: tuple[LoraTarget, ...] = ("all",)
    lora_base: QuantizedBase | None = None
    freeze: tuple[str, ...] = ()
    packing: bool = False
    iteration: Literal["first", "steady"] = "steady"

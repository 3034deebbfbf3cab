"""How a model is run: everything that a launch line decides.

A `Plan` as a person writes it may leave fields at None; `tonnage.plan.resolve` checks it
against the architecture and the cluster, fills the blanks and says what it filled in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tonnage.runtime import OFFLOADS, CpComm

Schedule: TypeAlias = Literal[
    "1f1b", "gpipe", "interleaved", "zero-bubble", "zbv", "dualpipe", "dualpipev"
]
Recompute: TypeAlias = Literal["none", "selective", "full"]
RecomputeMethod: TypeAlias = Literal["uniform", "block"]
RecomputeModule: TypeAlias = Literal[
    "core_attn",
    "mlp",
    "moe",
    "moe_act",
    "mla_up_proj",
    "layernorm",
    "activation",
    "outputs",
    "every-second-layer",
]
AttentionKernel: TypeAlias = Literal["flash", "eager"]
OptimizerStep: TypeAlias = Literal["foreach", "fused"]
Dispatcher: TypeAlias = Literal["alltoall", "allgather", "deepep"]
LoraTarget: TypeAlias = Literal[
    "q_proj",
    "k_proj",
    "v_proj",
    "qkv_proj",
    "o_proj",
    "gate_proj",
    "up_proj",
    "down_proj",
    "lm_head",
    "all",
]
QuantizedBase: TypeAlias = Literal["nf4", "nf4-dq", "int8", "gptq4", "gptq4-g128"]
FrozenPart: TypeAlias = Literal[
    "embedding",
    "layers",
    "attention",
    "mlp",
    "experts",
    "router",
    "norms",
    "connections",
    "head",
    "vision",
]
SavedModule: TypeAlias = Literal["embedding", "head"]


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
        schedule: pipeline schedule (`tonnage.plan.schedule`); None: 1f1b, interleaved with
            vpp > 1.
        microbatch_group: micro-batches that go through one chunk in turn before the next, under
            interleaving; None: pp.
        first_stage_layers: decoder layers of the first stage; None: an even share.
        last_stage_layers: decoder layers of the last stage; None: an even share.
        account_for_embedding: the embedding takes one layer's place in the split.
        account_for_loss: the head and loss take one layer's place in the split.
        pipeline_layout: layers of each chunk as Megatron writes them (``Et*4|(t*4|)*14tL``),
            over all of the four fields before it; None: an even split.
        zero: ZeRO stage 0 to 3 (arXiv 1910.02054); None: the runtime's habit.
        hsdp_shard: ranks that a parameter is sharded over, replicated beyond (HSDP).
        mbs: sequences in a micro-batch.
        gbs: sequences in a step over all ranks; None: from grad_acc.
        grad_acc: micro-batches in a step on one rank; None: from gbs.
        seq: tokens in a sequence; None: 4096, or the model's context where that is shorter.
        precision: recipe by name; None: the runtime's habit.
        weights_dtype: format of the stored weights, over the recipe's.
        gradients_dtype: format of the gradients that live to the step, over the recipe's.
        reduction_dtype: format of the gradients on the wire, over the recipe's.
        master_dtype: format of the optimizer's copy of the weights, over the recipe's;
            ``none`` for no copy.
        moments_dtype: format of the optimizer's moments, over the recipe's.
        fp8_param_gather: linear weights of an FP8 or FP4 recipe are stored, and gathered, in its
            narrow format alone.
        optimizer: the optimizer by name.
        optimizer_step: its implementation; None: the runtime's habit.
        optimizer_in_backward: each weight is stepped as soon as its gradient is there, which is
            then freed.
        recompute: granularity of activation recomputation.
        recompute_method: full: ``uniform`` groups of layers, or the first layers of a
            ``block``.
        recompute_num_layers: uniform: layers in a group, 0 for the square root of the layers
            of a stage (Chen et al., arXiv 1604.06174); block: layers recomputed.
        recompute_modules: selective: which parts of a layer are recomputed.
        recompute_per_stage: block: the layers are counted over a stage, the first of each chunk
            before the second of any, and not over each chunk (MindSpeed's
            ``--enable-recompute-layers-per-pp-rank``).
        cp_comm: how context-parallel ranks share keys and values: ``p2p`` in a ring
            (arXiv 2310.01889), ``a2a`` by exchanging heads for positions (Ulysses,
            arXiv 2309.14509), or ``allgather`` of all of them (arXiv 2407.21783, section
            3.3.2); None: the runtime's habit.
        activation_func_fp8_input_store: what SwiGLU reads is kept for backward in FP8 (E4M3), and
            widened again there; its output is computed in full.
        attention: attention kernel: ``flash`` keeps no score matrix.
        attention_version: generation of the flash kernel; None: the device's usual one.
        loss: how the cross-entropy is computed; None: the runtime's habit.
        wgrad_deferral_limit: micro-batches whose head waits for its weight's gradient until the
            pipeline drains (``--defer-embedding-wgrad-compute``), 0 for all; None: none waits.
        compile: torch.compile.
        cuda_graphs: captured CUDA graphs.
        overlap_grad_reduce: gradients are reduced while backward runs; None: the runtime's
            habit.
        overlap_param_gather: sharded parameters are gathered while forward runs; None: the
            runtime's habit.
        tp_comm_overlap: tensor-parallel communication split into GEMM-sized pieces.
        offload_optimizer: share of the optimizer states held in host memory.
        offload_parameters: what a sharding engine shards (parameters, gradients and optimizer
            states) is held and stepped in host memory.
        offload_activations: saved activations held in host memory.
        moe_dispatcher: how tokens reach their experts.
        moe_capacity_factor: expert capacity over a balanced share (GShard); None: dropless.
        moe_imbalance: tokens at the busiest rank over a balanced share.
        mtp: multi-token-prediction layers trained.
        lora_rank: rank of LoRA adapters (arXiv 2106.09685); None: every weight trains.
        lora_targets: the linear layers that get an adapter; ``all``: those inside the layers;
            ``qkv_proj``: one over queries, keys and values where a model projects them as one.
        lora_base: format of the frozen base's linear weights (QLoRA, arXiv 2305.14314);
            None: the recipe's weights.
        lora_dropout: probability of dropout on what an adapter reads.
        lora_saved: whole modules that train beside the adapters, as copies
            (PEFT's ``modules_to_save``).
        freeze: parts that do not train: their names in a count of parameters, or all ``layers``.
        reference_model: a frozen copy of the model runs each micro-batch forward too (DPO,
            arXiv 2305.18290: a pair of answers is two sequences); with adapters it is their base.
        packing: packed sequences with document masks.
        document: tokens of a packed document: the mean of their squares over their mean.
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
    microbatch_group: int | None = None
    first_stage_layers: int | None = None
    last_stage_layers: int | None = None
    account_for_embedding: bool = False
    account_for_loss: bool = False
    pipeline_layout: str | None = None
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
    fp8_param_gather: bool = False
    optimizer: str = "adamw"
    optimizer_step: OptimizerStep | None = None
    optimizer_in_backward: bool = False
    recompute: Recompute = "none"
    recompute_method: RecomputeMethod = "uniform"
    recompute_num_layers: int = 1
    recompute_modules: tuple[RecomputeModule, ...] = ("core_attn",)
    recompute_per_stage: bool = False
    cp_comm: CpComm | None = None
    activation_func_fp8_input_store: bool = False
    attention: AttentionKernel = "flash"
    attention_version: int | None = None
    loss: str | None = None
    wgrad_deferral_limit: int | None = None
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
    lora_dropout: float = 0.0
    lora_saved: tuple[SavedModule, ...] = ()
    freeze: tuple[FrozenPart, ...] = ()
    reference_model: bool = False
    packing: bool = False
    document: int | None = None
    iteration: Literal["first", "steady"] = "steady"

    @property
    def held_on_host(self) -> bool:
        """Whether anything lies in host memory."""
        return any(getattr(self, field) for field in OFFLOADS)

"""The words of measured rows and what they mean: one table.

Fields of `Plan` are named as they are; ``habit.`` marks a habit of the runtime and
``shape.`` a fact of the architecture. Within a column the rules are tried in order, each
takes the text that it matches, and what an earlier rule has set stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What a piece of text means.

    Attributes:
        column: the column it stands in.
        pattern: the text, as a regular expression.
        sets: what it sets, by name.
        refuses: why a row that says so is not answered.
    """

    column: str
    pattern: str
    sets: dict[str, Any] = field(default_factory=dict)
    refuses: str = ""


def _rule(column: str, pattern: str, **sets: Any) -> Rule:
    named = {
        name.replace("habit_", "habit.").replace("shape_", "shape."): value
        for name, value in sets.items()
    }
    return Rule(column=column, pattern=pattern, sets=named)


def _refuse(column: str, pattern: str, why: str) -> Rule:
    return Rule(column=column, pattern=pattern, refuses=why)


LITGPT_DROPOUT = 0.05
"""``lora_dropout`` in LitGPT's recipes (config_hub/finetune) and its first scripts."""

TRANSFORMERS_4 = {
    "habit_rebuilt_output": "true",
    "habit_recompute_ends": "whole",
    "habit_experts": "loop",
}
"""Checkpoints with reentry, and a loop over experts: transformers before version 5, which a run
of torch 2.0 is too."""

FULL = {"recompute": "full"}

RULES: tuple[Rule, ...] = (
    # Which stack: the first rule that matches decides.
    _rule("framework", r"fms-acceleration", double_quant=True),
    _rule("framework", r"megatron-deepspeed", runtime="megatron-deepspeed"),
    _rule("framework", r"mindspeed-llm.*|mindspeed", runtime="mindspeed"),
    _rule("framework", r"megatron-bridge.*|nemo.*", runtime="megatron", tp_comm_overlap=True),
    _rule("framework", r"megatron-lm core|megascale", runtime="megatron"),
    _rule("framework", r"megatron-lm", runtime="megatron-2022"),
    _rule("framework", r"nanotron", runtime="nanotron"),
    _rule("framework", r"llm-foundry.*", runtime="composer"),
    _rule("framework", r"torchtitan.*", runtime="fsdp2"),
    _rule("framework", r"torchtune", runtime="torchtune"),
    _rule("framework", r"lit-?gpt.*", runtime="litgpt", lora_dropout=LITGPT_DROPOUT),
    _rule("framework", r"hf trainer.*", runtime="accelerate"),
    _rule("framework", r"\(?(lightning fabric|fsdp2|fms-hf-tuning|\+?deepspeed)\)?|peft|torchao"),
    # Versions that change what stays alive.
    _rule("fw_version", r"transformers 4\.4[678][\d.]*", **TRANSFORMERS_4, held_logits=True),
    _rule("fw_version", r"transformers 4[\d.]*", **TRANSFORMERS_4),
    _rule(
        "fw_version",
        r"^torch 2\.0\b",
        **TRANSFORMERS_4,
        habit_adapter_format="weights",
        habit_step_lists="2",
    ),
    _rule("fw_version", r"bnb 0\.41\.1", habit_quantized_input="narrow"),
    _rule("fw_version", r"torch 2\.([89]|1\d)", compiled_loss=True),
    _rule("model", r"llama2-70b|mixtral-8x7b", gptq_groups=False),
    _rule("arch_note", r"gptbigcode|qwen1", narrow_logits=True),
    # Sharding.
    _rule("zero", r"megatron-fsdp.*", megatron_fsdp=True, zero=3),
    _rule("zero", r"no overlap", overlap_grad_reduce=False, overlap_param_gather=False),
    _rule("zero", r"fsdp2 full shard \+ cpu offload", zero=3, offload_parameters=True),
    _rule("zero", r"zero-?1\b(?!/)|distributed optimizer( \(zero-1\))?", zero=1),
    _rule("zero", r"\(?=?zero-?2\)?|fsdp shard_grad_op", zero=2),
    _rule(
        "zero", r"\(?=?zero-?3\)?|fsdp1? full[_ ]shard|full_shard|fsdp2 full shard|fsdp2", zero=3
    ),
    _rule("zero", r"\bzero-?0\b|^0$|none( \(replicated ddp\))?|single gpu|ddp", zero=0),
    *(
        _rule("zero", said)
        for said in (
            r"\(accelerate\)",
            r"no offload",
            r"over dp\*cp=\d+",
            r"\(?dp_shard \d+\)?",
            r"\(zero-3\)",
            r"deepspeed",
        )
    ),
    _refuse("zero", r"cpu offload", "offload to host memory is not modelled"),
    _rule("zero", r"fsdp \(zero-1/2 style.*", zero=1),
    _rule("zero", r"fsdp2? .*dp\*cp=8|fsdp2 \(dp_shard \d+\)", zero=3),
    # Number formats.
    _rule("precision", r"nvfp4.*", precision="nvfp4"),
    _rule("precision", r"mxfp8.*", precision="mxfp8"),
    _rule("precision", r"bf16\+float8.*", precision="fp8-amp"),
    _rule("precision", r".*(float8|fp8).*", precision="fp8"),
    _rule(
        "precision",
        r"bf16 params/compute \+ fp32 main grads/params",
        precision="bf16-mixed-accumulate",
    ),
    _rule(
        "precision",
        r"bfloat16 weights \(pure, no amp\)",
        precision="bf16",
        habit_autocast="false",
    ),
    _rule("precision", r"bfloat16 weights \+ hf bf16 amp|bf16-true|pure bf16", precision="bf16"),
    _rule("precision", r"float16 weights \+ hf fp16 amp", precision="fp16-no-master"),
    _rule("precision", r"fp16( mixed)?", precision="fp16-mixed"),
    _rule("precision", r"amp bf16", precision="bf16-amp"),
    _rule("precision", r"bf16( amp| eager)?"),
    _rule("grad_reduce_dtype", r"fp32", gradients_dtype="fp32", reduction_dtype="fp32"),
    _rule("grad_reduce_dtype", r"bf16", gradients_dtype="bf16", reduction_dtype="bf16"),
    _rule("grad_reduce_dtype", r"fp16", gradients_dtype="fp16", reduction_dtype="fp16"),
    _rule("grad_reduce_dtype", r"fsdp mixed_precision=(default|pure)"),
    # Optimizers.
    _rule("optimizer", r"muon", optimizer="muon"),
    _rule(
        "optimizer",
        r"bnb pagedadamw8bit, optimizer-in-backward( \(config default\))?",
        optimizer="pagedadam8bit",
        optimizer_in_backward=True,
    ),
    _rule("optimizer", r"(bnb )?paged ?adamw8bit", optimizer="pagedadam8bit"),
    _rule("optimizer", r"8-bit adamw", optimizer="adam8bit"),
    _rule("optimizer", r"optimizer-in-backward", optimizer_in_backward=True),
    _rule("optimizer", r"measured full-ft peak equals weights\+grads\+states\+one extra param.*"),
    _rule("optimizer", r"bf16 moments|reduced-precision moments", moments_dtype="bf16"),
    _rule("optimizer", r"hf adamw_torch"),
    _rule("optimizer", r"fsdp cpu offload"),
    _rule("optimizer", r"\(bnb paged for quantized runs\)"),
    _rule("optimizer", r"\(fp32 params/states sharded"),
    _rule("optimizer", r"foreach(, not fused)?", habit_optimizer_step="foreach"),
    _rule("optimizer", r"fused", habit_optimizer_step="fused"),
    _rule("optimizer", r"(torch\.optim\.)?(decoupled )?adamw?", optimizer="adamw"),
    # Recomputation.
    # Megatron's examples/llama: "follows ... NeMo Framework's performance scripts".
    _rule(
        "recompute",
        r"not stated \(none in the example script\)",
        recompute="none",
        tp_comm_overlap=True,
    ),
    _rule("recompute", r"none.*|not set.*|not stated.*", recompute="none"),
    _rule(
        "recompute",
        r"full,? block,? (?P<recompute_num_layers>\d+)",
        **FULL,
        recompute_method="block",
    ),
    _rule("recompute", r"full uniform (?P<recompute_num_layers>\d+)", **FULL),
    _rule(
        "recompute",
        r"full( \(?(per layer|per block|(hf )?gradient.checkpointing)\)?)?",
        **FULL,
    ),
    _rule(
        "recompute",
        r"full, block, (?P<recompute_num_layers>\d+) layers per stage/chunk",
        **FULL,
        recompute_method="block",
    ),
    _rule("recompute", r"selective layer( \(every 2nd\))?", every_second_layer=True),
    _rule("recompute", r"none\?|none \(.*|unknown.*", recompute="none"),
    _rule(
        "recompute",
        r"(selective: )?mlp,mla_up_proj",
        recompute="selective",
        recompute_modules=("mlp",),
    ),
    _rule(
        "recompute", r"selective: (mlp|moe)\b", recompute="selective", recompute_modules=("mlp",)
    ),
    _rule(
        "recompute",
        r"selective: (moe,layernorm,core_attn,moe_act)",
        recompute="selective",
        recompute_modules=("moe", "core_attn"),
    ),
    _rule(
        "recompute",
        r"selective: (layernorm,moe_act|moe_act,layernorm|mla_up_proj).*",
        recompute="selective",
        recompute_modules=("activation",),
    ),
    _rule(
        "recompute",
        r"(default \()?(selective per-op)?( ?\(?sac(, toml default)?\)?)|selective per-op",
        recompute="selective",
        recompute_modules=("outputs",),
    ),
    _rule("recompute", r"fsdp activation_checkpointing_policy block|, toml default|sac"),
    _rule("recompute", r"selective", recompute="selective"),
    _rule("recompute", r"core_attn|attention core"),
    # Attention.
    _rule("attention", r"local / (auto|unfused)", attention="eager"),
    _rule("attention", r"unfused|eager", attention="eager"),
    _rule("attention", r"sdpa (/ flex \(packed\)|flash)", attention="flash"),
    _rule("attention", r"transformer_engine|local|te\b|/"),
    _rule(
        "attention",
        r"flash-attn-2|flash-attn|flash|sdpa|fused|cudnn|npu flash|auto",
        attention="flash",
    ),
    # Compiler and adapters.
    _rule("compile", r"^1$", compile=True),
    _rule("compile", r"^0$"),
    _rule("quant", r"bnb\.nf4-dq", lora_base="nf4-dq"),
    _rule("quant", r"nf4 \(torchao\)", lora_base="nf4-dq"),
    _rule("quant", r"bnb nf4 4-bit|bnb\.nf4|nf4.*", lora_base="nf4"),
    _rule("quant", r"gptq (4-bit|int4)", lora_base="gptq4-g128"),
    # What people write beside it: Megatron's own options.
    _rule("extra", r"cross_entropy_loss_fusion \(te\)", habit_loss="in-place"),
    _rule("extra", r"cross-entropy-fusion-impl=native", habit_loss="vocab-parallel-fused"),
    _rule("extra", r"cross-entropy-fusion-impl=te", habit_loss="in-place"),
    _rule("extra", r"cross-entropy-loss-fusion=true", habit_loss="vocab-parallel-fused"),
    _rule("extra", r"no-gradient-accumulation-fusion=true", habit_placeholder_gradients="false"),
    _rule(
        "extra",
        r"transformer-impl=local",
        habit_linear_workspaces="0",
        habit_score_buffer="true",
        attention="eager",
    ),
    _rule("extra", r"transformer-impl=transformer_engine"),
    _rule("extra", r"attention-backend=unfused", attention="eager"),
    _rule("extra", r"attention-backend=flash", attention_version=2),
    _rule("extra", r"attention-backend=fused|nvte_fused_attn=1", attention_version=3),
    _rule("extra", r"hidden-dropout=0\.0", shape_dropout=0.0),
    _rule("extra", r"attention-dropout=0\.0", shape_attention_dropout=0.0),
    _rule("extra", r"position-embedding-type=rope", shape_rope=True),
    _rule("extra", r"position-embedding-type=none", shape_rope=False, shape_positions=0),
    _rule("extra", r"max-position-embeddings=(?P<shape_positions>\d+)"),
    _rule("extra", r"normalization=rmsnorm", shape_norm="rmsnorm"),
    _rule("extra", r"disable-bias-linear=true", shape_bias=False),
    _rule("extra", r"qk-layernorm=true", shape_qk_norm=True),
    _rule("extra", r"multi-latent-attention(=true)?", shape_latent=True),
    _rule("extra", r"q-lora-rank=(?P<shape_query_rank>\d+)"),
    _rule("extra", r"kv-lora-rank=(?P<shape_kv_rank>\d+)"),
    _rule("extra", r"qk-head-dim=(?P<shape_nope_head_dim>\d+)"),
    _rule("extra", r"qk-pos-emb-head-dim=(?P<shape_rope_head_dim>\d+)"),
    _rule("extra", r"v-head-dim=(?P<shape_value_head_dim>\d+)"),
    _rule("extra", r"make-vocab-size-divisible-by=(?P<habit_vocab_multiple>\d+)"),
    _rule("extra", r"moe-grouped-gemm(=true)?", habit_linear_workspaces="5"),
    _rule("extra", r"account-for-embedding-in-pipeline-split=true", account_for_embedding=True),
    _rule("extra", r"account-for-loss-in-pipeline-split=true", account_for_loss=True),
    _rule("extra", r"cublas_workspace_config=:4096:8", habit_matmul_workspace="33554432"),
    _rule("extra", r"optimizer=muon", optimizer="muon"),
    _rule("extra", r"num-distributed-optimizer-instances=(?P<optimizer_instances>\d+)"),
    _rule("extra", r"deterministic-mode=true", deterministic=True),
    _rule("extra", r"capacity factor 1 padded.*"),
    # torchtitan's pipelines.
    _rule("extra", r"(pp schedule )?interleaved 1f1b", vpp=2),
    _rule("extra", r"(pp schedule )?1f1b"),
    _rule("extra", r"local batch (?P<local_batch>\d+) split into microbatches \([^)]*\)"),
    _rule("extra", r"local batch (?P<local_batch>\d+) \(microbatch assumed \d+\)"),
    # Acceleration frameworks of fms-hf-tuning.
    _rule(
        "extra",
        r"framework_config=accelerated-peft-(bnb|autogptq)-foak-liger",
        habit_norm="fused",
        habit_adapter_kernel="fused",
        habit_adapter_sharding="replicated",
        loss_kernel="linear",
    ),
    _rule(
        "extra",
        r"framework_config=accelerated-peft-(bnb|autogptq)-foak",
        habit_norm="fused",
        habit_adapter_kernel="fused",
        habit_adapter_sharding="replicated",
        loss_kernel="in-place",
    ),
    _rule(
        "extra",
        r"framework_config=foak-fast-kernels-liger",
        habit_norm="fused",
        loss_kernel="linear",
    ),
    _rule(
        "extra",
        r"framework_config=foak-fast-kernels",
        habit_norm="fused",
        loss_kernel="in-place",
    ),
    _rule("extra", r"framework_config=(none|baseline-peft-bnb|accelerated-peft-(bnb|autogptq))"),
    _refuse("extra", r"framework_config=moe-scattermoe.*", "ScatterMoE is not modelled"),
    _rule("extra", r"lora_dropout=(?P<lora_dropout>0\.\d+)"),
    # Options that leave memory as it is, or that another column already states.
    *(
        _rule("extra", option)
        for option in (
            r"lora_dropout=none",
            r"packed=[01]",
            r"padded to max length",
            r"use-mcore-models=true",
            r"cuda_device_max_connections=\d+",
            r"nvte_allow_nondeterministic_algo=[01]",
            r"attention-softmax-in-fp32=true",
            r"overlap-grad-reduce=true",
            r"overlap-param-gather=true",
            r"calculate-per-token-loss=true",
            r"no-mmap-bin-files=true",
            r"swiglu=true",
            r"num-experts=\d+",
            r"kv-channels=\d+",
            r"moe-router-(topk|load-balancing-type|score-function|group-topk|num-groups|dtype)=[a-z0-9_]+",
            r"moe-router-(enable-expert-bias|pre-softmax)=true",
            r"moe-aux-loss-coeff=[0-9e.-]+",
            r"moe-router-(bias-update-rate|topk-scaling-factor)=[0-9e.-]+",
            r"moe-ffn-hidden-size=\d+",
            r"moe-shared-expert-intermediate-size=\d+",
            r"moe-permute-fusion=true",
            r"moe-token-dispatcher-type=alltoall(_seq)?",
            r"rotary-(base|scaling-factor|percent|interleaved)=(true|[0-9.]+)",
            r"use-tp-pp-dp-mapping=true",
            r"num-virtual-stages-per-pipeline-rank=\d+",
            r"te-rng-tracker=true",
            r"step-batch-size-schedule=[^;]*",
            r"use-flash-attn",
            r"apply-layernorm-1p=true",
            r"squared-relu=true",
            r"mock data",
            r"forced expert balance",
            r"nodes=\d+",
            r"tp_mode=reduce_scatter",
            r"tp_async=(true|none)",
            r"pp_engine=(1f1b)?",
            r"ddp_bucket_mb=25",
            r"moe-permutation-async-comm",
            r"moe-layer-freq=[^;]*",
            r"first-k-dense-replace=-?\d+",
            r"stage=sft",
            r"is-instruction-dataset",
        )
    ),
    # What decides time and leaves memory alone.
    _rule("extra", r"cuda_graph_impl=full_iteration", cuda_graphs=True, habit_host="graph"),
    _rule("extra", r"cuda_graph_impl=(transformer_engine|local)", cuda_graphs=True),
    _rule("extra", r"cuda_graph_impl=none|cuda_graph_scope=(\[[^\]]*\]|[a-z_]+)"),
    _rule("extra", r"moe_a2a_overlap=true", hidden_exchange=True),
    _rule("extra", r"asynctp", tp_comm_overlap=True),
    _rule("extra", r"(pp_)?layout[= ][etml|()*\d]+"),
    _rule("extra", r"(pp schedule )?(interleaved )?1f1b"),
    _rule("extra", r"recipe=[^;]*|use_megatron_fsdp=true"),
    _rule("extra", r"moe_flex_dispatcher_backend=\w+", habit_permute="in-dispatch"),
    _rule("extra", r"(w/o mtp|mtp not stated|no mtp in this layout)"),
    _rule("extra", r"no (tp comm|p2p) overlap|no bias-dropout fusion|low_precision_layernorm"),
    _rule("extra", r"activation_cpu_offload=false|sequence parallelism (on|off)"),
    _rule("extra", r"local batch \d+ [^;]*|moe alltoall dispatcher[^;]*"),
    _rule("attention", r"scaled masked softmax|softmax kernels|cp comm a2a"),
    _rule("grad_reduce_dtype", r"perf(ormance)? recipes?"),
    _rule("optimizer", r"fp32 params/states sharded|moments|distributed"),
    _refuse("extra", r"swap-attention|swap-optimizer", "swapping to host memory is not modelled"),
    _refuse("extra", r"fine-grained-activation-offloading=true", "offload is not modelled"),
    _rule("extra", r"cuda-graph-impl=[a-z_]+", cuda_graphs=True),
    _rule("extra", r"schedules-method=dualpipev", schedule="dualpipev", vpp=2),
    _rule("extra", r"pipeline-model-parallel-layout=[^;]*"),
    _refuse("extra", r"use-megatron-fsdp=true", "Megatron-FSDP is not modelled"),
    _refuse("extra", r"mtp-num-layers=\d+", "multi-token prediction is not modelled"),
)


LOOKED_AT = frozenset({"fw_version", "model", "arch_note"})
"""Columns that name things. Rules look at them; what no rule takes is no word of a recipe."""

HARMLESS = frozenset(
    "the a of in to and or no not on off with without per each is are as fp32 states master "
    "decoupled distributed stated size parameters params state".split()
)

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


FULL = {"recompute": "full"}

RULES: tuple[Rule, ...] = (
    # Which stack: the first rule that matches decides.
    _rule("framework", r"megatron-deepspeed", runtime="megatron-deepspeed"),
    _rule("framework", r"mindspeed-llm.*|mindspeed", runtime="mindspeed"),
    _rule(
        "framework", r"megatron-bridge.*|nemo.*|megatron-lm( core)?|megascale", runtime="megatron"
    ),
    _rule("framework", r"nanotron", runtime="nanotron"),
    _rule("framework", r"llm-foundry.*", runtime="composer"),
    _rule("framework", r"torchtitan.*", runtime="fsdp2"),
    _rule("framework", r"torchtune", runtime="torchtune"),
    _rule("framework", r"lit-?gpt.*", runtime="litgpt"),
    _rule("framework", r"hf trainer.*", runtime="accelerate"),
    # Sharding.
    _rule("zero", r"zero-?1\b(?!/)|distributed optimizer( \(zero-1\))?", zero=1),
    _rule("zero", r"\(?=?zero-?2\)?|fsdp shard_grad_op", zero=2),
    _rule(
        "zero", r"\(?=?zero-?3\)?|fsdp1? full[_ ]shard|full_shard|fsdp2 full shard|fsdp2", zero=3
    ),
    _rule("zero", r"\bzero-?0\b|^0$|none( \(replicated ddp\))?|single gpu|ddp", zero=0),
    _refuse("zero", r"cpu offload", "offload to host memory is not modelled"),
    _refuse("zero", r"megatron-fsdp.*", "Megatron-FSDP is not modelled"),
    # Number formats.
    _rule("precision", r"nvfp4.*", precision="nvfp4"),
    _rule("precision", r"mxfp8.*", precision="mxfp8"),
    _rule("precision", r".*(float8|fp8).*", precision="fp8"),
    _rule(
        "precision",
        r"bf16 params/compute \+ fp32 main grads/params",
        precision="bf16-mixed-accumulate",
    ),
    _rule(
        "precision",
        r"bfloat16 weights \+ hf bf16 amp|bfloat16 weights \(pure, no amp\)|bf16-true|pure bf16",
        precision="bf16",
    ),
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
    _rule("optimizer", r"(bnb )?paged ?adamw8bit.*|8-bit adamw.*", optimizer="adam8bit"),
    _rule("optimizer", r"bf16 moments|reduced-precision moments", moments_dtype="bf16"),
    _rule("optimizer", r"foreach(, not fused)?", habit_optimizer_step="foreach"),
    _rule("optimizer", r"fused", habit_optimizer_step="fused"),
    _rule("optimizer", r"(torch\.optim\.)?(decoupled )?adamw?", optimizer="adamw"),
    # Recomputation.
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
        r"selective per-op( \(sac\))?",
        recompute="selective",
        recompute_modules=("outputs",),
    ),
    _rule("recompute", r"selective", recompute="selective"),
    _rule("recompute", r"core_attn"),
    # Attention.
    _rule("attention", r"local / (auto|unfused)", attention="eager"),
    _rule("attention", r"unfused|eager", attention="eager"),
    _rule("attention", r"transformer_engine|local|te\b|/"),
    _rule(
        "attention",
        r"flash-attn-2|flash-attn|flash|sdpa|fused|cudnn|npu flash|auto",
        attention="flash",
    ),
    # Compiler and adapters.
    _rule("compile", r"^1$"),
    _rule("compile", r"^0$"),
    _rule("quant", r"bnb nf4 4-bit|bnb\.nf4(-dq)?|nf4.*", lora_base="nf4"),
    _rule("quant", r"gptq (4-bit|int4)", lora_base="gptq4"),
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
    # Options that leave memory as it is, or that another column already states.
    *(
        _rule("extra", option)
        for option in (
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
    _refuse("extra", r"swap-attention|swap-optimizer", "swapping to host memory is not modelled"),
    _refuse("extra", r"fine-grained-activation-offloading=true", "offload is not modelled"),
    _refuse("extra", r"cuda-graph-impl=[a-z_]+", "CUDA graphs are not modelled"),
    _refuse("extra", r"schedules-method=dualpipev?", "the DualPipe schedules are not modelled"),
    _refuse("extra", r"pipeline-model-parallel-layout=[^;]*", "layout strings are not modelled"),
    _refuse("extra", r"use-megatron-fsdp=true", "Megatron-FSDP is not modelled"),
    _refuse("extra", r"mtp-num-layers=\d+", "multi-token prediction is not modelled"),
)


HARMLESS = frozenset(
    "the a of in to and or no not on off with without per each is are as fp32 states master "
    "decoupled distributed stated size parameters params state".split()
)

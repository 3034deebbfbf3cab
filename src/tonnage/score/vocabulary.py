"""The words of measured rows and what they mean: one table.

Fields of `Plan` are named as they are; ``habit.`` marks a habit of the runtime and
``shape.`` a fact of the architecture. Within a column the rules are tried in order, each
takes the text that it matches, and what an earlier rule has set stays.
"""

from __future__ import annotations

from tonnage.score.options import OPTIONS
from tonnage.score.rule import Rule, refuse, rule

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

SELECTED = r"selective:? \[?((mla_up_proj|mlp|moe_act|moe|layernorm|core_attn)[, ]*)+\]?"
"""Selective recomputation with a list of Megatron's modules."""

RULES: tuple[Rule, ...] = (
    # Which stack: the first rule that matches decides.
    rule("framework", r"fms-acceleration", double_quant=True),
    rule("framework", r"megatron-deepspeed", runtime="megatron-deepspeed"),
    rule("framework", r"mindspeed-llm.*|mindspeed", runtime="mindspeed"),
    # Its performance recipes reduce in 16 bits, and gather narrow weights that they do not
    # transpose ahead (Megatron-Bridge, perf recipes and training/mixed_precision.py).
    rule(
        "framework",
        r"megatron-bridge.*|nemo.*",
        runtime="megatron",
        tp_comm_overlap=True,
        narrow_gather=True,
    ),
    rule("framework", r"megatron-lm core|megascale", runtime="megatron"),
    rule("framework", r"megatron-lm", runtime="megatron-2022"),
    rule("framework", r"nanotron", runtime="nanotron"),
    rule("framework", r"llm-foundry.*", runtime="composer"),
    rule("framework", r"torchtitan.*", runtime="fsdp2"),
    rule("framework", r"torchtune", runtime="torchtune"),
    rule("framework", r"lit-?gpt.*", runtime="litgpt", lora_dropout=LITGPT_DROPOUT),
    rule("framework", r"hf trainer.*", runtime="accelerate"),
    rule("framework", r"\(?(lightning fabric|fsdp2|fms-hf-tuning|\+?deepspeed)\)?|peft|torchao"),
    # Versions that change what stays alive.
    rule("fw_version", r"transformers 4\.4[678][\d.]*", **TRANSFORMERS_4, held_logits=True),
    rule("fw_version", r"transformers 4[\d.]*", **TRANSFORMERS_4),
    rule(
        "fw_version",
        r"^torch 2\.0\b",
        **TRANSFORMERS_4,
        habit_adapter_format="weights",
        habit_step_lists="2",
    ),
    rule("fw_version", r"bnb 0\.41\.1", habit_quantized_input="narrow"),
    rule("fw_version", r"torch 2\.([89]|1\d)", compiled_loss=True),
    rule("model", r"llama2-70b|mixtral-8x7b", gptq_groups=False),
    rule("arch_note", r"gptbigcode|qwen1", narrow_logits=True),
    # Sharding.
    rule("zero", r"megatron-fsdp.*", megatron_fsdp=True, zero=3),
    rule("zero", r"no overlap", overlap_grad_reduce=False, overlap_param_gather=False),
    rule("zero", r"fsdp2 full shard \+ cpu offload", zero=3, offload_parameters=True),
    rule("zero", r"zero-?1\b(?!/)|distributed optimizer( \(zero-1\))?", zero=1),
    rule("zero", r"\(?=?zero-?2\)?|fsdp shard_grad_op", zero=2),
    rule("zero", r"\(?=?zero-?3\)?|fsdp1? full[_ ]shard|full_shard|fsdp2 full shard|fsdp2", zero=3),
    rule("zero", r"\bzero-?0\b|^0$|none( \(replicated ddp\))?|single gpu|ddp", zero=0),
    *(
        rule("zero", said)
        for said in (
            r"\(accelerate\)",
            r"no offload",
            r"over dp\*cp=\d+",
            r"\(?dp_shard \d+\)?",
            r"\(zero-3\)",
            r"deepspeed",
        )
    ),
    refuse("zero", r"cpu offload", "offload to host memory is not modelled"),
    rule("zero", r"fsdp \(zero-1/2 style.*", zero=1),
    rule("zero", r"fsdp2? .*dp\*cp=8|fsdp2 \(dp_shard \d+\)", zero=3),
    # Number formats.
    rule("precision", r"nvfp4.*", precision="nvfp4"),
    rule("precision", r"mxfp8.*", precision="mxfp8"),
    rule("precision", r"bf16\+float8.*", precision="fp8-amp"),
    rule("precision", r".*(float8|fp8).*", precision="fp8"),
    rule(
        "precision",
        r"bf16 params/compute \+ fp32 main grads/params",
        precision="bf16-mixed-accumulate",
    ),
    rule(
        "precision",
        r"bfloat16 weights \(pure, no amp\)",
        precision="bf16",
        habit_autocast="false",
    ),
    rule("precision", r"bfloat16 weights \+ hf bf16 amp|bf16-true|pure bf16", precision="bf16"),
    rule("precision", r"float16 weights \+ hf fp16 amp", precision="fp16-no-master"),
    rule("precision", r"fp16( mixed)?", precision="fp16-mixed"),
    rule("precision", r"amp bf16", precision="bf16-amp"),
    rule("precision", r"bf16( amp| eager)?"),
    rule("grad_reduce_dtype", r"fp32", gradients_dtype="fp32", reduction_dtype="fp32"),
    rule("grad_reduce_dtype", r"bf16", gradients_dtype="bf16", reduction_dtype="bf16"),
    rule("grad_reduce_dtype", r"fp16", gradients_dtype="fp16", reduction_dtype="fp16"),
    rule("grad_reduce_dtype", r"fsdp mixed_precision=(default|pure)"),
    # Optimizers.
    rule("optimizer", r"muon", optimizer="muon"),
    rule(
        "optimizer",
        r"bnb pagedadamw8bit, optimizer-in-backward( \(config default\))?",
        optimizer="pagedadam8bit",
        optimizer_in_backward=True,
    ),
    rule("optimizer", r"(bnb )?paged ?adamw8bit", optimizer="pagedadam8bit"),
    rule("optimizer", r"8-bit adamw", optimizer="adam8bit"),
    rule("optimizer", r"optimizer-in-backward", optimizer_in_backward=True),
    rule("optimizer", r"measured full-ft peak equals weights\+grads\+states\+one extra param.*"),
    rule("optimizer", r"bf16 moments|reduced-precision moments", moments_dtype="bf16"),
    rule("optimizer", r"hf adamw_torch"),
    rule("optimizer", r"fsdp cpu offload"),
    rule("optimizer", r"\(bnb paged for quantized runs\)"),
    rule("optimizer", r"\(fp32 params/states sharded"),
    rule("optimizer", r"foreach(, not fused)?", habit_optimizer_step="foreach"),
    rule("optimizer", r"fused", habit_optimizer_step="fused"),
    rule("optimizer", r"(torch\.optim\.)?(decoupled )?adamw?", optimizer="adamw"),
    # Recomputation.
    # Megatron's examples/llama: "follows ... NeMo Framework's performance scripts".
    rule(
        "recompute",
        r"not stated \(none in the example script\)",
        recompute="none",
        tp_comm_overlap=True,
    ),
    rule("recompute", r"none.*|not set.*|not stated.*", recompute="none"),
    rule(
        "recompute",
        r"full,? block,? (?P<recompute_num_layers>\d+)",
        **FULL,
        recompute_method="block",
    ),
    rule("recompute", r"\(?per pp rank\)?", recompute_per_stage=True),
    rule("recompute", r"full uniform (?P<recompute_num_layers>\d+)", **FULL),
    rule(
        "recompute",
        r"full( \(?(per layer|per block|(hf )?gradient.checkpointing)\)?)?",
        **FULL,
    ),
    rule(
        "recompute",
        r"full, block, (?P<recompute_num_layers>\d+) layers per stage/chunk",
        **FULL,
        recompute_method="block",
    ),
    rule("recompute", r"selective layer( \(every 2nd\))?", every_second_layer=True),
    rule("recompute", r"none\?|none \(.*|unknown.*", recompute="none"),
    rule("recompute", SELECTED, recompute="selective", selected=True),
    rule(
        "recompute",
        r"(default \()?(selective per-op)?( ?\(?sac(, toml default)?\)?)|selective per-op",
        recompute="selective",
        recompute_modules=("outputs",),
    ),
    rule("recompute", r"fsdp activation_checkpointing_policy block|, toml default|sac"),
    rule("recompute", r"selective", recompute="selective"),
    rule("recompute", r"core_attn|attention core"),
    # Attention.
    rule("attention", r"local / (auto|unfused)", attention="eager"),
    rule("attention", r"unfused|eager", attention="eager"),
    rule("attention", r"sdpa (/ flex \(packed\)|flash)", attention="flash"),
    rule("attention", r"transformer_engine|local|te\b|/"),
    rule(
        "attention",
        r"flash-attn-2|flash-attn|flash|sdpa|fused|cudnn|npu flash|auto",
        attention="flash",
    ),
    # Compiler and adapters.
    rule("compile", r"^1$", compile=True),
    rule("compile", r"^0$"),
    rule("quant", r"bnb\.nf4-dq", lora_base="nf4-dq"),
    rule("quant", r"nf4 \(torchao\)", lora_base="nf4-dq"),
    rule("quant", r"bnb nf4 4-bit|bnb\.nf4|nf4.*", lora_base="nf4"),
    rule("quant", r"gptq (4-bit|int4)", lora_base="gptq4-g128"),
    *OPTIONS,
    # torchtitan's pipelines.
    rule("extra", r"(pp schedule )?interleaved 1f1b", vpp=2),
    rule("extra", r"(pp schedule )?1f1b"),
    rule("extra", r"local batch (?P<local_batch>\d+) split into microbatches \([^)]*\)"),
    rule("extra", r"local batch (?P<local_batch>\d+) \(microbatch assumed \d+\)"),
    # Acceleration frameworks of fms-hf-tuning.
    rule(
        "extra",
        r"framework_config=accelerated-peft-(bnb|autogptq)-foak-liger",
        habit_norm="fused",
        habit_adapter_kernel="fused",
        habit_adapter_sharding="replicated",
        loss_kernel="linear",
    ),
    rule(
        "extra",
        r"framework_config=accelerated-peft-(bnb|autogptq)-foak",
        habit_norm="fused",
        habit_adapter_kernel="fused",
        habit_adapter_sharding="replicated",
        loss_kernel="in-place",
    ),
    rule(
        "extra",
        r"framework_config=foak-fast-kernels-liger",
        habit_norm="fused",
        loss_kernel="linear",
    ),
    rule(
        "extra",
        r"framework_config=foak-fast-kernels",
        habit_norm="fused",
        loss_kernel="in-place",
    ),
    rule("extra", r"framework_config=(none|baseline-peft-bnb|accelerated-peft-(bnb|autogptq))"),
    refuse("extra", r"framework_config=moe-scattermoe.*", "ScatterMoE is not modelled"),
    rule("extra", r"lora_dropout=(?P<lora_dropout>0\.\d+)"),
    # What decides time and leaves memory alone.
    rule("extra", r"cuda_graph_impl=full_iteration", cuda_graphs=True, habit_host="graph"),
    rule("extra", r"cuda_graph_impl=(transformer_engine|local)", cuda_graphs=True),
    rule("extra", r"cuda_graph_impl=none|cuda_graph_scope=(\[[^\]]*\]|[a-z_]+)"),
    rule("extra", r"moe_a2a_overlap=true", hidden_exchange=True),
    rule("extra", r"asynctp", tp_comm_overlap=True),
    rule("extra", r"(pp_)?layout[= ][etml|()*\d]+"),
    rule("extra", r"(pp schedule )?(interleaved )?1f1b"),
    rule("extra", r"recipe=[^;]*|use_megatron_fsdp=true"),
    rule("extra", r"moe_flex_dispatcher_backend=\w+", habit_permute="in-dispatch"),
    rule("extra", r"(w/o mtp|mtp not stated|no mtp in this layout)"),
    rule("extra", r"no (tp comm|p2p) overlap|no bias-dropout fusion|low_precision_layernorm"),
    rule("extra", r"activation_cpu_offload=false|sequence parallelism (on|off)"),
    rule("extra", r"local batch \d+ [^;]*|moe alltoall dispatcher[^;]*"),
    rule("attention", r"cp comm a2a", cp_comm="a2a"),
    rule("attention", r"scaled masked softmax|softmax kernels"),
    rule("extra", r"cp-comm-type=a2a", cp_comm="a2a"),
    rule("extra", r"cp-comm-type=all_?gather", cp_comm="allgather"),
    rule("extra", r"cp-comm-type=p2p", cp_comm="p2p"),
    rule("extra", r"context-parallel-algo=ulysses_cp_algo", cp_comm="a2a"),
    rule("extra", r"context-parallel-algo=megatron_cp_algo", cp_comm="p2p"),
    rule("grad_reduce_dtype", r"perf(ormance)? recipes?"),
    rule("optimizer", r"fp32 params/states sharded|moments|distributed"),
)


LOOKED_AT = frozenset({"fw_version", "model", "arch_note"})
"""Columns that name things. Rules look at them; what no rule takes is no word of a recipe."""

HARMLESS = frozenset(
    "the a of in to and or no not on off with without per each is are as fp32 states master "
    "decoupled distributed stated size parameters params state".split()
)

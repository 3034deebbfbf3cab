"""Keys of axolotl that decide nothing that is modelled, and those whose effect is left out."""

from __future__ import annotations

LEFT = {
    "batch_flattening": "weighed with padding to the length of a sequence",
    "layer_offloading": "layers are weighed on the device",
    "unfrozen_parameters": "weighed as if every weight trains: an upper bound",
    "peft_layers_to_transform": "adapters are weighed in every layer",
    "peft_layer_replication": "weighed with the model's own layers",
    "relora": "weighed as plain LoRA",
    "relora_steps": "weighed as plain LoRA",
    "lisa_n_layers": "weighed as if every weight trains: an upper bound",
    "spectrum_top_fraction": "weighed as if every weight trains: an upper bound",
    "qat": "fake quantisation is left out",
    "tiled_mlp": "weighed with whole activations of the MLP",
    "use_scattermoe": "weighed as transformers' own experts",
    "use_sonicmoe": "weighed as transformers' own experts",
    "use_onebitllms": "weighed as a linear layer of the recipe's format",
    "use_kernels": "kernels of the hub are weighed as transformers' own",
    "quantize_moe_experts": "weighed with the base's format",
    "model_quantization_config": "weighed with the base's format",
    "expert_parallel_size": "experts over several ranks are not modelled in this stack",
    "mora": "weighed as plain LoRA",
    "diffusion": "weighed as a model that predicts the next token",
    "kd_trainer": "the teacher is left out",
    "selective_checkpointing": "weighed by activation checkpointing alone",
    "ple_cpu_offload": "weighed on the device",
    "lora_target_parameters": "adapters on bare parameters are left out",
    "flash_optimum": "weighed as flash attention",
    "s2_attention": "weighed as full attention",
    "embeddings_skip_upcast": "embeddings are weighed in the recipe's format",
    "resize_token_embeddings_to_32x": "the vocabulary is weighed as the model has it",
    "added_tokens_overrides": "the vocabulary is weighed as the model has it",
    "tokens": "added tokens are left out of the vocabulary",
    "use_pose": "weighed at the length of a sequence",
    "deepcompile": "DeepCompile is not modelled",
    "dynamic_checkpoint": "weighed by activation checkpointing alone",
    "fp32_norms": "norms are weighed in the recipe's format",
    "freeze_mm_modules": "weighed as if every weight trains: an upper bound",
}
"""What is known and not modelled, where it is switched on; ``1`` and false leave things alone."""

NESTED = (
    *(
        "special_tokens.*",
        "bnb_config_kwargs.*",
        "peft.*",
        "trl.*",
        "vllm.*",
        "qat.*",
        "diffusion.*",
    ),
    *("quantization.*", "mora.*", "chat_template_kwargs.*", "flex_attn_compile_kwargs.*"),
    *("overrides_of_model_config.*", "overrides_of_model_kwargs.*", "rope_scaling.*", "ebft.*"),
    *("processor_kwargs.*", "llmcompressor.*", "added_tokens_overrides.*", "max_memory.*"),
    *("model_quantization_config_kwargs.*", "dynamic_checkpoint.*", "selective_checkpointing.*"),
    *("fp8_config.*", "comet_experiment_config.*", "resources_per_worker.*", "hatchery.*"),
    *("lora_rank_pattern.*", "lora_alpha_pattern.*", "datasets.*", "tokens.*", "swanlab.*"),
)
"""Mappings inside an axolotl file: what is read of them is read by name."""

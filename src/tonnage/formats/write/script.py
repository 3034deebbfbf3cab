"""What a Hugging Face training script decides, whatever engine's file stands beside it."""

from __future__ import annotations

SCRIPT = (
    *("seq", "recompute", "recompute_method", "recompute_num_layers", "recompute_modules"),
    *("attention", "attention_version", "loss", "compile", "packing", "optimizer_step"),
    *("optimizer_in_backward", "lora_rank", "lora_targets", "lora_base", "lora_dropout"),
    *(
        "lora_saved",
        "freeze",
        "reference_model",
        "document",
        "offload_activations",
        "overlap_grad_reduce",
        "overlap_param_gather",
    ),
)
"""Fields of a plan."""

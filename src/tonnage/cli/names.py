"""What the command line calls the fields of a plan, and under which heading it lists them.

Only names stand here. A field that is not named below becomes a flag all the same: its own
name with hyphens, in the last group.
"""

from __future__ import annotations

FLAGS: dict[str, tuple[str, ...]] = {"habits": ("habit",)}
"""Fields whose flag is not their own name."""

ALIASES: dict[str, tuple[str, ...]] = {
    "tp": ("tensor-model-parallel-size",),
    "sp": ("sequence-parallel",),
    "pp": ("pipeline-model-parallel-size",),
    "vpp": ("num-virtual-stages-per-pipeline-rank",),
    "cp": ("context-parallel-size",),
    "cp_comm": ("cp-comm-type",),
    "ep": ("expert-model-parallel-size",),
    "etp": ("expert-tensor-parallel-size",),
    "dp": ("data-parallel-size",),
    "first_stage_layers": ("decoder-first-pipeline-num-layers",),
    "last_stage_layers": ("decoder-last-pipeline-num-layers",),
    "account_for_embedding": ("account-for-embedding-in-pipeline-split",),
    "account_for_loss": ("account-for-loss-in-pipeline-split",),
    "pipeline_layout": ("pipeline-model-parallel-layout",),
    "microbatch_group": ("microbatch-group-size-per-virtual-pipeline-stage",),
    "mbs": ("micro-batch-size",),
    "gbs": ("global-batch-size",),
    "grad_acc": ("gradient-accumulation-steps",),
    "seq": ("seq-length",),
    "recompute": ("recompute-granularity",),
    "moe_dispatcher": ("moe-token-dispatcher-type",),
    "moe_capacity_factor": ("moe-expert-capacity-factor",),
    "mtp": ("mtp-num-layers",),
}
"""The long names that launch lines use: Megatron's, and the Trainer's for accumulation."""

GROUPS: dict[str, tuple[str, ...]] = {
    "Parallelism": (
        "tp",
        "sp",
        "pp",
        "vpp",
        "cp",
        "cp_comm",
        "ep",
        "etp",
        "dp",
        "zero",
        "hsdp_shard",
    ),
    "Batch": ("mbs", "gbs", "grad_acc", "seq", "packing", "document", "iteration"),
    "Pipeline": (
        "schedule",
        "microbatch_group",
        "first_stage_layers",
        "last_stage_layers",
        "account_for_embedding",
        "account_for_loss",
        "pipeline_layout",
    ),
    "Number formats and optimizer": (
        "precision",
        "weights_dtype",
        "gradients_dtype",
        "reduction_dtype",
        "master_dtype",
        "moments_dtype",
        "fp8_param_gather",
        "optimizer",
        "optimizer_step",
        "optimizer_in_backward",
    ),
    "Activations": (
        "recompute",
        "recompute_method",
        "recompute_num_layers",
        "recompute_modules",
        "recompute_per_stage",
        "activation_func_fp8_input_store",
        "attention",
        "attention_version",
        "loss",
        "wgrad_deferral_limit",
    ),
    "Software stack": (
        "runtime",
        "habits",
        "compile",
        "cuda_graphs",
        "overlap_grad_reduce",
        "overlap_param_gather",
        "tp_comm_overlap",
        "offload_optimizer",
        "offload_parameters",
        "offload_activations",
    ),
    "Experts, adapters and the rest": (),
}
"""Headings of the help, in order."""


def flags_of(field: str) -> tuple[str, ...]:
    """The flags of a field, the short one first."""
    names = FLAGS.get(field, (field.replace("_", "-"),))
    return tuple(f"--{name}" for name in (*names, *ALIASES.get(field, ())))


def group_of(field: str) -> str:
    """The heading of a field."""
    *_, last = GROUPS
    return next((group for group, fields in GROUPS.items() if field in fields), last)

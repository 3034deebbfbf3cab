"""Megatron-Core behind a tool of Hugging Face's world: Megatron's options without hyphens.

ms-swift's Megatron and LLaMA-Factory's adapter of Megatron-Core take the same names.
"""

from __future__ import annotations

from tonnage.formats.keys import Fields

_DEGREES = (
    ("tp", "tensor_model_parallel_size"),
    ("pp", "pipeline_model_parallel_size"),
    ("cp", "context_parallel_size"),
    ("ep", "expert_model_parallel_size"),
    ("etp", "expert_tensor_parallel_size"),
    ("vpp", "virtual_pipeline_model_parallel_size"),
    ("first_stage_layers", "decoder_first_pipeline_num_layers"),
    ("last_stage_layers", "decoder_last_pipeline_num_layers"),
)
_FLAGS = (
    ("sp", "sequence_parallel"),
    ("overlap_grad_reduce", "overlap_grad_reduce"),
    ("overlap_param_gather", "overlap_param_gather"),
    ("tp_comm_overlap", "tp_comm_overlap"),
    ("account_for_embedding", "account_for_embedding_in_pipeline_split"),
    ("account_for_loss", "account_for_loss_in_pipeline_split"),
)


def read_degrees(fields: Fields, *, sharded: bool) -> dict[str, object]:
    """Degrees, sharding of the optimizer and what overlaps, as fields of a plan.

    Args:
        fields: the file.
        sharded: the optimizer's states are sharded where the file does not say.

    Raises:
        InputError: a key has no value of its type.
    """
    plan: dict[str, object] = {}
    for field, name in _DEGREES:
        number = fields.whole(name, f"train.{name}", least=1)
        if number is not None:
            plan[field] = number
            fields.says(field, name)
    for field, name in _FLAGS:
        value = fields.flag(name)
        if value is not None:
            plan[field] = value
    said = fields.flag("use_distributed_optimizer")
    plan["zero"] = int(sharded if said is None else said)
    if fields.flag("optimizer_cpu_offload"):
        plan["offload_optimizer"] = 1.0
        fields.says("offload_optimizer", "optimizer_cpu_offload")
    return plan


def read_recompute(fields: Fields, usual: str) -> dict[str, object]:
    """What of the activations is computed again.

    Args:
        fields: the file.
        usual: the granularity where none is named.

    Raises:
        InputError: it is no granularity.
    """
    word = (fields.word("recompute_granularity") or usual).lower()
    plan: dict[str, object] = {"recompute": word}
    if word not in ("selective", "full", "none"):
        fields.fail("recompute_granularity", word, "selective, full or none")
    method = fields.word("recompute_method")
    layers = fields.whole("recompute_num_layers", least=1)
    if word == "full" and method:
        plan["recompute_method"] = method
    if word == "full" and layers:
        plan["recompute_num_layers"] = layers
    return plan

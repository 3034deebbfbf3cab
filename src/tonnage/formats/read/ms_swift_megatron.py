"""Megatron behind ms-swift: the names of Megatron's options without hyphens.

Source: ms-swift 4, ``megatron/arguments/megatron_args.py``.
"""

from __future__ import annotations

from tonnage.formats.hugging_face.run import Run
from tonnage.formats.keys import Fields

_MARKS = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "micro_batch_size")
_MARKS_MORE = ("train_iters", "expert_model_parallel_size", "mcore_model", "global_batch_size")

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


def is_megatron(fields: Fields) -> bool:
    """Whether the names are those of Megatron's options."""
    return fields.has(*_MARKS, *_MARKS_MORE, *(f"train.{name}" for name in _MARKS))


def read_megatron(fields: Fields, adapters: dict[str, object]) -> Run:
    """What a Megatron run under ms-swift says.

    Args:
        fields: the file.
        adapters: fields of a plan that describe adapters.

    Raises:
        InputError: a key has no value of its type.
    """
    plan: dict[str, object] = {**adapters, "zero": 1}
    for field, name in _DEGREES:
        number = fields.whole(name, f"train.{name}", least=1)
        if number is not None:
            plan[field] = number
            fields.says(field, name)
    for field, name in (
        ("sp", "sequence_parallel"),
        ("overlap_grad_reduce", "overlap_grad_reduce"),
        ("overlap_param_gather", "overlap_param_gather"),
        ("tp_comm_overlap", "tp_comm_overlap"),
        ("account_for_embedding", "account_for_embedding_in_pipeline_split"),
        ("account_for_loss", "account_for_loss_in_pipeline_split"),
    ):
        value = fields.flag(name)
        if value is not None:
            plan[field] = value
    if fields.flag("use_distributed_optimizer") is False:
        plan["zero"] = 0
    if fields.flag("optimizer_cpu_offload"):
        plan["offload_optimizer"] = 1.0
        fields.says("offload_optimizer", "optimizer_cpu_offload")
    plan |= _recompute(fields)
    loss = fields.flag("cross_entropy_loss_fusion")
    if loss is not False:
        plan["loss"] = "vocab-parallel-fused"
    fp16 = fields.flag("fp16")
    return Run(
        model=fields.word("model", "load"),
        engine="megatron",
        processes=fields.whole("train.gpus", least=1),
        mixed="fp16" if fp16 else None,
        samples=fields.whole("micro_batch_size", least=1) or 1,
        batch=fields.whole("global_batch_size", least=1) or 16,
        seq=fields.whole("max_length", "seq_length", least=1),
        steps=fields.whole("train_iters", least=1),
        plan=plan,
    )


def _recompute(fields: Fields) -> dict[str, object]:
    """Selective where nothing is said, as in ms-swift."""
    word = (fields.word("recompute_granularity") or "selective").lower()
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

"""Megatron behind ms-swift: the names of Megatron's options without hyphens.

Source: ms-swift 4, ``megatron/arguments/megatron_args.py``.
"""

from __future__ import annotations

from tonnage.formats.hugging_face.mcore import read_degrees, read_recompute
from tonnage.formats.hugging_face.run import Run
from tonnage.formats.keys import Fields
from tonnage.formats.megatron_ignored import IGNORED
from tonnage.formats.megatron_names import Names

_MARKS = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "micro_batch_size")
_OWN = ("export-model-parallel-size", "num-workers", "*gradient-accumulation-fusion")
"""Options of ms-swift's that say how a model is saved and how data come."""

_MARKS_MORE = ("train_iters", "expert_model_parallel_size", "mcore_model", "global_batch_size")


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
    plan = {**adapters, **read_degrees(fields, sharded=True)}
    plan.setdefault("etp", 1)  # where Megatron's own command cuts experts as it cuts the rest
    plan |= read_recompute(fields, "selective")
    loss = fields.flag("cross_entropy_loss_fusion")
    if loss is not False:
        plan["loss"] = "vocab-parallel-fused"
    fp16 = fields.flag("fp16")
    Names(fields).ignore(*IGNORED, *_OWN)
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

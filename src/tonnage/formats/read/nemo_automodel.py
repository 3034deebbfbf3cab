"""NeMo AutoModel: its YAML recipes of Hugging Face models over fully_shard.

https://docs.nvidia.com/nemo/automodel; keys as in its ``examples``.
"""

from __future__ import annotations

from tonnage.formats.document import Document
from tonnage.formats.draft import Draft
from tonnage.formats.keys import Fields
from tonnage.formats.launch import Launch
from tonnage.formats.lora import targets

_IGNORED = (
    *(
        "step_scheduler.*",
        "dist_env.*",
        "rng*",
        "loss_fn*",
        "dataset*",
        "dataloader*",
        "optimizer*",
    ),
    *("validation_*", "checkpoint*", "lr_scheduler*", "wandb*", "mlflow*", "clip_grad*", "slurm*"),
    *("packed_sequence.*", "model.*", "distributed*", "peft*", "tokenizer*", "processor*", "fp8*"),
    *("recipe", "logger*", "ci*", "benchmark*", "nsys*", "freeze_config*"),
)


def detect(document: Document) -> bool:
    """Whether the content is AutoModel's."""
    return document.has("step_scheduler", "model")


def read(document: Document) -> Launch:
    """Read an AutoModel recipe.

    Raises:
        InputError: a key has no value of its type.
    """
    fields = Fields(document.values)
    draft = Draft("nemo-automodel", fields, "fsdp2")
    path = "model.pretrained_model_name_or_path"
    draft.model = fields.word(path, "model.config.pretrained_model_name_or_path")
    _read_degrees(draft)
    for field, *names in (
        ("mbs", "step_scheduler.local_batch_size", "dataloader.batch_size"),
        ("gbs", "step_scheduler.global_batch_size"),
        ("seq", "packed_sequence.packed_sequence_size", "dataset.seq_length", "dataset.seq_len"),
    ):
        if draft.whole(field, *names) is None:
            draft.lack(field)
    draft.steps = fields.whole("step_scheduler.max_steps", least=1)
    draft.put("precision", "bf16")
    named = (fields.word("optimizer._target_") or "torch.optim.AdamW").rsplit(".", 1)[-1].lower()
    draft.put("optimizer", {"fusedadam": "adamw"}.get(named, named), "optimizer._target_")
    if fields.flag("distributed.activation_checkpointing"):
        draft.put("recompute", "full", "distributed.activation_checkpointing")
    _read_adapters(draft)
    fields.ignore(*_IGNORED)
    return draft.finish()


def _read_degrees(draft: Draft) -> None:
    """``none`` is what the other degrees leave."""
    fields = draft.fields
    for field in ("tp", "pp", "cp", "ep"):
        path = f"distributed.{field}_size"
        if str(fields.peek(path)).lower() not in ("none", "0", "-1"):
            draft.whole(field, path)
    draft.put("sp", bool(fields.flag("distributed.sequence_parallel")))


def _read_adapters(draft: Draft) -> None:
    fields = draft.fields
    if not fields.under("peft"):
        return
    draft.whole("lora_rank", "peft.dim")
    draft.put("lora_dropout", fields.number("peft.dropout"), "peft.dropout")
    if fields.flag("peft.match_all_linear"):
        draft.put("lora_targets", ("all",), "peft.match_all_linear")
        return
    found, _ = targets(word.strip("*") for word in fields.words("peft.target_modules"))
    draft.put("lora_targets", found or None, "peft.target_modules")

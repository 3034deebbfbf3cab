"""DeepSpeed's configuration JSON, alone or beside the file of a trainer."""

from __future__ import annotations

from tonnage.formats.document import Document
from tonnage.formats.hugging_face.part import Part, part
from tonnage.formats.hugging_face.zero import read_deepspeed
from tonnage.formats.keys import Fields

KIND = "deepspeed"


def detect(document: Document) -> bool:
    """Whether the keys are those of a DeepSpeed configuration."""
    if document.any("zero_optimization", "train_micro_batch_size_per_gpu"):
        return True
    return document.has("train_batch_size") and document.any(
        "optimizer", "fp16", "bf16", "gradient_accumulation_steps"
    )


def parts(document: Document) -> tuple[Part, ...]:
    """The configuration.

    Raises:
        InputError: a key has no value of its type.
    """
    fields = Fields(document.values)
    return (part(KIND, document, fields, read_deepspeed(fields)),)

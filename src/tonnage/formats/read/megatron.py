"""Megatron-LM: launch scripts, argument lists, YAML arguments and the functional tests' files.

The options and their defaults are those of ``megatron/training/arguments.py``
(https://github.com/NVIDIA/Megatron-LM); its functional tests keep them under ``MODEL_ARGS``.
"""

from __future__ import annotations

from collections.abc import Mapping

from tonnage.formats.command import canonical, read_command
from tonnage.formats.detect_error import not_a_launch
from tonnage.formats.document import Document
from tonnage.formats.draft import Draft
from tonnage.formats.keys import Fields
from tonnage.formats.launch import Launch
from tonnage.formats.megatron_hybrid import is_hybrid, read_hybrid
from tonnage.formats.megatron_ignored import IGNORED
from tonnage.formats.megatron_names import Names
from tonnage.formats.megatron_plan import (
    read_batch,
    read_experts,
    read_kernels,
    read_optimizer,
    read_parallel,
    read_precision,
    read_predictors,
    read_recompute,
)
from tonnage.formats.megatron_shape import read_shape

TELLING = frozenset(
    """
    num-layers hidden-size num-attention-heads tensor-model-parallel-size seq-length
    pipeline-model-parallel-size micro-batch-size global-batch-size train-iters train-samples
    max-position-embeddings use-distributed-optimizer sequence-parallel use-mcore-models
    """.split()
)
ENOUGH = 3
"""Options of `TELLING` that make a command one of Megatron's."""

_AROUND = (
    "ENV_VARS.*",
    "TEST_TYPE",
    "LAUNCHER",
    "BEFORE_SCRIPT",
    "METRICS*",
    "MODEL_TYPE*",
    "ITERATIONS",
    "MODE",
)
_YAML_SECTIONS = ("language_model", "model_parallel")
_SERVES = ("inference", "generate", "server", "eval", "convert", "preprocess", "export")


def detect(document: Document) -> bool:
    """Whether the content is Megatron's."""
    if document.syntax == "shell":
        return telling(read_command(document).options) >= ENOUGH
    if document.any("MODEL_ARGS"):
        return True
    return document.has(*_YAML_SECTIONS) or telling(_dashed(document.values)) >= ENOUGH


def telling(options: Mapping[str, object]) -> int:
    """How many of the options are ones that tell a Megatron command."""
    return sum(canonical(name) in TELLING for name in options)


def _dashed(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if str(name).startswith("--")}


def read(document: Document) -> Launch:
    """Read a launch of Megatron-LM.

    Raises:
        InputError: it starts no training, or an option has no value of its type.
    """
    draft, names = start(document, kind="megatron", stack="megatron")
    fields = draft.fields
    if names.flag("perform-rl-step"):
        raise not_a_launch(document, "it generates text in each step, which is not modelled")
    fill(draft, names)
    if is_hybrid(names):
        read_hybrid(draft, names)
    else:
        read_shape(draft, names)
    teacher = names("export-kd-teacher-load")[0]
    fields.leave(teacher, "the model that is distilled runs forward in each step: left out")
    names.ignore(*IGNORED, "export-kd-*", "export-te-mcore-model", "export-model-type")
    fields.ignore(*_AROUND)
    return draft.finish()


def start(document: Document, *, kind: str, stack: str) -> tuple[Draft, Names]:
    """The keys of a file and where it keeps Megatron's options.

    Raises:
        InputError: it starts no training.
    """
    if document.syntax == "shell":
        command = read_command(document)
        fields = Fields(command.options)
        _insist_on_training(document, command.program, fields)
        draft = Draft(kind, fields, stack)
        draft.gpus = command.gpus
        for note in command.notes:
            fields.note(note)
        return draft, Names(fields)
    fields = Fields(document.values)
    mode = str(document.values.get("MODE", ""))
    _insist_on_training(document, mode, fields)
    sections = ("MODEL_ARGS", *_YAML_SECTIONS, "")
    return Draft(kind, fields, stack), Names(fields, sections)


def _insist_on_training(document: Document, program: str, fields: Fields) -> None:
    last = program.rsplit("/", 1)[-1]
    if any(word in last for word in _SERVES):
        raise not_a_launch(document, f"it runs {last}")
    if any(
        canonical(p.rsplit(".", 1)[-1]) in ("prompts", "num-tokens-to-generate")
        for p in fields.leaves
    ):
        raise not_a_launch(document, "it generates text")


def fill(draft: Draft, names: Names) -> None:
    """Everything of the plan, with Megatron-LM's own defaults."""
    local = (names.word("transformer-impl") or "transformer_engine") == "local"
    read_parallel(draft, names)
    read_batch(draft, names)
    read_precision(draft, names)
    read_recompute(draft, names)
    read_kernels(draft, names, fused=not local)
    read_optimizer(draft, names)
    read_experts(draft, names, dispatcher="allgather")
    read_predictors(draft, names)

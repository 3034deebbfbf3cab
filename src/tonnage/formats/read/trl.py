"""TRL's trainers: SFT, DPO, KTO, and those that are refused by name.

Source: TRL 1.x, ``trainer/*_config.py``, ``trainer/model_config.py`` and ``scripts``; recipes
of the alignment handbook have the same keys.
"""

from __future__ import annotations

import re

from tonnage.formats.document import Document
from tonnage.formats.hugging_face.beside import referred
from tonnage.formats.hugging_face.model import (
    ROLLOUTS,
    preference,
    read_model,
    refuse_dora,
    refuse_method,
    switched,
)
from tonnage.formats.hugging_face.part import Part, part
from tonnage.formats.hugging_face.run import Run, overlay
from tonnage.formats.hugging_face.trainer import NESTED, OPTIMIZER, read_arguments
from tonnage.formats.keys import Fields
from tonnage.formats.options import options
from tonnage.formats.read.transformers import NESTED_SCRIPT

KIND = "trl"

USUAL = Run(
    mixed="bf16",
    loaded="fp32",
    samples=8,
    grad_acc=1,
    seq=1024,
    recompute=True,
    optimizer=OPTIMIZER,
)
"""TRL's own defaults: bf16 over weights in fp32, 1024 tokens, activations recomputed."""

_MARKS = (
    *("dataset_name", "dataset_mixer", "dataset_mixture", "use_peft", "lora_r", "packing"),
    *("max_prompt_length", "num_generations", "dataset_text_field"),
    *("max_completion_length", "bnb_4bit_quant_type", "precompute_ref_log_probs"),
)
_TRAINS = (
    *("per_device_train_batch_size", "learning_rate", "output_dir"),
    "gradient_accumulation_steps",
)

_ROLLOUT_KEYS = {"num_generations": "grpo", "reward_funcs": "grpo", "num_ppo_epochs": "ppo"}
_ROLLOUT_KEYS |= {"teacher_model_name_or_path": "gkd", "reward_model_path": "ppo"}
_ROLLOUT_KEYS |= {"center_rewards_coefficient": "reward"}


def detect(document: Document) -> bool:
    """Whether TRL's own keys stand beside the Trainer's."""
    return document.any(*_MARKS) and document.any(*_TRAINS) and not document.has("template")


def parts(document: Document) -> tuple[Part, ...]:
    """The arguments, and the DeepSpeed configuration that they name.

    Raises:
        NotModelledError: a trainer that generates or trains a reward model.
        InputError: a key has no value of its type.
    """
    fields = Fields(document.values)
    method = _method(document, fields)
    beside = referred(document, fields, "deepspeed")
    run, _ = overlay(read_arguments(fields), read_model(fields, dropout=0.05))
    run = run.filled(seq=fields.whole("max_length", "max_seq_length", "max_seq_len", least=1))
    if method in _PREFERENCES:
        held = preference(fields, "trainer", method, reference=method in ("dpo", "kto"))
        run, _ = overlay(run, held)
    refuse_dora(fields, "use_dora")
    on = switched(fields, packing="packing", offload_activations="activation_offloading")
    run, _ = overlay(run, Run(plan=on))
    fields.ignore(*options(KIND, "transformers"), *NESTED, *NESTED_SCRIPT)
    return (*beside, part(KIND, document, fields, run, USUAL))


_PREFERENCES = ("dpo", "kto", "orpo", "cpo", "simpo")


_NAMED = re.compile(r"(?<![a-z])(orpo|cpo|simpo|kto)(?![a-z])", re.IGNORECASE)
_NAMES = ("output_dir", "hub_model_id", "run_name")


def _method(document: Document, fields: Fields) -> str:
    """The trainer, by the keys that it alone has: a file does not name it.

    ORPO, CPO and KTO share DPO's keys: what a run is called tells them apart.
    """
    named = (fields.word("trainer", "trl_command") or "").lower().removesuffix("trainer")
    for key, method in _ROLLOUT_KEYS.items():
        if fields.has(key):
            refuse_method(key, method)
    if named in ROLLOUTS or named == "reward":
        refuse_method("trainer", named)
    if named:
        return named
    if fields.has("desirable_weight", "undesirable_weight"):
        return "kto"
    if fields.has("cpo_alpha", "simpo_gamma"):
        return "cpo"
    if fields.has("precompute_ref_log_probs", "f_divergence_type"):
        return "dpo"
    if not fields.has("beta", "max_prompt_length"):
        return "sft"
    called = " ".join((document.name, *(str(fields.peek(path) or "") for path in _NAMES)))
    found = _NAMED.search(called)
    if found is None:
        return "dpo"
    method = found[1].lower()
    fields.note(f"{method} by the name of the run: its keys are DPO's")
    return method

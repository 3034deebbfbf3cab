"""LitGPT's YAML: fine-tuning, whole or with LoRA, and pre-training.

Source: LitGPT 0.5, ``finetune/full.py``, ``finetune/lora.py``, ``pretrain.py`` and ``args.py``.
Several devices are FSDP, with activation checkpoints in fine-tuning.
"""

from __future__ import annotations

from tonnage.formats.detect_error import not_a_launch
from tonnage.formats.document import Document
from tonnage.formats.draft import Draft
from tonnage.formats.hugging_face.optimizers import find_optimizer
from tonnage.formats.keys import Fields
from tonnage.formats.launch import Launch
from tonnage.formats.read.litgpt_command import is_command, unfold
from tonnage.formats.read.litgpt_shape import read_shape, section
from tonnage.plan.plan import LoraTarget

KIND = "litgpt"

_PRECISIONS = {
    "bf16-true": "bf16",
    "bf16-mixed": "bf16-amp",
    "32-true": "fp32",
    "16-true": "fp16-no-master",
    "16-mixed": "fp16-amp",
}
_BASES = {
    "bnb.nf4": "nf4",
    "bnb.nf4-dq": "nf4-dq",
    "bnb.fp4": "nf4",
    "bnb.fp4-dq": "nf4-dq",
    "bnb.int8-training": "int8",
}
"""Quantised bases; fp4 takes as many bits as nf4."""

_TARGETS: tuple[tuple[str, bool, tuple[LoraTarget, ...]], ...] = (
    ("lora_query", True, ("q_proj",)),
    ("lora_key", False, ("k_proj",)),
    ("lora_value", True, ("v_proj",)),
    ("lora_projection", False, ("o_proj",)),
    ("lora_mlp", False, ("gate_proj", "up_proj", "down_proj")),
    ("lora_head", False, ("lm_head",)),
)
"""Key, its default, and the layers that it adapts."""

_IRRELEVANT = (
    *("out_dir", "data*", "eval*", "logger_name", "log*", "seed", "resume", "access_token"),
    *(
        "optimizer.*",
        "optimizer",
        "lora_alpha",
        "initial_checkpoint_dir",
        "tokenizer_dir",
        "compiler",
    ),
    *("train.save_interval", "train.log_interval", "train.lr_warmup_*", "train.epochs"),
    *("train.max_norm", "train.min_lr", "train.max_time", "train.learning_rate"),
    *("train.weight_decay", "train.beta*", "executors", "checkpoint_dir", "model_name"),
)


def detect(document: Document) -> bool:
    """Whether LitGPT's ``train`` section stands beside a checkpoint, or ``litgpt`` starts one."""
    if document.syntax == "shell":
        return is_command(document)
    sizes = document.any(
        "train.micro_batch_size", "train.global_batch_size", "train.max_seq_length"
    )
    return sizes and document.any("checkpoint_dir", "model_name", "model_config", "out_dir")


def read(document: Document) -> Launch:
    """Read a configuration of ``litgpt finetune``, ``finetune_lora`` or ``pretrain``.

    Raises:
        InputError: it starts no training, or a key has no value of its type.
    """
    started = document.syntax == "shell"
    document = unfold(document) if started else document
    fields = Fields(document.values)
    if not started and not fields.has("train.micro_batch_size", "train.global_batch_size"):
        raise not_a_launch(document, "it names no batch")
    draft = Draft(KIND, fields, KIND)
    pretrains = fields.has("model_name", "model_config") or not fields.has("checkpoint_dir")
    _model(draft)
    count = _devices(draft, pretrains=pretrains)
    _batch(draft, count, pretrains=pretrains)
    _precision(draft)
    _adapters(draft)
    _optimizer(draft)
    draft.put("zero", 3)
    if not pretrains and (count or 2) > 1:
        draft.put("recompute", "full")
    fields.ignore(*_IRRELEVANT)
    return draft.finish()


def _model(draft: Draft) -> None:
    """The hub's name, which LitGPT keeps as the folder of a checkpoint."""
    fields = draft.fields
    folder = fields.word("checkpoint_dir", "initial_checkpoint_dir")
    name = fields.word("model_name", "model_config.name")
    if folder is not None:
        draft.model = "/".join(folder.rstrip("/").split("/")[-2:]).removeprefix("checkpoints/")
    elif name is not None:
        draft.model = name
    spelt = section(fields)
    if spelt is not None:  # LitGPT takes it over the name beside it
        draft.model, draft.architecture = None, read_shape(fields, spelt)
    fields.ignore("model_config")


def _devices(draft: Draft, *, pretrains: bool) -> int | None:
    """Devices in all; None where LitGPT takes what there is, as pre-training does untold."""
    fields = draft.fields
    given = fields.peek("devices")
    if str(given).lower() in ("auto", "-1") or (given is None and pretrains):
        fields.use("devices", "num_nodes")
        return None
    each = fields.whole("devices", least=1) or 1
    nodes = fields.whole("num_nodes", least=1) or 1
    draft.gpus = each * nodes
    return draft.gpus


def _batch(draft: Draft, count: int | None, *, pretrains: bool) -> None:
    fields = draft.fields
    usual = 4 if pretrains else 1
    mbs = fields.whole("train.micro_batch_size", least=1) or usual
    draft.put("mbs", mbs, "train.micro_batch_size")
    batch = fields.whole("train.global_batch_size", least=1) or (512 if pretrains else 16)
    if count is None:
        draft.put("gbs", batch, "train.global_batch_size")
    else:  # as TrainArgs.gradient_accumulation_iters: both divisions round down
        draft.put("grad_acc", max(1, batch // count // mbs), "train.global_batch_size")
    if draft.whole("seq", "train.max_seq_length") is None:
        if pretrains and draft.architecture is not None:
            draft.put("seq", draft.architecture.max_positions, "train.max_seq_length")
        else:
            draft.lack("seq")
    draft.tokens = fields.whole("train.max_tokens", least=1)
    draft.steps = fields.whole("train.max_steps", least=1)
    if fields.flag("train.tie_embeddings"):
        draft.habit("ties_embeddings", True)


def _precision(draft: Draft) -> None:
    fields = draft.fields
    word = (fields.word("precision") or "bf16-mixed").lower()
    if word not in _PRECISIONS:
        fields.fail("precision", word, ", ".join(_PRECISIONS))
    draft.put("precision", _PRECISIONS[word], "precision")


def _adapters(draft: Draft) -> None:
    """LoRA where a rank is named; the head's loss is then taken in chunks."""
    fields = draft.fields
    base = fields.word("quantize")
    if not fields.has("lora_r") and base is None:
        fields.ignore("lora_*")
        return
    targets: list[LoraTarget] = []
    for path, usual, layers in _TARGETS:
        on = fields.flag(path)
        targets += layers if (usual if on is None else on) else ()
    draft.put("lora_rank", fields.whole("lora_r", least=1) or 8, "lora_r")
    draft.put("lora_targets", tuple(targets), *(path for path, _, _ in _TARGETS))
    dropout = fields.number("lora_dropout")
    draft.put("lora_dropout", 0.05 if dropout is None else dropout, "lora_dropout")
    draft.put("loss", "upcast-in-chunks")
    if base is not None:
        if base not in _BASES:
            fields.fail("quantize", base, ", ".join(_BASES))
        draft.put("lora_base", _BASES[base], "quantize")


def _optimizer(draft: Draft) -> None:
    fields = draft.fields
    name = fields.word("optimizer.class_path", "optimizer") if fields.under("optimizer") else None
    found = find_optimizer(name or "AdamW")
    if found is None:
        fields.leave("optimizer.class_path", "not modelled: weighed as adamw")
        return
    draft.put("optimizer", found.name, "optimizer.class_path", "optimizer")
    if found.note:
        fields.note(f"optimizer {name}: {found.note}")
    if fields.flag("optimizer.init_args.fused"):
        draft.put("optimizer_step", "fused", "optimizer.init_args.fused")

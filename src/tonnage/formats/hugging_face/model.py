"""What the model is and what of it trains, by the keys of TRL's ``ModelConfig`` and its kin.

Sources: TRL, ``trainer/model_config.py``; the example scripts of transformers
(``run_clm.py``, ``ModelArguments``); PEFT's ``LoraConfig``.
"""

from __future__ import annotations

from collections.abc import Sequence

from tonnage.errors import NotModelledError
from tonnage.formats.hugging_face.adapters import read_saved, read_targets
from tonnage.formats.hugging_face.run import Run, Stored
from tonnage.formats.keys import Fields

_STORED: dict[str, Stored] = {
    **dict.fromkeys(("float32", "fp32", "32"), "fp32"),
    **dict.fromkeys(("bfloat16", "bf16"), "bf16"),
    **dict.fromkeys(("float16", "fp16", "half"), "fp16"),
}

_KERNELS: dict[str, dict[str, object]] = {
    "eager": {"attention": "eager"},
    "sdpa": {},
    "flash_attention_2": {"attention_version": 2},
    "flash_attention_3": {"attention_version": 3},
    "flash_attention": {},
    "flash_attn": {},
    "flex_attention": {},
    "sage": {},
    "xformers": {},
    "auto": {},
    "disabled": {},
    "fa2": {"attention_version": 2},
    "fa3": {"attention_version": 3},
}
"""Names of attention kernels; all but ``eager`` keep no matrix of scores."""


def read_stored(fields: Fields, *paths: str) -> Stored | None:
    """The format that weights are loaded in; ``auto`` is what the checkpoint holds."""
    word = (fields.word(*paths) or "auto").lower().removeprefix("torch.")
    if word in ("auto", "none"):
        return None
    if word not in _STORED:
        fields.fail(paths[0], word, ", ".join(("auto", *_STORED)))
    return _STORED[word]


def read_attention(fields: Fields, *paths: str) -> dict[str, object]:
    """The attention kernel as fields of a plan; an unknown one is not understood."""
    word = fields.word(*paths)
    if word is None:
        return {}
    key = word.lower().rsplit("/", 1)[-1].replace("-", "_")
    for name, plan in _KERNELS.items():
        if key == name:
            return dict(plan)
    if "flash" in key or "fa" in key:  # kernels-community/flash-attn3 and the like
        return {"attention_version": 3} if "3" in key else {}
    path = next(path for path in paths if fields.has(path))
    fields.leave(path, "no attention kernel that is known: weighed as one that keeps no scores")
    return {}


def adapter_plan(
    fields: Fields,
    *,
    rank: int | None,
    targets: Sequence[str],
    target_path: str,
    dropout: float | None,
    saved: Sequence[str] = (),
    saved_path: str = "",
    base: str | None = None,
) -> dict[str, object]:
    """Adapters as fields of a plan; a layer that is not known is said.

    Args:
        fields: the file.
        rank: rank of the adapters.
        targets: adapted layers by PEFT's names; none: those that PEFT picks itself.
        target_path: their key.
        dropout: their dropout.
        saved: modules trained whole.
        saved_path: their key.
        base: format of a quantised base.
    """
    plan: dict[str, object] = {"lora_rank": rank, "lora_dropout": dropout or 0.0}
    found = read_targets(targets)
    for name in found.unknown:
        fields.note(f"{target_path}: {name} is no layer that takes an adapter here: left out")
    if targets and not found.known:
        fields.leave(target_path, "names no layer that is known: weighed as all linear layers")
    plan["lora_targets"] = found.known or (("q_proj", "v_proj") if not targets else ("all",))
    whole, rest = read_saved(saved)
    for name in rest:
        fields.note(f"{saved_path}: {name} is not weighed as a module that trains whole")
    if whole:
        plan["lora_saved"] = whole
    if base is not None:
        plan["lora_base"] = base
    return plan


def four_bits(*, nested: bool | None) -> str:
    """Bitsandbytes' 4 bits: fp4 takes as many as nf4."""
    return "nf4-dq" if nested else "nf4"


def prequantised(name: str | None) -> str | None:
    """The format of a base whose name says that its checkpoint is quantised."""
    word = (name or "").lower()
    if any(mark in word for mark in ("awq", "gptq")):
        return "gptq4-g128"
    if "bnb-4bit" in word or "4bit-bnb" in word:
        return "nf4-dq"
    return None


def note_checkpoint(fields: Fields, name: str | None) -> None:
    """A base that is quantised already is weighed as such, and that is said."""
    if prequantised(name):
        fields.note(f"{name}: a base of 4 bits, by its name")


def read_model(fields: Fields, *, dropout: float = 0.0) -> Run:
    """Model, formats and adapters by the keys of TRL and of example scripts.

    Args:
        fields: the file.
        dropout: of adapters, where none is named.

    Raises:
        InputError: a key has no value of its type.
    """
    name = fields.word("model_name_or_path", "model_name", "model_id", "model", "model_path")
    plan = read_attention(fields, "attn_implementation", "model_init_kwargs.attn_implementation")
    if fields.flag("use_flash_attention_2", "use_flash_attn", "flash_attn"):
        plan.setdefault("attention_version", 2)
    if _adapts(fields):
        plan.update(_adapters(fields, name, dropout))
    stored = read_stored(
        fields, "dtype", "torch_dtype", "model_init_kwargs.dtype", "model_init_kwargs.torch_dtype"
    )
    return Run(model=name, loaded=stored, plan=plan)


_RANK = ("lora_r", "lora_rank", "peft_config.r", "lora_config.r", "r")


def _adapts(fields: Fields) -> bool:
    """Whether there are adapters: said, or meant by a rank where no switch is there."""
    switches = ("use_peft", "use_lora", "lora_enable", "lora")
    given = [fields.flag(path) for path in switches if fields.has(path)]
    return any(given) if given else any(fields.has(path) for path in _RANK)


def _adapters(fields: Fields, name: str | None, usual: float) -> dict[str, object]:
    rank = fields.whole(*_RANK, least=1) or 16
    four = fields.flag("load_in_4bit", "use_4bit_quantization", "quantization_config.load_in_4bit")
    eight = fields.flag("load_in_8bit", "use_8bit_quantization", "quantization_config.load_in_8bit")
    nested = fields.flag(
        "use_bnb_nested_quant",
        "use_nested_quant",
        "bnb_4bit_use_double_quant",
        "quantization_config.bnb_4bit_use_double_quant",
        "use_double_quant",
    )
    fields.word("bnb_4bit_quant_type", "quantization_config.bnb_4bit_quant_type")
    base = four_bits(nested=nested) if four else "int8" if eight else None
    note_checkpoint(fields, name)
    paths = (
        *("lora_target_modules", "target_modules", "peft_config.target_modules"),
        "lora_config.target_modules",
    )
    dropout = fields.number("lora_dropout", "peft_config.lora_dropout", "lora_config.lora_dropout")
    saved = ("lora_modules_to_save", "modules_to_save", "peft_config.modules_to_save")
    return adapter_plan(
        fields,
        rank=rank,
        targets=fields.words(*paths),
        target_path=paths[0],
        dropout=usual if dropout is None else dropout,
        saved=fields.words(*saved),
        saved_path=saved[0],
        base=base or prequantised(name),
    )


def refuse_dora(fields: Fields, *paths: str) -> None:
    """DoRA keeps a norm of each adapted weight beside LoRA's tensors, which is not weighed."""
    for path in paths:
        if fields.flag(path):
            fields.leave(path, "weighed as plain LoRA: DoRA's magnitudes and norms are left out")


def preference(fields: Fields, path: str, method: str, *, reference: bool = True) -> Run:
    """A preference method: pairs of answers, and a reference model beside the one that trains.

    Args:
        fields: the file.
        path: the key that names the method.
        method: its name.
        reference: the method holds a frozen copy of the model, or runs the base of its adapters.
    """
    pairs = 1 if method == "kto" else 2
    if pairs == 2:
        fields.note(f"{path} {method}: a pair of answers is two sequences of a micro-batch")
    if not reference:
        return Run(sequences=pairs)
    fields.note(
        f"{path} {method}: a frozen reference model runs forward beside the one that trains"
    )
    fields.says("reference_model", path)
    return Run(sequences=pairs, plan={"reference_model": True})


ROLLOUTS = frozenset(
    {"ppo", "grpo", "rloo", "gkd", "gold", "online_dpo", "nash_md", "xpo", "reinforce"}
)
ROLLOUTS |= {"gspo", "dapo", "gdpo", "ebft", "distillation", "prm", "async_grpo", "opd"}


def refuse_method(path: str, method: str) -> None:
    """Refuse what trains otherwise than by one pass over given sequences.

    Raises:
        NotModelledError: the method generates, distils, or trains a reward model.
    """
    why = "is no training launch that is modelled: it generates or asks other models in its step"
    if method in ("rm", "reward", "reward_trainer", "seq_cls", "embedding", "reranker"):
        why = "is no training launch that is modelled: its head is not one of tokens"
    raise NotModelledError(
        field=f"config.{path}",
        value=method,
        problem=why,
        accepted="supervised or DPO-like training",
    )


def switched(fields: Fields, **switches: str) -> dict[str, object]:
    """Fields of a plan that one key each switches on.

    Args:
        fields: the file.
        switches: the key of each field.
    """
    plan: dict[str, object] = {}
    for field, path in switches.items():
        if fields.flag(path):
            plan[field] = True
            fields.says(field, path)
    return plan

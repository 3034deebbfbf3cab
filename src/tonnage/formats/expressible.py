"""What a tool can be told, as values of the knobs of a search.

A search for a tool is kept to these, so that the plan that it finds can be written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from tonnage.errors import InputError
from tonnage.formats.export import tool
from tonnage.formats.megatron_plan import MODULES
from tonnage.formats.write.megatron import DELAYED
from tonnage.formats.write.torchtitan import SCHEDULES
from tonnage.search import LOOSE, Question, Ties

Choices: TypeAlias = dict[str, tuple[Any, ...]]

_EVERY_LAYER: Choices = {"recompute_method": ("uniform",), "recompute_num_layers": (1,)}
_OWN_SPLIT: Choices = {
    "first_stage_layers": (None,),
    "last_stage_layers": (None,),
    "account_for_embedding": (False,),
    "account_for_loss": (False,),
}
_NO_HSDP: Choices = {"hsdp_shard": (None,)}
_IN_HOST: Choices = {"offload_parameters": (False,)}


def kept_to(kind: str, question: Question) -> Question:
    """The question, on the tool's stack and kept to what the tool can be told.

    Args:
        kind: the tool.
        question: what is asked; its runtime is one of the tool's.

    Raises:
        InputError: there is no such tool, or nothing that is asked for can be told it.
    """
    chosen = tool(kind)
    chosen.runtime(question.base.runtime)
    rule = _RULES.get(chosen.name)
    if rule is None:
        return question
    choices = dict(question.choices)
    for knob, offered in rule(question).items():
        asked = choices.get(knob, offered)
        kept = tuple(value for value in asked if value in offered)
        if not kept:
            raise InputError(
                field=knob,
                value=", ".join(map(_word, asked)),
                problem=f"is nothing that {chosen.name} can be told",
                accepted=", ".join(map(_word, offered)) or "leave it out",
            )
        choices[knob] = kept
    return dataclasses.replace(question, choices=choices, ties=_TIES.get(chosen.name, LOOSE))


def untold(kind: str, question: Question, wanted: Mapping[str, Any]) -> str:
    """Why a tool cannot be told the values that are asked about; empty: it can.

    Args:
        kind: the tool.
        question: the search, before it is kept to the tool.
        wanted: values by knob.
    """
    rule = _RULES.get(tool(kind).name)
    for knob, offered in (rule(question) if rule else {}).items():
        if knob in wanted and wanted[knob] not in offered:
            accepted = ", ".join(map(_word, offered))
            return f"{knob} {_word(wanted[knob])} is nothing that {kind} can be told ({accepted})"
    return ""


def _word(value: object) -> str:
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value).lower()


def _megatron(question: Question) -> Choices:
    """Any split, and what of a layer is run again by the names of its modules."""
    base = question.base
    modules = [m for m in MODULES if m not in (DELAYED if base.precision == "fp8" else ())]
    vees = ("dualpipev",) if base.runtime == "mindspeed" else ()
    return {
        "schedule": ("1f1b", "interleaved", *vees),
        "recompute_modules": _sets(question, modules),
        **_IN_HOST,
    }


def _sets(question: Question, modules: list[str]) -> tuple[tuple[str, ...], ...]:
    """The sets of modules that a search tries, of those that the tool has a name for."""
    from tonnage.search.modes import selections

    asked = question.choices.get("recompute_modules", selections(question.architecture))
    known = [tuple(name for name in each if name in modules) for each in asked]
    if "recompute_modules" in question.choices:
        known = [each for each in known if each in asked]
    return tuple(dict.fromkeys(each for each in known if each))


def _nanotron(question: Question) -> Choices:
    """Stages are cut by cost, and a layer is run again as a whole, or its experts are."""
    routed = question.architecture.is_moe
    return {
        "schedule": ("1f1b", "gpipe"),
        "recompute": ("none", "full", "selective") if routed else ("none", "full"),
        "recompute_modules": (("moe",),),
        **(_EVERY_LAYER | _OWN_SPLIT | _NO_HSDP | _IN_HOST),
    }


def _torchtitan(_: Question) -> Choices:
    """Any split; a layer is run again as a whole, every second one, or all but its products."""
    return {
        "schedule": tuple(SCHEDULES),
        "recompute_modules": (("outputs",), ("every-second-layer",)),
        **_EVERY_LAYER,
    }


def _deepspeed(_: Question) -> Choices:
    return dict(_NO_HSDP)


def _accelerate(question: Question) -> Choices:
    """Its file has keys for each engine; what the training script decides is free."""
    runtime = question.base.runtime
    if runtime == "megatron":
        return {
            "vpp": (1,),
            "schedule": ("1f1b",),
            "recompute_modules": (("core_attn",),),
            **(_OWN_SPLIT | _NO_HSDP | _IN_HOST),
        }
    if runtime == "accelerate":
        hosts = {c.gpus // c.nodes for c in question.clusters if c.nodes > 1}
        return {"hsdp_shard": (None, *sorted(hosts))}
    return {} if runtime == "accelerate-fsdp2" else dict(_NO_HSDP)


_RULES: dict[str, Callable[[Question], Choices]] = {
    "megatron": _megatron,
    "mindspeed": _megatron,
    "nanotron": _nanotron,
    "torchtitan": _torchtitan,
    "deepspeed": _deepspeed,
    "accelerate": _accelerate,
}
_TIES = {
    "torchtitan": Ties(sp_with_tp=True, least_shard=2, shard_by_cp=True),
    "accelerate": Ties(shard_by_cp=True),
}

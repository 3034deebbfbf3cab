"""From what is said of a Hugging Face run to a plan: which runtime, which recipe, which habits.

Sources: transformers 5 (``trainer.py``, ``training_args.py``), accelerate 1.x
(``accelerator.py``: ``prepare_model``, ``_prepare_fsdp2``; ``utils/fsdp_utils.py``), DeepSpeed
(``runtime/config.py``) and PEFT (``_cast_adapter_dtype``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tonnage.formats.hugging_face.optimizers import find_optimizer
from tonnage.formats.hugging_face.run import Run
from tonnage.runtime import RUNTIMES


@dataclass(frozen=True, kw_only=True)
class Settled:
    """A run as a plan.

    Attributes:
        plan: fields of `tonnage.plan.Plan`.
        notes: what was assumed, in sentences.
        lacks: what is not said and no default fills.
    """

    plan: dict[str, object]
    notes: tuple[str, ...]
    lacks: tuple[str, ...]


def settle(run: Run, gpus: int | None) -> Settled:
    """The plan of a run.

    Args:
        run: what its files say, with the defaults of their tools.
        gpus: devices in all; None: not known, and taken to be several.
    """
    notes: list[str] = []
    runtime = _runtime(run, gpus, notes)
    plan: dict[str, object] = {"runtime": runtime, **run.plan}
    plan.update(_recipe(run, notes))
    if run.engine == "none":
        plan["zero"] = 0
    plan.update(_batch(run, gpus, notes))
    if run.seq is not None:
        plan["seq"] = run.seq
    if run.recompute:
        plan.setdefault("recompute", "full")
    if run.shard_in_node:
        _shard_in_node(run, gpus, plan, notes)
    _optimizer(run, plan, notes)
    habits = _habits(run, runtime, plan)
    if habits:
        plan["habits"] = tuple(sorted(habits.items()))
    lacks = [name for name, value in (("model", run.model), ("seq", run.seq)) if value is None]
    if "mbs" not in plan:
        notes.append("micro-batch size 1: no file says how many samples a device takes at once")
    return Settled(plan=plan, notes=tuple(notes), lacks=tuple(lacks))


def _runtime(run: Run, gpus: int | None, notes: list[str]) -> str:
    """The stack that the engine is: DDP or one process where nothing shards."""
    if run.engine in ("fsdp1", "fsdp2", "deepspeed", "megatron"):
        return _RUNTIMES[run.engine]
    count = gpus or run.processes
    if run.processes == 1 and (gpus or 1) > 1:
        notes.append(f"one process is started: weighed as replicas over {gpus} devices")
    return "transformers" if count == 1 else "ddp"


_RUNTIMES = {
    "fsdp1": "accelerate",
    "fsdp2": "accelerate-fsdp2",
    "deepspeed": "deepspeed",
    "megatron": "megatron",
}


def _recipe(run: Run, notes: list[str]) -> dict[str, object]:
    """The precision recipe: what is stored, given what products are computed in.

    Where no file says, it is left to the runtime.
    """
    if run.mixed is None:
        return {}
    mixed, loaded = run.mixed, run.loaded or "bf16"
    if run.loaded is None and run.engine not in ("deepspeed", "megatron"):
        notes.append("weights as transformers 5 loads them: the checkpoint's bf16")
    if mixed == "fp8":
        return _narrow(run, notes)
    if run.engine == "megatron":
        return {"precision": {"bf16": "bf16-mixed", "fp16": "fp16-mixed"}.get(mixed, "fp32")}
    if run.engine == "deepspeed" and mixed != "no":
        name = "bf16-mixed-bf16-grads" if mixed == "bf16" else "fp16-mixed"
        return {"precision": name}
    shards = run.engine in ("fsdp1", "fsdp2")
    if mixed == "no" and run.engine == "deepspeed" and run.loaded is None:
        return {"precision": "fp32"}
    if mixed == "no":
        plain = "tf32" if run.tf32 else "fp32"
        return {"precision": {"bf16": "bf16", "fp16": "fp16-no-master"}.get(loaded, plain)}
    trains_base = run.plan.get("lora_rank") is None
    wide = loaded == "fp32" or (trains_base and (run.upcast or shards))
    recipe: dict[str, object] = {"precision": f"{mixed}-amp"}
    if not wide:
        recipe = {"precision": "bf16" if mixed == "bf16" else "fp16-no-master"}
    if shards:
        recipe["reduction_dtype"] = mixed
    return recipe


def _narrow(run: Run, notes: list[str]) -> dict[str, object]:
    """FP8 products over bf16: torchao and Transformer Engine inside Hugging Face modules."""
    if run.engine == "deepspeed":
        return {"precision": "fp8", "gradients_dtype": "bf16", "reduction_dtype": "bf16"}
    notes.append("fp8: weighed with operands quantised as products are made (torchao)")
    return {"precision": "fp8-amp"}


def _batch(run: Run, gpus: int | None, notes: list[str]) -> dict[str, object]:
    """Micro-batch and accumulation, in sequences."""
    each = run.sequences or 1
    samples, steps = run.samples, run.grad_acc
    replicas = _replicas(run, gpus)
    if samples is None and run.batch is not None and replicas:
        samples = max(1, run.batch // (replicas * (steps or 1)))
    plan: dict[str, object] = {} if samples is None else {"mbs": samples * each}
    if steps is None and run.batch_at_least is not None and replicas:
        steps = max(1, math.ceil(run.batch_at_least / ((samples or 1) * replicas)))
    if steps is None and run.batch is not None:
        return {**plan, "gbs": run.batch * each}
    if steps is not None:
        plan["grad_acc"] = steps
        if run.batch and samples and replicas and run.batch != samples * steps * replicas:
            notes.append(
                f"batch {run.batch} is not {samples} × {steps} × {replicas} replicas: "
                f"weighed with {samples} × {steps}"
            )
    return plan


def _replicas(run: Run, gpus: int | None) -> int | None:
    count = gpus or run.processes
    if count is None:
        return None
    split = math.prod(int(str(run.plan.get(axis, 1))) for axis in ("tp", "pp", "cp"))
    return max(1, count // split)


def _shard_in_node(run: Run, gpus: int | None, plan: dict[str, object], notes: list[str]) -> None:
    """FSDP1's hybrid strategies shard over the ranks of one machine."""
    if run.machines in (None, 1):
        notes.append("sharded inside each machine: with several, give --hsdp-shard")
        return
    count = run.processes or gpus
    if count and count % run.machines == 0:
        plan["hsdp_shard"] = count // run.machines


def _optimizer(run: Run, plan: dict[str, object], notes: list[str]) -> None:
    if run.optimizer is None:
        return
    found = find_optimizer(run.optimizer)
    if found is None:
        plan.setdefault("optimizer", "adamw")
        notes.append(f"optimizer {run.optimizer} is not modelled: weighed as adamw")
        return
    plan.setdefault("optimizer", found.name)
    if found.step is not None:
        plan.setdefault("optimizer_step", found.step)
    if found.note:
        notes.append(f"optimizer {run.optimizer}: {found.note}")


def _habits(run: Run, runtime: str, plan: Mapping[str, object]) -> dict[str, str]:
    """Habits that differ from those of the runtime as it stands."""
    habits = dict(run.habits)
    recompute = plan.get("recompute") == "full"
    if recompute and run.reentrant is not None and runtime != "megatron":
        habits["recompute_ends"] = "whole" if run.reentrant else "early"
        habits["rebuilt_output"] = _text(run.reentrant)
    if run.mixed == "no" and RUNTIMES[runtime].autocast:
        habits["autocast"] = "false"
    if run.engine in ("fsdp1", "fsdp2"):
        habits["accumulates_whole"] = _text(not run.sync_each_batch)
    if plan.get("lora_rank") is not None and runtime == "ddp":
        habits["adapter_format"] = "fp32"
    profile = RUNTIMES[runtime]
    return {name: value for name, value in habits.items() if _usual(profile, name) != value}


def _usual(profile: object, name: str) -> str:
    value = getattr(profile, name)
    return _text(value) if isinstance(value, bool) else str(value)


def _text(value: bool) -> str:
    return "true" if value else "false"

"""A plan as DeepSpeed's configuration JSON (https://www.deepspeed.ai/docs/config-json/)."""

from __future__ import annotations

import json

from tonnage.formats.write.written import SCRIPT_FIELDS, Written, cannot_say, say
from tonnage.plan import Plan, Resolved

RUNTIMES = ("deepspeed",)

_OPTIMIZERS = {
    "adam": "Adam",
    "adagrad": "Adagrad",
    "lion": "Lion",
    "muon": "Muon",
    "sgd": "SGD",
    "rmsprop": "RMSprop",
    "adafactor": "Adafactor",
}
"""Types that DeepSpeed makes itself or takes from torch.optim; AdamW is left to the script."""

_FORMATS = {"bf16": "bf16", "fp16": "fp16", "fp32": "fp32"}
_MIXED = {"bf16-mixed-bf16-grads": "bf16", "fp16-mixed": "fp16", "fp32": "no"}


def write(resolved: Resolved) -> Written:
    """The configuration of a plan whose runtime is DeepSpeed.

    Raises:
        InputError: a field of the plan is one that the file has no key for.
    """
    plan = resolved.plan
    config: dict[str, object] = {
        "train_batch_size": plan.gbs,
        "train_micro_batch_size_per_gpu": plan.mbs,
        "gradient_accumulation_steps": plan.grad_acc,
        **_formats(plan),
        "zero_optimization": _zero(plan),
    }
    beside = say(plan, SCRIPT_FIELDS)
    if plan.optimizer in _OPTIMIZERS:
        config["optimizer"] = {"type": _OPTIMIZERS[plan.optimizer], "params": {}}
    elif plan.optimizer != "adamw":
        beside = (f"the training script decides: optimizer {plan.optimizer}", *beside)
    return Written(text=json.dumps(config, indent=2) + "\n", beside=beside)


def _formats(plan: Plan) -> dict[str, object]:
    """Mixed precision, and the formats of gradients where they are not its own."""
    mixed = _MIXED.get(plan.precision or "")
    if mixed is None:
        raise cannot_say("DeepSpeed", "precision", plan.precision, ", ".join(_MIXED))
    config: dict[str, object] = {
        "bf16": {"enabled": mixed == "bf16"},
        "fp16": {"enabled": mixed == "fp16"},
    }
    for field, path in (
        ("reduction_dtype", "communication_data_type"),
        ("gradients_dtype", "data_types"),
    ):
        value = getattr(plan, field)
        if value is None:
            continue
        if value not in _FORMATS:
            raise cannot_say("DeepSpeed", field, value, ", ".join(_FORMATS))
        config[path] = {"grad_accum_dtype": value} if path == "data_types" else value
    return config


def _zero(plan: Plan) -> dict[str, object]:
    """The stage, what is offloaded, and the buffers that habits of the plan name."""
    stage = plan.zero or 0
    config: dict[str, object] = {"stage": stage}
    habits = dict(plan.habits)
    bucket = habits.pop("bucket_bytes", None)
    if bucket is not None and stage:
        config |= {"reduce_bucket_size": int(bucket) // 2, "overlap_comm": stage == 3}
    live = habits.pop("live_parameters", None)
    if live is not None and stage == 3:
        config["stage3_max_live_parameters"] = int(live)
    if plan.offload_optimizer:
        config["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if plan.offload_parameters:
        config["offload_param"] = {"device": "cpu", "pin_memory": True}
    if plan.hsdp_shard is not None:
        raise cannot_say("DeepSpeed", "hsdp_shard", plan.hsdp_shard, "leave it out")
    return config

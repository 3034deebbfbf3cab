"""DeepSpeed: its configuration JSON (https://www.deepspeed.ai/docs/config-json/)."""

from __future__ import annotations

import json

from tonnage.formats.told import Told
from tonnage.formats.write.script import SCRIPT

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

_FORMATS = ("bf16", "fp16", "fp32")
_GRADIENT_BYTES = 2


def write(told: Told) -> str:
    """The configuration; what a training script decides is said beside it.

    Raises:
        InputError: a field of the plan is one that the file has no key for.
    """
    config: dict[str, object] = {
        "train_batch_size": told.take("gbs"),
        "train_micro_batch_size_per_gpu": told.take("mbs"),
        "gradient_accumulation_steps": told.take("grad_acc"),
        **_formats(told),
        "zero_optimization": _zero(told),
    }
    if told.plan.optimizer in _OPTIMIZERS:
        config["optimizer"] = {"type": _OPTIMIZERS[told.take("optimizer")], "params": {}}
    told.beside("optimizer", *SCRIPT)
    return json.dumps(config, indent=2) + "\n"


def _formats(told: Told) -> dict[str, object]:
    """Mixed precision, and the formats of gradients where they are not its own."""
    mixed = told.choose("precision", bf16_mixed_bf16_grads="bf16", fp16_mixed="fp16", fp32="no")
    config: dict[str, object] = {
        "bf16": {"enabled": mixed == "bf16"},
        "fp16": {"enabled": mixed == "fp16"},
    }
    for field in ("reduction_dtype", "gradients_dtype"):
        value = told.take(field)
        if value is not None and value not in _FORMATS:
            told.refuse(field, ", ".join(_FORMATS))
        if value is not None and field == "reduction_dtype":
            config["communication_data_type"] = value
        elif value is not None:
            config["data_types"] = {"grad_accum_dtype": value}
    return config


def _zero(told: Told) -> dict[str, object]:
    """The stage, what is offloaded, and the buffers that habits of the plan name."""
    stage = told.take("zero")
    config: dict[str, object] = {"stage": stage}
    bucket, live = told.habit("bucket_bytes"), told.habit("live_parameters")
    if bucket is not None and stage:
        config |= {"reduce_bucket_size": int(bucket) // _GRADIENT_BYTES, "overlap_comm": stage == 3}
    if live is not None and stage == 3:
        config["stage3_max_live_parameters"] = int(live)
    if told.take("offload_optimizer"):
        config["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if told.take("offload_parameters"):
        config["offload_param"] = {"device": "cpu", "pin_memory": True}
    return config

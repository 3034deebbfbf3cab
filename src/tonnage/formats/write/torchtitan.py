"""torchtitan: its TOML, as ``JobConfig`` of 0.2 reads it (https://github.com/pytorch/torchtitan)."""

from __future__ import annotations

import json
from typing import TypeAlias

from tonnage.arch import Architecture
from tonnage.formats.told import Told
from tonnage.formats.torchtitan_models import PUBLISHED, find
from tonnage.plan.layout_text import balanced

Section: TypeAlias = dict[str, str | int | float | bool | list[str]]

_SCHEDULES = {"1f1b": "1F1B", "gpipe": "GPipe", "interleaved": "Interleaved1F1B"}
_USUAL_STEPS = 100


def write(told: Told) -> str:
    """The file, with how it is launched in a comment."""
    sections: dict[str, Section] = {
        "model": _model(told),
        "training": _training(told),
        "parallelism": _parallelism(told),
        "activation_checkpoint": _recompute(told),
        "optimizer": _optimizer(told),
        "compile": _compile(told),
    }
    sections["model"] |= _precision(told, sections["training"])
    lines = [
        f"# {told.architecture.name} on {told.cluster.gpus} x {told.cluster.device.name}:",
        f"# torchrun --nnodes {told.nodes} --nproc-per-node {told.per_node} -m torchtitan.train "
        "--job.config_file THIS_FILE",
    ]
    for name, section in sections.items():
        lines += ["", f"[{name}]", *(f"{key} = {json.dumps(v)}" for key, v in section.items())]
    return "\n".join(lines) + "\n"


def _model(told: Told) -> Section:
    """The name and flavor whose layers these are."""
    for name, flavors in PUBLISHED.items():
        for flavor in flavors:
            if _same(told.architecture, find(name, flavor)):
                return {"name": name, "flavor": flavor.upper() if name != "llama4" else flavor}
    for name in PUBLISHED:
        for flavor in ("debugmodel", "debugmodel_moe"):
            if _same(told.architecture, find(name, flavor)):
                return {"name": name, "flavor": flavor}
    told.warn(
        f"torchtitan has no {told.architecture.name}: llama3 8B stands in its place, "
        "to be replaced by a flavor of your own"
    )
    return {"name": "llama3", "flavor": "8B"}


def _same(ours: Architecture, theirs: Architecture | None) -> bool:
    return theirs is not None and (ours.hidden, ours.vocab, ours.layers) == (
        theirs.hidden,
        theirs.vocab,
        theirs.layers,
    )


def _training(told: Told) -> Section:
    plan = told.plan
    mbs, pieces, seq = told.take("mbs"), told.take("grad_acc"), told.take("seq")
    section: Section = {
        "local_batch_size": mbs * pieces if plan.pp > 1 else mbs,
        "global_batch_size": told.take("gbs"),
        "seq_len": seq,
        "steps": told.steps or _USUAL_STEPS,
    }
    if told.take("offload_parameters"):
        section["enable_cpu_offload"] = True
    return section


def _parallelism(told: Told) -> Section:
    plan = told.plan
    tp, cp, pp, chunks = (told.take(name) for name in ("tp", "cp", "pp", "vpp"))
    if told.take("sp") != (tp > 1):
        told.refuse("sp", "true with tp of 2 and more")
    replicas = (plan.dp or 1) * cp
    shard = told.take("hsdp_shard") or replicas
    if shard % cp:
        told.refuse("hsdp_shard", f"a multiple of cp {cp}")
    plain = plan.runtime == "ddp"
    if not plain and shard == cp < replicas:
        told.refuse("hsdp_shard", f"{2 * cp} and more: of one replica torchtitan shards nothing")
    section: Section = {
        "data_parallel_replicate_degree": (plan.dp or 1) if plain else replicas // shard,
        "data_parallel_shard_degree": 1 if plain else shard // cp,
        "tensor_parallel_degree": tp,
        "context_parallel_degree": cp,
        "pipeline_parallel_degree": pp,
    }
    rotation = told.take("cp_comm")
    if cp > 1:
        rotation = told.choose("cp_comm", none=None, allgather=None, p2p="alltoall")
    if cp > 1 and rotation:
        section["context_parallel_rotate_method"] = rotation
    stage = told.take("zero")
    if stage:
        section["fsdp_reshard_after_forward"] = "always" if stage == 3 else "never"
    if told.take("tp_comm_overlap"):
        section["enable_async_tensor_parallel"] = True
    told.take("ep"), told.take("etp")
    return section | _stages(told, pp, chunks)


def _stages(told: Told, pp: int, chunks: int) -> Section:
    """Torchtitan balances stages itself, and gives the ends a layer less."""
    schedule = told.take("schedule")
    layout = told.take("pipeline_layout")
    if pp == 1:
        return {}
    layers = len(told.architecture.layers)
    usual = balanced(layers, pp * chunks)
    if layout not in (None, usual):
        told.refuse("pipeline_layout", usual)
    if layout is None:
        told.warn(f"torchtitan splits the layers as {usual}")
    if schedule not in _SCHEDULES:
        told.refuse("schedule", ", ".join(_SCHEDULES))
    section: Section = {
        "pipeline_parallel_schedule": _SCHEDULES[schedule],
        "pipeline_parallel_microbatch_size": told.plan.mbs,
    }
    if chunks > 2:  # two is what an interleaved schedule gets unless it is told
        section["pipeline_parallel_layers_per_stage"] = _layers_of_a_stage(
            told, layers, pp * chunks
        )
    return section


def _layers_of_a_stage(told: Told, layers: int, stages: int) -> int:
    """The number that torchtitan divides the layers by, the ends counted as one each."""
    each = -(-(layers + 2) // stages)
    if -(-(layers + 2) // each) != stages:
        told.refuse("vpp", "1 or 2: no number of layers a stage makes so many stages")
    return each


def _recompute(told: Told) -> Section:
    mode, modules = told.take("recompute"), told.take("recompute_modules")
    told.choose("recompute_method", uniform=None)
    if told.take("recompute_num_layers") != 1:
        told.refuse("recompute_num_layers", "1")
    if mode != "selective":
        return {"mode": mode}
    options = {("outputs",): "op", ("every-second-layer",): "2"}
    if tuple(modules) not in options:
        told.refuse("recompute_modules", "outputs or every-second-layer")
    return {"mode": "selective", "selective_ac_option": options[tuple(modules)]}


def _optimizer(told: Told) -> Section:
    section: Section = {
        "name": told.choose("optimizer", adamw="AdamW", adam="Adam"),
        "lr": 3e-4,
        "implementation": told.choose("optimizer_step", fused="fused", foreach="foreach"),
    }
    if told.take("optimizer_in_backward"):
        section["early_step_in_backward"] = True
    return section


def _compile(told: Told) -> Section:
    """The loss is compiled with the model, alone, or not at all."""
    model = told.take("compile")
    loss = told.choose("loss", compiled=True, eager=False)
    told.take("attention")
    for name in ("norm", "activation"):
        told.habit(name)
    parts = [name for name, wanted in (("model", model), ("loss", loss)) if wanted]
    return {"enable": bool(parts), "components": parts or ["model", "loss"]}


def _precision(told: Told, training: Section) -> Section:
    recipe = told.choose(
        "precision", bf16_amp="", bf16="bf16", fp32="fp32", fp8_amp="float8", mxfp8_amp="mx"
    )
    if recipe == "bf16":
        training["dtype"] = "bfloat16"
    if recipe == "fp32":
        training["mixed_precision_param"] = "float32"
    names = {"float8": ["quantize.linear.float8"], "mx": ["quantize.linear.mx"]}
    return {"converters": names[recipe]} if recipe in names else {}

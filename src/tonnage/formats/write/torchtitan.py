"""torchtitan: its TOML, as ``JobConfig`` of 0.2 reads it (https://github.com/pytorch/torchtitan)."""

from __future__ import annotations

import json
from typing import TypeAlias

from tonnage.arch import Architecture
from tonnage.formats.told import Told
from tonnage.formats.torchtitan_models import PUBLISHED, find
from tonnage.plan.layout import chunk_sizes
from tonnage.plan.layout_text import balanced_sizes
from tonnage.runtime import runtime

Section: TypeAlias = dict[str, str | int | float | bool | list[str] | list[list[str]]]

SCHEDULES = {
    "1f1b": "1F1B",
    "gpipe": "GPipe",
    "interleaved": "Interleaved1F1B",
    "zbv": "ZBVZeroBubble",
    "dualpipev": "DualPipeV",
}
"""PyTorch's names. Its InterleavedZeroBubble is no schedule of a plan, and it has no ZB-H1."""

EXCHANGES = {"allgather": "allgather", "p2p": "alltoall"}
"""``context_parallel_rotate_method``."""

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
        "to be replaced by a flavor of your own",
        "*",
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
    if not plain and shard == 1 < replicas:
        told.refuse("hsdp_shard", "2 and more: over one rank torchtitan shards nothing")
    section: Section = {
        "data_parallel_replicate_degree": (plan.dp or 1) if plain else replicas // shard,
        "data_parallel_shard_degree": 1 if plain else shard // cp,
        "tensor_parallel_degree": tp,
        "context_parallel_degree": cp,
        "pipeline_parallel_degree": pp,
    }
    told.take("cp_comm")
    if cp > 1:
        section["context_parallel_rotate_method"] = told.choose("cp_comm", **EXCHANGES)
    stage = told.take("zero")
    if stage:
        section["fsdp_reshard_after_forward"] = "always" if stage == 3 else "never"
    if told.take("tp_comm_overlap"):
        section["enable_async_tensor_parallel"] = True
    told.take("ep"), told.take("etp")
    return section | _stages(told, pp, chunks)


def _stages(told: Told, pp: int, chunks: int) -> Section:
    """The schedule, and what each chunk holds where torchtitan would cut elsewhere."""
    plan = told.plan
    schedule = told.take("schedule")
    for field in _SPLIT:
        told.take(field)
    if pp == 1:
        return {}
    if schedule not in SCHEDULES:
        told.refuse("schedule", ", ".join(SCHEDULES))
    section: Section = {
        "pipeline_parallel_schedule": SCHEDULES[schedule],
        "pipeline_parallel_microbatch_size": plan.mbs,
    }
    rounds = chunk_sizes(told.architecture, plan, runtime(plan.runtime).pipeline_split)
    return section | _split(len(told.architecture.layers), [n for each in rounds for n in each],
                            chunks)  # fmt: skip


_SPLIT = (
    *("pipeline_layout", "first_stage_layers", "last_stage_layers"),
    *("account_for_embedding", "account_for_loss"),
)


def _split(layers: int, sizes: list[int], chunks: int) -> Section:
    """Options that make torchtitan cut the layers into chunks of these sizes.

    By itself it makes one chunk a stage, or two under a schedule of several, that differ by a
    layer at most, the embedding and the head counted as one each.
    """
    each = _layers_of_a_stage(layers, len(sizes), 2)
    if sizes == balanced_sizes(layers, len(sizes)) and (chunks <= 2 or each):
        return {"pipeline_parallel_layers_per_stage": each} if chunks > 2 else {}
    plain: Section = {
        "pipeline_parallel_first_stage_less_layers": 0,
        "pipeline_parallel_last_stage_less_layers": 0,
    }
    if chunks <= 2 and sizes == balanced_sizes(layers, len(sizes), ends=0):
        return plain
    return {"module_fqns_per_model_part": _modules(sizes)}


def _modules(sizes: list[int]) -> list[list[str]]:
    """The names of what each chunk holds, in the order that they run."""
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    parts = [
        [f"layers.{index}" for index in range(start, start + size)]
        for start, size in zip(starts, sizes, strict=True)
    ]
    return [["tok_embeddings", *parts[0]], *parts[1:-1], [*parts[-1], "norm", "output"]]


def _layers_of_a_stage(layers: int, stages: int, ends: int) -> int:
    """The number that torchtitan divides the layers by to make so many stages; 0: none does."""
    each = -(-(layers + ends) // stages)
    return each if -(-(layers + ends) // each) == stages else 0


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

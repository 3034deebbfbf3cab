"""A measured row -> what to estimate, and which figure of the estimate is meant."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from tonnage.arch import Architecture
from tonnage.cluster import Cluster, find_device
from tonnage.plan import Plan
from tonnage.runtime import habit_names
from tonnage.score.row import Row
from tonnage.score.shape import architecture
from tonnage.score.words import Reading, read_words


@dataclass(frozen=True, kw_only=True)
class Case:
    """What a row asks.

    Attributes:
        architecture: what was trained.
        plan: how.
        cluster: on what.
        counter: allocated, reserved or device; empty where memory is not asked.
        scope: first, last, max or each.
        unknown: words of the recipe that no rule takes.
        refused: why the row is not answered.
    """

    architecture: Architecture
    plan: Plan
    cluster: Cluster
    counter: str
    scope: str
    unknown: tuple[str, ...]
    refused: tuple[str, ...]


def case(row: Row) -> Case:
    """Read a row; only the columns that a prediction may see are looked at.

    Raises:
        InputError: a column makes no sense.
        NotModelledError: the architecture cannot be described.
    """
    row = row.inputs()
    reading = read_words(row)
    cluster = _cluster(row)
    shape = architecture(row, reading.shape)
    return Case(
        architecture=shape,
        plan=_plan(row, reading, shape, cluster),
        cluster=cluster,
        counter=row.text("counter"),
        scope=row.text("scope") or "max",
        unknown=reading.unknown,
        refused=reading.refused,
    )


def _cluster(row: Row) -> Cluster:
    device = find_device(row.cells.get("gpu", ""), field=f"{row.name}.gpu")
    gpus = row.count("num_gpus", 1)
    per_node = min(row.count("gpus_per_node", device.gpus_per_node), gpus)
    whole = Cluster.of(device, 1)
    domain = max(per_node, whole.scale_up_domain if whole.scale_up_domain > 8 else per_node)
    return dataclasses.replace(whole, gpus=gpus, gpus_per_node=per_node, scale_up_domain=domain)


def _plan(row: Row, reading: Reading, shape: Architecture, cluster: Cluster) -> Plan:
    fields: dict[str, Any] = {"runtime": _runtime(row), **reading.fields}
    deterministic = fields.pop("deterministic", False)
    instances = fields.pop("optimizer_instances", 1)
    if fields["runtime"] == "megatron" and fields.get("attention", "flash") == "flash":
        fields.setdefault("attention_version", _transformer_engine(shape, cluster, deterministic))
    known = set(habit_names())
    habits = tuple((name, str(value)) for name, value in reading.habits.items() if name in known)
    for name in ("tp", "pp", "vpp", "cp", "ep", "mbs"):
        fields[name] = row.count(name, 1)
    if row.number("etp") and shape.is_moe:
        fields["etp"] = row.count("etp")
    fields["seq"] = row.count("seq_len")
    if row.number("gbs"):
        fields["gbs"] = row.count("gbs")
    elif row.number("grad_acc"):
        fields["grad_acc"] = row.count("grad_acc")
    fields["sp"] = row.flag("sp", default=fields["tp"] > 1)
    if row.text("iteration") == "first":
        fields["iteration"] = "first"
    if row.number("lora_rank"):
        fields["lora_rank"] = row.count("lora_rank")
    if instances > 1 and row.number("dp"):
        fields["hsdp_shard"] = row.count("dp") * row.count("cp", 1) // instances
    return Plan(habits=habits, **fields)


def _transformer_engine(shape: Architecture, cluster: Cluster, deterministic: bool) -> int:
    """The kernel that Transformer Engine picks where a recipe leaves it open.

    cuDNN's (as the third generation) from Hopper on, FlashAttention-2 before; on Blackwell
    also where dropout has to be deterministic (TE attention utils).
    """
    generation = cluster.device.architecture
    dropout = any(getattr(layer.mixer, "dropout", 0.0) > 0 for layer in shape.kinds())
    if generation < "sm90" and len(generation) == 4:
        return 2
    return 2 if deterministic and dropout and generation >= "sm100" and len(generation) == 5 else 3


def _runtime(row: Row) -> str:
    """The profile of an unknown framework: that of its sharding scheme."""
    zero = row.text("zero")
    if "fsdp" in zero:
        return "fsdp2"
    if row.count("tp", 1) * row.count("pp", 1) > 1 or "distributed" in zero:
        return "megatron"
    return "deepspeed" if "zero" in zero else "ddp"

"""A measured row -> what to estimate, and which figure of the estimate is meant."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tonnage.arch import Architecture
from tonnage.cluster import Cluster, find_device
from tonnage.plan import Plan
from tonnage.plan.idle import without_idle
from tonnage.plan.layout_text import balanced, chunk_count
from tonnage.runtime import habit_names
from tonnage.score.inside import blocking_collectives
from tonnage.score.interconnect import network
from tonnage.score.row import Row
from tonnage.score.shape import architecture, noop_layers
from tonnage.score.stack import lora_targets, settled
from tonnage.score.words import Reading, read_words
from tonnage.timing.constants import EXPERT_HIDDEN


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


def case(row: Row, *, measured_network: bool = False) -> Case:
    """Read a row; only the columns that a prediction may see are looked at.

    Args:
        row: the measured run.
        measured_network: what the run measured of its own network may be seen, too.

    Raises:
        InputError: a column makes no sense.
        NotModelledError: the architecture cannot be described.
    """
    whole, row = row, row.inputs()
    reading = read_words(row)
    cluster = _cluster(row)
    shape = architecture(row, reading.shape)
    blocks = blocking_collectives(whole, cluster) if measured_network else None
    if blocks is not None:
        reading.habits["verified_collectives"] = str(blocks).lower()
    return Case(
        architecture=shape,
        plan=_plan(row, reading, shape, cluster),
        cluster=cluster,
        counter=row.text("counter"),
        scope=row.text("scope") or "max",
        unknown=(*reading.unknown, *lora_targets(row)[1]),
        refused=reading.refused,
    )


def _cluster(row: Row) -> Cluster:
    device = find_device(row.cells.get("gpu", ""), field=f"{row.name}.gpu")
    gpus = row.count("num_gpus", 1)
    per_node = min(row.count("gpus_per_node", device.gpus_per_node), gpus)
    whole = Cluster.of(device, 1)
    domain = max(per_node, whole.scale_up_domain if whole.scale_up_domain > 8 else per_node)
    return dataclasses.replace(
        whole,
        gpus=gpus,
        gpus_per_node=per_node,
        scale_up_domain=domain,
        network=network(row.text("interconnect"), whole.network, row.count("gpus_per_node", 8)),
    )


def _plan(row: Row, reading: Reading, shape: Architecture, cluster: Cluster) -> Plan:
    fields, implied = settled(row, {"runtime": _runtime(row), **reading.fields})
    habits = {**implied, **reading.habits}
    local_batch = fields.pop("local_batch", None)
    deterministic = fields.pop("deterministic", False)
    instances = fields.pop("optimizer_instances", 1)
    if fields.pop("offload_some", False):
        fields["offload_activations"] = True
    if fields.pop("megatron_fsdp", False):
        fields["runtime"] = "megatron-fsdp"
    if fields.pop("every_second_layer", False):
        half = len(shape.layers) // (2 * row.count("pp", 1))
        fields.update(recompute="full", recompute_method="block", recompute_num_layers=half)
    if fields.pop("hidden_exchange", False):
        habits.setdefault("ep_overlap", str(EXPERT_HIDDEN))
    if fields["runtime"] == "nanotron" and row.count("pp", 1) > 1:
        # The sweep's pipelined jobs ran with collectives checked over the hosts.
        several = cluster.gpus > cluster.gpus_per_node
        habits.setdefault("verified_collectives", str(several).lower())
    if fields["runtime"] == "megatron" and fields.get("attention", "flash") == "flash":
        fields.setdefault("attention_version", _transformer_engine(shape, cluster, deterministic))
    known = set(habit_names())
    named = tuple((name, str(value)) for name, value in habits.items() if name in known)
    for name in ("tp", "pp", "cp", "ep", "mbs"):
        fields[name] = row.count(name, 1)
    fields["vpp"] = row.count("vpp", fields.get("vpp", 1))
    fields.update(_layout(row, fields, shape))
    if shape.is_moe:
        fields["etp"] = row.count("etp", _expert_tensor(fields, cluster))
    if local_batch and fields["pp"] > 1:
        # torchtitan's default: as many micro-batches as there are pipeline stages in all.
        fields["mbs"] = max(1, local_batch // (fields["pp"] * fields["vpp"]))
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
    # Words of a recipe may be about what this run of it has not: dropout of adapters.
    return without_idle(Plan(habits=named, **fields), shape)


def _expert_tensor(fields: Mapping[str, Any], cluster: Cluster) -> int:
    """Megatron's default, which is tp, where the ranks allow it; else 1."""
    stage = cluster.gpus // fields["pp"]
    return int(fields["tp"]) if stage % (fields["ep"] * fields["tp"]) == 0 else 1


def _layout(row: Row, fields: Mapping[str, Any], shape: Architecture) -> dict[str, Any]:
    """How the layers are split, where a recipe names a layout or equal shares are impossible.

    A recipe that does not say how it splits an odd number of layers is taken to be balanced,
    with a place each for the embedding and the loss. A layout says how many chunks there are.
    Places without a layer (MindSpeed's ``noop-layers``) count in the even split.
    """
    chunks, layers = fields["pp"] * fields["vpp"], len(shape.layers)
    named = re.search(r"layout[= ]([etml|()*\d,]+)", row.text("extra"))
    if named:
        text = named.group(1).replace("e", "E").replace("l", "L")
        return {"pipeline_layout": text, "vpp": max(1, chunk_count(text) // fields["pp"])}
    idle = noop_layers(row)
    if idle and chunks > 1:
        size = -(-(layers + len(idle)) // chunks)
        kept = ["t" * (size - sum(place // size == at for place in idle)) for at in range(chunks)]
        return {"pipeline_layout": "E" + "|".join(kept) + "L"}
    given = {"account_for_embedding", "account_for_loss"} & set(fields)
    if fields["runtime"] == "nanotron" or chunks == 1 or layers % chunks == 0 or given:
        return {}
    if (layers + 2) % chunks == 0:
        return {"account_for_embedding": True, "account_for_loss": True}
    return {"pipeline_layout": balanced(layers, chunks)}


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

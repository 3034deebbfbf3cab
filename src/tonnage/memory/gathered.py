"""Parameters that a sharding engine has gathered, and gradients on their way to be reduced."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.algebra import Number, largest, minimum, total, where
from tonnage.dtype import dtype
from tonnage.ledger import Operations, StageLedger, Weight
from tonnage.ledger.piece import largest_weight, sum_of, trained_numel
from tonnage.ledger.quantized import stored
from tonnage.plan import Setting


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """Bytes of whole parameters beside their shards, by part of a step.

    Attributes:
        layers: while layers run, forward or back; gradients that wait to be reduced among it.
        loss: at the loss.
        end: when backward reaches the embedding.
    """

    layers: Number
    loss: Number
    end: Number


NOTHING = Gathered(layers=0, loss=0, end=0)


def gathered(setting: Setting, ledger: StageLedger) -> Gathered:
    """What is whole, under the sharding rule of the runtime.

    * ``flat-units`` (FSDP1): the root (embedding, last norm, head) from first forward to the
      end of backward; one layer where layers are recomputed, else the one fetched ahead too.
    * ``fully-sharded`` (``fully_shard``): at stage 3 two layers, the root where it is one
      unit, the last layer at the loss, and one layer's gradient in the reduction's format;
      at stage 2 every parameter after the forward pass.
    * ``partitioned`` (DeepSpeed): as many parameters as it lets live at once, and a table of
      the vocabulary, which is fetched whole however large it is.
    """
    if not setting.gathers:
        return NOTHING
    rule = _RULES[setting.runtime.sharding](setting, ledger)
    return Gathered(
        layers=where(setting.shard > 1, rule.layers, 0),
        loss=where(setting.shard > 1, rule.loss, 0),
        end=where(setting.shard > 1, rule.end, 0),
    )


def keeps_stage_whole(setting: Setting) -> bool:
    """Whether a pipeline stage's parameters and gradients stay whole over its micro-batches."""
    return setting.runtime.pipeline_whole and setting.plan.pp > 1


def stays_whole(setting: Setting) -> bool:
    """Whether all that a stage gathered stays until its last backward pass."""
    whole = setting.zero == 2 or keeps_stage_whole(setting)
    return setting.gathers and setting.runtime.sharding == "fully-sharded" and whole


def whole_bytes(setting: Setting, weight: Weight) -> Number:
    """One weight as products read it; a quantised one is gathered packed."""
    plan = setting.plan
    if weight.adapter:
        apart = setting.runtime.adapter_sharding == "replicated"
        return 0 if apart else dtype(setting.adapter_compute).storage(weight.numel)
    if plan.lora_base is not None and weight.base and not weight.trains:
        return stored(plan.lora_base, weight).packed
    return dtype(setting.precision.compute).storage(weight.numel)


def _flat_units(setting: Setting, ledger: StageLedger) -> Gathered:
    root = _root(setting, ledger)
    unit = largest(_whole(setting, ops) for ops in ledger.layers.values())
    ahead = 1 if setting.plan.recompute == "full" else 2
    return Gathered(layers=root + ahead * unit, loss=root, end=root)


def _fully_sharded(setting: Setting, ledger: StageLedger) -> Gathered:
    everything = whole_parameters(setting, ledger)
    wire = dtype(setting.precision.reduction)
    layers = ledger.layers.values()
    waiting = wire.storage(largest(sum_of(setting, unit, trained_numel) for unit in layers))
    if stays_whole(setting):
        return Gathered(layers=everything + waiting, loss=everything, end=everything)
    unit = largest(_whole(setting, piece) for piece in layers)
    if setting.runtime.root_unit:
        root = _root(setting, ledger)
        return Gathered(layers=root + 2 * unit + waiting, loss=root + unit, end=root + waiting)
    end = largest(_whole(setting, piece) for piece in (ledger.embedding, ledger.head))
    return Gathered(layers=2 * unit + waiting, loss=unit + end, end=end + waiting)


def _partitioned(setting: Setting, ledger: StageLedger) -> Gathered:
    compute = dtype(setting.precision.compute)
    everything = whole_parameters(setting, ledger)
    ends = (ledger.embedding, ledger.head)
    table = largest(largest_weight(setting, end, whole_bytes) for end in ends)
    alive = minimum(everything, compute.storage(setting.runtime.live_parameters) + table)
    return Gathered(layers=alive, loss=alive, end=alive)


def whole_parameters(setting: Setting, ledger: StageLedger) -> Number:
    """Bytes of all parameters of a stage as products read them."""
    return total(n * _whole(setting, piece) for piece, n in ledger.pieces())


def _root(setting: Setting, ledger: StageLedger) -> Number:
    return _whole(setting, ledger.embedding) + _whole(setting, ledger.head)


def _whole(setting: Setting, piece: Operations) -> Number:
    return sum_of(setting, piece, whole_bytes)


_RULES = {
    "flat-units": _flat_units,
    "fully-sharded": _fully_sharded,
    "partitioned": _partitioned,
    "distributed-optimizer": _partitioned,
}

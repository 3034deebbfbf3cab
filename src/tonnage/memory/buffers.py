"""Communication buffers: what parallelism keeps beside the tensors it moves."""

from __future__ import annotations

from tonnage.algebra import Number, largest, total, where
from tonnage.dtype import dtype
from tonnage.ledger import StageLedger, Weight, weights_of
from tonnage.ledger.layer import layer_input
from tonnage.ledger.operation import Tensor
from tonnage.plan import Setting


def communication_buffers(setting: Setting, ledger: StageLedger) -> Number:
    """Bytes of all communication buffers of a stage on one rank."""
    return (
        sequence_gathers(setting, ledger)
        + pipeline_receives(setting, ledger)
        + gradient_buckets(setting, ledger)
        + gathered_units(setting, ledger)
    )


def sequence_gathers(setting: Setting, ledger: StageLedger) -> Number:
    """Full-width buffers that sequence shards are gathered into, kept for good."""
    count = setting.runtime.gather_buffers
    if setting.runtime.head_gather_buffer and ledger.head:
        count += 1
    if not setting.sp or not count:
        return 0
    full = Tensor(
        name="gathered",
        elements=setting.tokens * setting.architecture.hidden,
        format=setting.format,
    )
    return where(setting.tp > 1, count * full.bytes, 0)


def pipeline_receives(setting: Setting, ledger: StageLedger) -> Number:
    """One received activation and one received gradient, where there is a neighbour."""
    neighbours = (not ledger.stage.embedding) + (not ledger.stage.head)
    return neighbours * layer_input(setting).bytes


def gradient_buckets(setting: Setting, ledger: StageLedger) -> Number:
    """Buckets that gradients are copied into to be reduced, beside the gradients themselves."""
    held: Number = setting.runtime.bucket_bytes if setting.zero else 0
    if setting.runtime.bucket_copy and setting.zero == 0:
        recipe = setting.precision
        size = dtype(recipe.weights if recipe.accumulation else recipe.gradients)
        held = held + total(
            count * size.storage(weight.numel)
            for weight, count in ledger.weights()
            if weight.trains
        )
    return where(setting.replicas > 1, held, 0)


def gathered_units(setting: Setting, ledger: StageLedger) -> Number:
    """Parameters gathered for compute, and the gradient that waits to be reduce-scattered.

    A unit is a layer, the embedding or the head. At stage 3 the current unit and the one
    fetched ahead are whole; ``fully_shard`` at stage 2 keeps all of them whole after the
    forward pass. Its reduce-scatter reads a whole unit's gradient in the reduction's format.
    """
    if not _gathers(setting):
        return 0
    compute = dtype(setting.precision.compute)
    wire = dtype(setting.precision.reduction)
    units = [weights_of(ops) for ops in ledger.layers.values()]
    units += [weights_of(ledger.embedding), weights_of(ledger.head)]
    unit = largest(_numel(weights) for weights in units)
    trained = largest(_numel(tuple(w for w in weights if w.trains)) for weights in units)
    if setting.zero == 3:
        gathered = 2 * compute.storage(unit)
    else:
        gathered = total(count * compute.storage(w.numel) for w, count in ledger.weights())
    return where(setting.shard > 1, gathered + wire.storage(trained), 0)


def _gathers(setting: Setting) -> bool:
    return setting.zero == 3 or (setting.zero == 2 and setting.runtime.sharding == "fully-sharded")


def _numel(weights: tuple[Weight, ...]) -> Number:
    return total(weight.numel for weight in weights)

"""Communication buffers: what parallelism keeps beside the tensors it moves."""

from __future__ import annotations

from tonnage.algebra import Number, total, where
from tonnage.dtype import dtype
from tonnage.ledger import StageLedger
from tonnage.ledger.layer import layer_input
from tonnage.ledger.operation import Tensor
from tonnage.plan import Setting


def communication_buffers(setting: Setting, ledger: StageLedger) -> Number:
    """Bytes of all communication buffers of a stage on one rank."""
    return (
        sequence_gathers(setting, ledger)
        + pipeline_receives(setting, ledger)
        + gradient_buckets(setting, ledger)
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
    held: Number = 0
    if setting.runtime.bucket_copy and setting.zero == 0:
        size = dtype(setting.precision.gradients)
        held = held + total(
            count * size.storage(weight.numel)
            for weight, count in ledger.weights()
            if weight.trains
        )
    fixed = setting.runtime.bucket_bytes if setting.zero else 0
    return where(setting.replicas > 1, held, 0) + fixed

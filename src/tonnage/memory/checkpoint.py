"""The size of a checkpoint: what has to be written so that a run can go on from it."""

from __future__ import annotations

import dataclasses

from tonnage.algebra import Number
from tonnage.dtype import dtype
from tonnage.ledger import Weight, stage_ledgers, whole, whole_stage
from tonnage.ledger.optimizer import state_bytes
from tonnage.memory.states import master_bytes
from tonnage.plan import Setting


def checkpoint_bytes(setting: Setting) -> Number:
    """Bytes of the weights that train, their master copies and the optimizer's states.

    Each weight once, however it is sharded or replicated, in the formats of the recipe; a
    frozen base does not change and is not written.
    """
    alone = dataclasses.replace(
        whole(setting.architecture, setting.plan),
        precision=setting.precision,
        # Paged states leave the device, and are written all the same.
        optimizer=dataclasses.replace(setting.optimizer, paged=False),
    )
    (ledger,) = stage_ledgers(alone, (whole_stage(setting.architecture),))
    return sum(count * _written(alone, weight) for weight, count in ledger.weights())


def _written(setting: Setting, weight: Weight) -> Number:
    if not weight.trains:
        return 0
    stored = dtype(weight.format or setting.precision.weights).storage(weight.numel)
    return stored + master_bytes(setting, weight) + state_bytes(setting, weight)

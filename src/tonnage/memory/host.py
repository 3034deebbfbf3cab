"""Saved activations that are held in host memory between the passes."""

from __future__ import annotations

from tonnage.algebra import Number, largest, minimum
from tonnage.ledger import StageLedger
from tonnage.memory.activations import kept_by_chunk
from tonnage.plan import Setting

IN_FLIGHT = 2
"""Layers whose offloaded tensors are on the device at once: the one at work, and the one before
it on its way (TRL and torchtune ``OffloadActivations``, Transformer Engine ``cpu_offload``)."""


def staged_activations(setting: Setting, ledger: StageLedger, kept: Number) -> Number:
    """What stays on the device of activations that are copied away between the passes.

    Args:
        setting: the run.
        ledger: the stage.
        kept: what all live micro-batches keep.
    """
    if not setting.plan.offload_activations:
        return kept
    one = largest(kept_by_chunk(setting, ledger, (layer,)) for layer in ledger.layers)
    return minimum(kept, IN_FLIGHT * one)

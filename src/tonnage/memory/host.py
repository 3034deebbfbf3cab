"""Saved activations that are held in host memory between the passes."""

from __future__ import annotations

from tonnage.algebra import Number, largest
from tonnage.ledger import StageLedger
from tonnage.memory.activations import kept_by_chunk
from tonnage.plan import Setting

IN_FLIGHT = 2
"""Layers whose offloaded tensors are on the device at once: the one at work, and the one before
it on its way (TRL and torchtune ``OffloadActivations``, Transformer Engine ``cpu_offload``)."""


def device_limit(setting: Setting, ledger: StageLedger) -> Number | None:
    """Bytes that the layers' saved activations take on the device at most; None: no limit.

    Offloaded ones are copied away between the passes.
    """
    if not setting.plan.offload_activations:
        return None
    return IN_FLIGHT * largest(kept_by_chunk(setting, ledger, (layer,)) for layer in ledger.layers)

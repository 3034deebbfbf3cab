"""Seconds of copies between a device and the memory of its host."""

from __future__ import annotations

from typing import Final

from tonnage.algebra import Number, ceil_div, maximum, total
from tonnage.cluster import Cluster, Device
from tonnage.cluster.catalog.links import PCIE_3, PCIE_4, PCIE_5
from tonnage.dtype import dtype
from tonnage.ledger import StageLedger, saved_bytes
from tonnage.ledger.layer import layer_input
from tonnage.ledger.piece import trained_numel, weight_sums
from tonnage.plan import Setting

GENERATIONS: Final = {
    "sm70": PCIE_3,
    "sm75": PCIE_3,
    "sm80": PCIE_4,
    "sm86": PCIE_4,
    "sm89": PCIE_4,
    "sm90": PCIE_5,
    "sm100": PCIE_5,
    "sm103": PCIE_5,
    "sm120": PCIE_5,
    "gfx90a": PCIE_4,
    "gfx942": PCIE_5,
    "gfx950": PCIE_5,
}
"""The PCI Express generation of each architecture's cards, 16 lanes (their data sheets)."""

CHIP_TO_CHIP = 450e9
"""Bytes a second, one way, between a Grace processor and its GPU (NVIDIA's white paper on Grace
Hopper: NVLink-C2C, 900 GB/s both ways)."""


def host_bandwidth(device: Device) -> float:
    """Bytes a second to the host's memory, or from it; PCI Express 4 where nothing is known."""
    if device.name.startswith(("GH200", "GB200", "GB300")):
        return CHIP_TO_CHIP
    return GENERATIONS.get(device.architecture, PCIE_4).bandwidth


def exposed_copies(
    setting: Setting, ledger: StageLedger, cluster: Cluster, forward: Number, backward: Number
) -> Number:
    """Seconds of one micro-batch that offloaded activations do not hide behind compute.

    They leave during its forward pass, and come back during its backward pass.
    """
    if not setting.plan.offload_activations:
        return 0.0
    counts = ledger.stage.kinds()
    if setting.plan.recompute == "full":
        kept = len(ledger.stage.layers) * layer_input(setting).bytes
    else:
        kept = total(
            counts[kind] * saved_bytes(setting, ops) for kind, ops in ledger.layers.items()
        )
    one_way = kept / host_bandwidth(cluster.device)
    return maximum(one_way - forward, 0.0) + maximum(one_way - backward, 0.0)


def copied_step(setting: Setting, ledger: StageLedger, cluster: Cluster) -> Number:
    """Seconds in which a step on the host gets this rank's gradients and gives weights back."""
    share = setting.plan.offload_optimizer
    if not share:
        return 0.0
    sums: dict[str, Number] = {"dense": 0, "expert": 0}
    each = dtype(setting.precision.gradients).bytes + dtype(setting.precision.weights).bytes
    for piece, count in ledger.pieces():
        for (group, _), numel in weight_sums(setting, piece, trained_numel).items():
            sums[group] = sums[group] + count * numel * each
    if setting.zero >= 1:
        sums["dense"] = ceil_div(sums["dense"], setting.shard)
        sums["expert"] = ceil_div(sums["expert"], setting.expert_shard)
    return share * total(sums.values()) / host_bandwidth(cluster.device)

"""Seconds of what a run holds in its host's memory: copies, and the optimizer's step there.

docs/derivations/host.md derives them.
"""

from __future__ import annotations

from typing import Final

from tonnage.algebra import Number, ceil_div, maximum, total
from tonnage.cluster import Cluster, host_of
from tonnage.dtype import dtype
from tonnage.ledger import StageLedger, Weight, saved_bytes
from tonnage.ledger.flops import layers_recomputed
from tonnage.ledger.layer import layer_input
from tonnage.ledger.optimizer import state_bytes, step_traffic
from tonnage.ledger.piece import Size, weight_sums
from tonnage.ledger.quantized import stored
from tonnage.plan import Setting
from tonnage.timing import constants

NO_COPIES: Final[dict[str, Number]] = {"forward": 0.0, "backward": 0.0}
"""Seconds by pass of a step that copies nothing of its units."""


def link_seconds(cluster: Cluster, *, out: Number = 0, back: Number = 0) -> Number:
    """Seconds of copies to a host's memory and from it, all of its devices at once.

    The two directions of the link run beside each other. Devices behind one switch share its
    link; all devices of a host share its memory.

    Args:
        cluster: the hosts.
        out: bytes that one device sends to its host.
        back: bytes that it gets from there.
    """
    host = host_of(cluster)
    link = constants.HOST_LINK_SHARE * host.link.bandwidth / min(_beside(cluster), host.sharing)
    memory = constants.HOST_LINK_SHARE * host.memory / sharers(cluster)
    return maximum(maximum(out, back) / link, (out + back) / memory)


def step_seconds(cluster: Cluster, moved: Number) -> Number:
    """Seconds of an optimizer's step on the host, whose memory bounds it.

    Args:
        cluster: the hosts.
        moved: bytes that the step reads and writes for one device.
    """
    memory = host_of(cluster).memory / sharers(cluster)
    return moved / (constants.HOST_STEP_SHARE * memory)


def sharers(cluster: Cluster) -> int:
    """Devices of the run that have their host's memory in common."""
    devices = host_of(cluster).devices
    return _beside(cluster) if devices is None else min(_beside(cluster), devices)


def _beside(cluster: Cluster) -> int:
    """Devices of the run in one host."""
    return min(cluster.gpus, cluster.gpus_per_node)


def steps_on_host(setting: Setting) -> float:
    """The share of the optimizer's step that the host's processors take.

    Where states are only kept there and swapped in (MindSpeed), the device takes it all.
    """
    if setting.plan.offload_parameters:
        return 1.0
    return 0.0 if setting.runtime.optimizer_swap else setting.plan.offload_optimizer


def activation_seconds(setting: Setting, ledger: StageLedger, cluster: Cluster) -> Number:
    """Seconds one way of what the layers keep of one micro-batch; 0 where it stays.

    Of a layer that is recomputed as a whole that is its input.
    """
    if not setting.plan.offload_activations:
        return 0.0
    counts, entry = ledger.stage.kinds(), layer_input(setting).bytes
    again = layers_recomputed(setting, (ledger.stage,))
    kept = total(
        (counts[kind] - again.get(kind, 0)) * saved_bytes(setting, ops) + again.get(kind, 0) * entry
        for kind, ops in ledger.layers.items()
    )
    return link_seconds(cluster, out=kept)


def exposed_activations(one_way: Number, forward: Number, backward: Number) -> Number:
    """Seconds of one micro-batch that offloaded activations do not hide behind compute.

    Args:
        one_way: seconds of their copies: out during the forward pass, and back during backward.
        forward: seconds of the forward pass.
        backward: seconds of the backward pass, recomputation with it.
    """
    return maximum(one_way - forward, 0.0) + maximum(one_way - backward, 0.0)


def unit_copies(setting: Setting, ledger: StageLedger, cluster: Cluster) -> dict[str, Number]:
    """Seconds in a step of copies that run beside the passes, by pass.

    Parameters on the host come layer by layer before they are gathered, in both passes; what
    is reduced of their gradients leaves during the backward pass. Gradients alone do so where
    an engine that shards them has its optimizer on the host (ZeRO-Offload).
    """
    plan = setting.plan
    if plan.offload_parameters:
        come = _per_rank(setting, ledger, _stored, sharded=True)
        leave = _per_rank(setting, ledger, _gradient, sharded=True)
        return {
            "forward": setting.turns * link_seconds(cluster, back=come),
            "backward": setting.turns * link_seconds(cluster, out=leave, back=come),
        }
    if plan.offload_optimizer and leaves_in_backward(setting):
        leave = plan.offload_optimizer * _per_rank(setting, ledger, _gradient, sharded=True)
        return {"forward": 0.0, "backward": setting.turns * link_seconds(cluster, out=leave)}
    return NO_COPIES


def leaves_in_backward(setting: Setting) -> bool:
    """Whether reduced gradients leave for the host as they come (arXiv 2101.06840)."""
    return setting.runtime.sharding == "partitioned" and setting.zero >= 2


def exposed_step(setting: Setting, ledger: StageLedger, cluster: Cluster, device: Number) -> Number:
    """Seconds by which a step of what lies on the host takes longer than the device's own part.

    The host gets this rank's gradients, where they are not there yet, steps, and gives weights
    back, while the device steps what it holds. States that are swapped come and go while the
    device steps them.

    Args:
        setting: the run.
        ledger: the stage.
        cluster: the hosts.
        device: seconds of the device's part of the step.
    """
    plan, share = setting.plan, steps_on_host(setting)
    if plan.offload_optimizer and setting.runtime.optimizer_swap and not share:
        states = plan.offload_optimizer * _optimizer_part(setting, ledger, _swapped)
        return maximum(link_seconds(cluster, out=states, back=states) - device, 0.0)
    if not share:
        return 0.0
    busy = step_seconds(cluster, share * _optimizer_part(setting, ledger, step_traffic))
    if not plan.offload_parameters:
        if not leaves_in_backward(setting):
            gradients = _optimizer_part(setting, ledger, _gradient)
            busy = busy + link_seconds(cluster, out=share * gradients)
        weights = _optimizer_part(setting, ledger, _weight)
        busy = busy + link_seconds(cluster, back=share * weights)
    return maximum(busy - device, 0.0)


def _optimizer_part(setting: Setting, ledger: StageLedger, size: Size) -> Number:
    """A size of the weights whose states this rank has."""
    return _per_rank(setting, ledger, size, sharded=setting.zero >= 1)


def _per_rank(setting: Setting, ledger: StageLedger, size: Size, *, sharded: bool) -> Number:
    """A size summed over a stage's weights, or over this rank's shard of them."""
    sums: dict[str, Number] = {"dense": 0, "expert": 0}
    for piece, count in ledger.pieces():
        for (group, _), one in weight_sums(setting, piece, size).items():
            sums[group] = sums[group] + count * one
    if sharded:
        dense = ceil_div(sums["dense"], setting.shard)
        return dense + ceil_div(sums["expert"], setting.expert_shard)
    return total(sums.values())


def _stored(setting: Setting, weight: Weight) -> Number:
    """Bytes of one weight as it is stored; packed where its base is quantised."""
    base = setting.plan.lora_base
    if base is not None and weight.base and not weight.trains:
        return stored(base, weight).packed
    return dtype(weight.format or setting.precision.weights).storage(weight.numel)


def _weight(setting: Setting, weight: Weight) -> Number:
    """Bytes of one weight that a step makes anew."""
    return _stored(setting, weight) if weight.trains else 0


def _gradient(setting: Setting, weight: Weight) -> Number:
    """Bytes of the gradient that the optimizer reads of one weight."""
    return dtype(setting.precision.gradients).storage(weight.numel) if weight.trains else 0


def _swapped(setting: Setting, weight: Weight) -> Number:
    """Bytes of the states of one weight, its master with them."""
    master = setting.precision.master
    if not weight.trains:
        return 0
    copy = dtype(master).storage(weight.numel) if master and weight.format is None else 0
    return copy + state_bytes(setting, weight)

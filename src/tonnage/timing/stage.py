"""Seconds of one pipeline stage."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tonnage.algebra import Number, maximum, total, where
from tonnage.arch import Layer
from tonnage.cluster import Cluster
from tonnage.dtype import dtype
from tonnage.ledger import Operations, StageLedger
from tonnage.ledger.flops import layers_recomputed
from tonnage.ledger.frozen import reaches_layers
from tonnage.ledger.layer import recomputed_modules
from tonnage.ledger.piece import RECOMPUTE, by_piece, sum_of, trained_numel
from tonnage.plan import Setting
from tonnage.plan.schedule import OVERLAPPED
from tonnage.timing import constants
from tonnage.timing.host_memory import activation_seconds, exposed_activations
from tonnage.timing.kernel import Rates, forward_seconds, weight_seconds
from tonnage.timing.loss import loss_seconds
from tonnage.timing.passes import Pass, exposed_seconds, one_pass
from tonnage.timing.traffic import Traffic, data_parallel_traffic, layer_traffic, pipeline_traffic


@dataclass(frozen=True, kw_only=True)
class StageTime:
    """One stage's seconds for one micro-batch, and what its replicas exchange in a step.

    Attributes:
        forward: compute of the forward pass.
        backward: compute of the backward pass, without recomputation.
        recompute: forward work that recomputation repeats.
        exposed: communication inside a micro-batch that nothing hides, by part.
        host: that the device waits for the host.
        away: copies of offloaded activations to the host's memory, one way, hidden or not.
        weights: of the backward pass, the gradients of the layers' weights.
        replicas: what data-parallel ranks exchange in a step.
    """

    forward: Number
    backward: Number
    recompute: Number
    exposed: dict[str, Number]
    host: Number
    away: Number
    weights: Number
    replicas: tuple[Traffic, ...]

    @property
    def ahead(self) -> Number:
        """Of a micro-batch's seconds, those of the forward pass; what is not compute shares."""
        return self._share(self.forward)

    @property
    def late(self) -> Number:
        """Of a micro-batch's seconds, those of weights' gradients, which can be put off."""
        return self._share(self.weights)

    def _share(self, part: Number) -> Number:
        compute = self.forward + self.backward + self.recompute
        return where(compute > 0, self.microbatch * part / maximum(compute, 1e-12), 0.0)

    @property
    def microbatch(self) -> Number:
        """Seconds of one micro-batch, forward and backward."""
        compute = self.forward + self.backward + self.recompute
        return compute + total(self.exposed.values()) + self.host


@dataclass(frozen=True, kw_only=True)
class LayerTime:
    """Both passes of some operations.

    Attributes:
        forward: the forward pass.
        backward: the backward pass.
        selected: seconds of what selective recomputation repeats.
        weights: seconds of the backward pass that make weights' gradients.
    """

    forward: Pass
    backward: Pass
    selected: Number
    weights: Number


def layer_times(
    setting: Setting, ledgers: Iterable[StageLedger], cluster: Cluster, rate: Rates
) -> dict[Layer, LayerTime]:
    """The passes of every kind of layer, once for all stages."""
    kinds = {layer: found for ledger in ledgers for layer, found in ledger.layers.items()}
    return {
        layer: _times(setting, operations, cluster, rate, layer=True)
        for layer, operations in kinds.items()
    }


def _times(
    setting: Setting, operations: Operations, cluster: Cluster, rate: Rates, *, layer: bool
) -> LayerTime:
    return LayerTime(
        forward=one_pass(setting, operations, "forward", rate, cluster, layer),
        backward=one_pass(setting, operations, "backward", rate, cluster, layer),
        selected=_selected(setting, operations, rate) if layer else 0.0,
        weights=_weights(setting, operations, rate) if layer else 0.0,
    )


@by_piece(*RECOMPUTE)
def _weights(setting: Setting, operations: Operations, rate: Rates) -> Number:
    """Seconds of a layer's backward pass that make its weights' gradients."""
    return total(weight_seconds(setting, rate, op) for op in operations)


@by_piece()
def _selected(setting: Setting, operations: Operations, rate: Rates) -> Number:
    """Forward seconds of what selective recomputation repeats of a layer."""
    modules = recomputed_modules(setting)
    if "outputs" in modules:
        # Every second product, and half of what lies between them (torchtitan).
        others = [op for op in operations if op.kind != "attention"]
        return total(forward_seconds(setting, rate, op) for op in others) / 2
    chosen = [op for op in operations if modules.intersection(op.modules)]
    return total(forward_seconds(setting, rate, op) for op in chosen)


def stage_time(
    setting: Setting,
    ledger: StageLedger,
    layers: Mapping[Layer, LayerTime],
    cluster: Cluster,
    rate: Rates,
    which: tuple[int, ...] | None = None,
) -> StageTime:
    """The time of one stage, from the passes of its layers and of its ends.

    Args:
        setting: the run.
        ledger: the stage, or a part of it (`chunk_ledger`).
        layers: the passes of every kind of layer.
        cluster: the links.
        rate: of the device.
        which: the chunks of the stage that the ledger has; None: all.
    """
    passes = _passes(setting, ledger, layers) + _ends(setting, ledger, cluster, rate)
    if ledger.head:
        loss = Pass(compute=loss_seconds(setting, rate), exposed={}, host=0.0)
        passes.append(("backward", 1, loss))
    passes += _further(setting, ledger, cluster, rate)
    passes.append(("backward", 1, _accumulation(setting, ledger, rate)))
    sends = pipeline_traffic(setting, ledger, which)
    sent = exposed_seconds(setting, sends, cluster)

    def compute(which: str) -> Number:
        return total(count * each.compute for name, count, each in passes if name == which)

    exposed = {
        part: sent[part] / setting.turns
        + total(count * each.exposed.get(part, 0.0) for _, count, each in passes)
        for part in sent
    }
    if setting.plan.schedule in OVERLAPPED:
        exposed["expert_parallel"] = exchange_shown(setting) * exposed["expert_parallel"]
    counts = ledger.stage.kinds()
    selected = total(counts[layer] * layers[layer].selected for layer in ledger.layers)
    forward, backward, again = (compute(name) for name in ("forward", "backward", "recompute"))
    away = activation_seconds(setting, ledger, cluster)
    if setting.plan.offload_activations:
        exposed["offload"] = exposed_activations(away, forward, backward + again + selected)
    return StageTime(
        forward=forward,
        backward=backward,
        recompute=again + selected,
        exposed=exposed,
        host=total(count * each.host for _, count, each in passes),
        away=away,
        weights=total(counts[layer] * layers[layer].weights for layer in ledger.layers),
        replicas=tuple(data_parallel_traffic(setting, ledger)),
    )


def exchange_shown(setting: Setting) -> float:
    """The share of the experts' exchange in the open that stays there under `OVERLAPPED`.

    Beside another micro-batch's backward pass most of it is hidden.
    """
    hidden = setting.runtime.ep_overlap
    return min(1.0, (1.0 - constants.EXPERT_HIDDEN) / max(1.0 - hidden, 1e-12))


def chunk_ledger(ledger: StageLedger, chunk: int) -> StageLedger:
    """One chunk of a stage, with the ends of the model that lie at it."""
    stage = ledger.stage
    held = dataclasses.replace(
        stage,
        chunks=(stage.chunks[chunk],),
        embedding=stage.embedding and chunk == 0,
        head=stage.head and chunk == len(stage.chunks) - 1,
    )
    return dataclasses.replace(
        ledger,
        stage=held,
        layers={layer: ledger.layers[layer] for layer in held.kinds()},
        embedding=ledger.embedding if held.embedding else (),
        head=ledger.head if held.head else (),
        vision=ledger.vision if held.embedding else (),
    )


def _ends(
    setting: Setting, ledger: StageLedger, cluster: Cluster, rate: Rates
) -> list[tuple[str, Number, Pass]]:
    """The passes of the embedding and of the head."""
    ahead = 2 if setting.plan.reference_model else 1
    ends = [end for end in (ledger.embedding, ledger.head) if end]
    times = [_times(setting, end, cluster, rate, layer=False) for end in ends]
    forward: list[tuple[str, Number, Pass]] = [("forward", ahead, time.forward) for time in times]
    return forward + [("backward", 1, time.backward) for time in times]


def _further(
    setting: Setting, ledger: StageLedger, cluster: Cluster, rate: Rates
) -> list[tuple[str, Number, Pass]]:
    """The passes of the predictors of further tokens, each with a loss of its own."""
    found = ledger.predictors
    if not found.depth:
        return []
    once = _times(setting, found.operations, cluster, rate, layer=True)
    loss = Pass(compute=loss_seconds(setting, rate), exposed={}, host=0.0)
    passes = [("forward", found.depth, once.forward), ("backward", found.depth, once.backward)]
    return [*passes, ("backward", found.depth, loss)]


def _accumulation(setting: Setting, ledger: StageLedger, rate: Rates) -> Pass:
    """Adding a micro-batch's gradients to a second buffer in another format, where there is one."""
    recipe = setting.precision
    moved: Number = 0
    if recipe.accumulation:
        size = dtype(recipe.gradients).bytes + 2 * dtype(recipe.accumulation).bytes
        pieces = ledger.pieces()
        moved = size * total(n * sum_of(setting, piece, trained_numel) for piece, n in pieces)
    return Pass(compute=moved / rate.memory, exposed={}, host=0.0)


def _passes(
    setting: Setting, ledger: StageLedger, layers: Mapping[Layer, LayerTime]
) -> list[tuple[str, Number, Pass]]:
    """The passes of a stage's layers, each with its name and how often it is made."""
    again = layers_recomputed(setting, (ledger.stage,))
    passes: list[tuple[str, Number, Pass]] = []
    for layer, count in ledger.stage.kinds().items():
        time = layers[layer]
        passes.append(("forward", count, time.forward))
        if setting.plan.reference_model:
            passes.append(("forward", count, time.forward))
        if reaches_layers(setting):
            passes.append(("backward", count, time.backward))
            passes.append(("recompute", again.get(layer, 0), time.forward))
    return passes


def stage_traffic(setting: Setting, ledger: StageLedger) -> list[Traffic]:
    """All collectives of a step but those of the replicas, those of recomputation with them."""
    again = layers_recomputed(setting, (ledger.stage,))
    counts = ledger.stage.kinds()
    ends = (*ledger.embedding, *ledger.head)
    found = layer_traffic(setting, ends, setting.turns, rebuilt=False)
    more = ledger.predictors
    times = more.depth * setting.turns
    found += layer_traffic(setting, more.operations, times, rebuilt=False)
    for layer, operations in ledger.layers.items():
        repeated = again.get(layer, 0)
        for count, rebuilt in ((counts[layer] - repeated, False), (repeated, True)):
            if count:
                times = count * setting.turns
                found += layer_traffic(setting, operations, times, rebuilt=rebuilt)
    return found + pipeline_traffic(setting, ledger)

"""The whole model: what each pipeline stage holds, and the counts over all of them."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.algebra import Number
from tonnage.arch import Architecture, Layer
from tonnage.ledger.embedding import embedding
from tonnage.ledger.head import head
from tonnage.ledger.layer import layer_operations
from tonnage.ledger.operation import Operations, Weight, weights_of
from tonnage.ledger.vision import vision
from tonnage.plan import PRECISIONS, Plan, Setting, Stage, optimizer
from tonnage.runtime import Runtime


@dataclass(frozen=True, kw_only=True)
class StageLedger:
    """The operations of one pipeline stage on one rank.

    Attributes:
        stage: which layers it holds.
        layers: the operations of each distinct kind of layer.
        embedding: the operations before the first layer; empty elsewhere.
        head: the operations after the last layer; empty elsewhere.
        vision: an image encoder, of which only the weights are known; empty elsewhere.
    """

    stage: Stage
    layers: dict[Layer, Operations]
    embedding: Operations
    head: Operations
    vision: Operations

    def pieces(self) -> list[tuple[Operations, int]]:
        """Each distinct piece that has weights, and how often the stage holds it."""
        counts = self.stage.kinds()
        held = [(operations, counts[layer]) for layer, operations in self.layers.items()]
        return held + [(end, 1) for end in (self.embedding, self.head, self.vision) if end]

    def weights(self) -> list[tuple[Weight, int]]:
        """Each distinct weight and how often the stage holds it."""
        return [(weight, count) for piece, count in self.pieces() for weight in weights_of(piece)]


def stage_ledgers(setting: Setting, stages: tuple[Stage, ...]) -> tuple[StageLedger, ...]:
    """The ledger of every stage; layers of a kind are written once and shared."""
    kinds = {layer: layer_operations(setting, layer) for layer in setting.architecture.kinds()}
    apart = len(stages) > 1
    tower = setting.architecture.vision
    return tuple(
        StageLedger(
            stage=stage,
            layers={layer: kinds[layer] for layer in stage.kinds()},
            embedding=embedding(setting)[0] if stage.embedding else (),
            head=head(setting, owns_tied_table=apart) if stage.head else (),
            vision=vision(setting, tower) if tower and stage.embedding else (),
        )
        for stage in stages
    )


PLAIN = Runtime(
    name="plain",
    summary="one rank, nothing padded",
    axes=(),
    zero_stages=(0,),
    zero=0,
    precision="bf16",
    source="no stack: the architecture alone",
)


def whole(architecture: Architecture, plan: Plan | None = None, **numeric: Number) -> Setting:
    """The model on one rank, one sequence at a time: what architecture-level counts read.

    Args:
        architecture: the model.
        plan: categorical choices that change FLOPs (adapters, recomputation).
        numeric: numeric fields that are not 1.
    """
    ones: dict[str, Number] = dict.fromkeys(
        ("tp", "cp", "ep", "etp", "dp", "shard", "mbs", "grad_acc", "seq"), 1
    )
    return Setting(
        architecture=architecture,
        plan=plan or Plan(),
        runtime=PLAIN,
        precision=PRECISIONS["bf16"],
        optimizer=optimizer("adamw"),
        sp=False,
        zero=0,
        **{**ones, **numeric},
    )


def whole_stage(architecture: Architecture) -> Stage:
    """All layers on one stage."""
    return Stage(index=0, chunks=(architecture.layers,), embedding=True, head=True)

"""The whole model: what each pipeline stage holds, and the counts over all of them."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.algebra import Number
from tonnage.arch import Architecture, Layer
from tonnage.ledger.embedding import embedding
from tonnage.ledger.frozen import with_frozen
from tonnage.ledger.head import head
from tonnage.ledger.layer import layer_operations
from tonnage.ledger.mtp import NO_PREDICTORS, Predictors, predictors
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
        predictors: of further tokens; none away from the head.
    """

    stage: Stage
    layers: dict[Layer, Operations]
    embedding: Operations
    head: Operations
    vision: Operations
    predictors: Predictors = NO_PREDICTORS

    def pieces(self) -> list[tuple[Operations, int]]:
        """Each distinct piece that has weights, and how often the stage holds it."""
        counts = self.stage.kinds()
        held = [(operations, counts[layer]) for layer, operations in self.layers.items()]
        further = self.predictors
        if further.depth:
            held.append((further.operations, further.depth))
        ends = (self.embedding, self.head, self.vision, further.table)
        return held + [(end, 1) for end in ends if end]

    def weights(self) -> list[tuple[Weight, int]]:
        """Each distinct weight and how often the stage holds it."""
        return [(weight, count) for piece, count in self.pieces() for weight in weights_of(piece)]


def stage_ledgers(setting: Setting, stages: tuple[Stage, ...]) -> tuple[StageLedger, ...]:
    """The ledger of every stage; layers of a kind are written once and shared."""
    kinds = {layer: layer_piece(setting, layer) for layer in setting.architecture.kinds()}
    apart = len(stages) > 1
    return tuple(
        StageLedger(
            stage=stage,
            layers={layer: kinds[layer] for layer in stage.kinds()},
            embedding=embedding_piece(setting) if stage.embedding else (),
            head=head_piece(setting, owns_tied_table=apart) if stage.head else (),
            vision=vision_piece(setting) if stage.embedding else (),
            predictors=predictors(setting, apart=apart) if stage.head else NO_PREDICTORS,
        )
        for stage in stages
    )


def layer_piece(setting: Setting, layer: Layer) -> Operations:
    """One kind of layer, its frozen parts marked."""
    return with_frozen(setting, layer_operations(setting, layer), inside=True)


def embedding_piece(setting: Setting) -> Operations:
    """What comes before the first layer, its frozen parts marked."""
    return with_frozen(setting, embedding(setting)[0], inside=True)


def head_piece(setting: Setting, *, owns_tied_table: bool) -> Operations:
    """What comes after the last layer, its frozen parts marked."""
    found = head(setting, owns_tied_table=owns_tied_table)
    return with_frozen(setting, found, inside=False)


def vision_piece(setting: Setting) -> Operations:
    """The image encoder, its frozen parts marked; empty where there is none."""
    tower = setting.architecture.vision
    return with_frozen(setting, vision(setting, tower), inside=False) if tower else ()


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

"""What a stage runs, piece by piece: the embedding, each layer, the head with its loss."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tonnage.arch import Layer
from tonnage.ledger import Operations, StageLedger, Tensor
from tonnage.ledger.layer import layer_input, recomputed_modules, saved_tensors
from tonnage.ledger.loss import loss
from tonnage.memory.backward import backward_program
from tonnage.memory.program import Program, forward_program, fused
from tonnage.plan import Setting
from tonnage.timing.clocks import Costs


@dataclass(frozen=True, kw_only=True)
class Unit:
    """The programs of one piece.

    Attributes:
        forward: its forward pass.
        again: the forward pass once more, where it is recomputed as a whole.
        backward: its backward pass.
    """

    forward: Program
    again: Program | None
    backward: Program


class Units:
    """The programs of one setting; layers of a kind share theirs."""

    def __init__(self, setting: Setting, costs: Costs) -> None:
        self._setting = setting
        self._costs = costs
        self._layers: dict[Layer, Unit] = {}

    def chunks(self, ledger: StageLedger) -> tuple[tuple[Unit, ...], ...]:
        """The units of each chunk of a stage, in the order that they run."""
        setting, costs = self._setting, self._costs
        stream = layer_input(setting)
        for layer in ledger.layers.keys() - self._layers.keys():
            self._layers[layer] = unit(
                setting,
                ledger.layers[layer],
                costs,
                stream,
                checkpoint=setting.plan.recompute == "full",
            )
        chunks = [[self._layers[layer] for layer in chunk] for chunk in ledger.stage.chunks]
        if ledger.embedding:
            chunks[0].insert(0, unit(setting, ledger.embedding, costs, None))
        if ledger.head:
            chunks[-1].append(unit(setting, (*ledger.head, *loss(setting)), costs, stream))
        return tuple(map(tuple, chunks))


def unit(
    setting: Setting,
    operations: Operations,
    costs: Costs,
    stream: Tensor | None,
    *,
    checkpoint: bool = False,
) -> Unit:
    """The programs of some operations.

    Args:
        setting: the run.
        operations: in the order of the forward pass.
        costs: of kernels and collectives.
        stream: what enters; None: tokens only.
        checkpoint: only what enters is kept, and the forward pass runs again.
    """
    launched = fused(setting, operations)
    everything: Iterable[Tensor] = saved_tensors(launched)
    enters = stream.name if stream is not None else ""
    if checkpoint and stream is not None:
        return Unit(
            forward=forward_program(launched, (stream,), costs, enters=enters),
            again=forward_program(launched, (*everything, stream), costs, enters=enters),
            backward=backward_program(
                setting, launched, (*everything, stream), costs, enters=enters
            ),
        )
    kept = saved_tensors(launched, recomputed_modules(setting))
    return Unit(
        forward=forward_program(launched, kept, costs, enters=enters),
        again=None,
        backward=backward_program(setting, launched, kept, costs, enters=enters),
    )

"""What data-parallel ranks exchange in a step: gradients, and parameters that ZeRO shards."""

from __future__ import annotations

from tonnage.algebra import Number, total
from tonnage.dtype import dtype
from tonnage.ledger.model import StageLedger
from tonnage.ledger.operation import Collective, Weight
from tonnage.ledger.piece import Pieces, Size, trained_numel, weight_sums
from tonnage.ledger.quantized import stored
from tonnage.plan import Setting

AXES = {"dense": "dp_cp", "expert": "edp"}
"""The group that holds the same weight: over dp and cp, or what experts leave of a stage."""


def data_parallel_collectives(
    setting: Setting, ledger: StageLedger
) -> tuple[tuple[Collective, Number], ...]:
    """Each collective of a step over the replicas of a stage, and how often it happens.

    * ZeRO 0: one all-reduce of the gradients.
    * ZeRO 1: reduce-scatter of the gradients, all-gather of the stepped parameters; the
      same bytes as an all-reduce (arXiv 1910.02054, section 7.2.1).
    * ZeRO 2: the gradients leave in every micro-batch.
    * ZeRO 3: parameters are gathered in every forward and again in every backward: with
      one micro-batch 1.5 times the bytes (section 7.2.2). The root unit of FSDP, if there is
      one, is not resharded in between.

    Some stacks all-reduce at ZeRO 1 as well, and each rank uses its share
    (`Runtime.sharded_reduce`).

    With HSDP the shards' sums are all-reduced over the replicas of the shard group.
    """
    exchanges: list[tuple[Collective, Number]] = []
    for group, axis in AXES.items():
        trained = _sum(setting, ledger.pieces(), group, trained_numel)
        gradient = dtype(setting.precision.reduction).storage(trained)
        gathered = _sum(setting, ledger.pieces(), group, _gathered)
        again = gathered - _sum(setting, _stays_whole(setting, ledger), group, _gathered)
        exchanges.extend(_exchange(setting, axis, gradient, gathered, again))
    return tuple(exchanges)


def _exchange(
    setting: Setting, axis: str, gradient: Number, gathered: Number, again: Number
) -> list[tuple[Collective, Number]]:
    def one(kind: str, size: Number, phase: str, times: Number) -> tuple[Collective, Number]:
        return Collective(kind=kind, axis=axis, bytes=size, phase=phase), times  # type: ignore[arg-type]

    if setting.zero == 0:
        return [one("all_reduce", gradient, "backward", 1)]
    reductions = setting.turns if setting.zero >= 2 else 1
    whole = setting.zero == 1 and setting.runtime.sharded_reduce == "all-reduce"
    kind = "all_reduce" if whole else "reduce_scatter"
    exchanges = [one(kind, gradient, "backward", reductions)]
    if setting.zero == 3:
        exchanges.append(one("all_gather", gathered, "forward", setting.turns))
        exchanges.append(one("all_gather", again, "backward", setting.turns))
    else:
        exchanges.append(one("all_gather", gathered, "forward", 1))
    return exchanges


def _stays_whole(setting: Setting, ledger: StageLedger) -> Pieces:
    """The root unit, which backward finds whole (`Runtime.root_unit`)."""
    if not setting.runtime.root_unit:
        return []
    return [(end, 1) for end in (ledger.embedding, ledger.head) if end]


def _sum(setting: Setting, pieces: Pieces, group: str, size: Size) -> Number:
    """A size summed over the weights of a group."""
    return total(
        times * one
        for piece, times in pieces
        for (owner, _), one in weight_sums(setting, piece, size).items()
        if owner == group
    )


def _gathered(setting: Setting, weight: Weight) -> Number:
    """Bytes of one parameter that is gathered: at stage 3 those that do not train as well.

    Stage 3 moves what the products read, the others what is stored. The packed elements of a
    quantised base are moved as they are.
    """
    if not weight.trains and setting.zero < 3:
        return 0
    base = setting.plan.lora_base
    if base is not None and weight.base and not weight.trains:
        return stored(base, weight).packed
    recipe = setting.precision
    moved = recipe.compute if setting.zero >= 2 else recipe.weights
    narrow = recipe.quantized if setting.plan.fp8_param_gather and weight.narrow else None
    return dtype(narrow or moved).storage(weight.numel)

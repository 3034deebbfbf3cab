"""The largest tensors of a stage at one moment, by name, from the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tonnage.ledger import Operation, StageLedger, Tensor
from tonnage.ledger.layer import layer_input
from tonnage.ledger.optimizer import state_bytes
from tonnage.ledger.piece import Size
from tonnage.memory.activations import alternates, kept_by_chunk, late_by_chunk, saved_by_layer
from tonnage.memory.peak import Instant
from tonnage.memory.schedule import Held
from tonnage.memory.states import gradient_bytes, master_bytes, parameter_bytes, sharded
from tonnage.memory.timeline import TOP, AtPeak
from tonnage.plan import Setting

LUMPS = {
    "logits_and_loss": "logits and their copies",
    "communication_buffers": "communication buffers and gathered parameters",
    "temporaries": "temporaries and workspaces",
}
"""Categories that are named as one."""


def largest_tensors(
    setting: Setting, ledger: StageLedger, instant: Instant, held: Held
) -> tuple[AtPeak, ...]:
    """Those that take most, tensors of a name together, largest first.

    What a category holds at the moment bounds what is named of it: where the tensors of the
    ledger add up to more, as gradients do that are only beginning to appear, it is one row.
    """
    named = {
        **{name: list(rows) for name, rows in _states(setting, ledger).items()},
        "activations": list(_kept(setting, ledger, held)),
    }
    found: list[AtPeak] = []
    for category, size in instant.categories.items():
        rows = [row for row in named.get(category, ()) if row.bytes]
        if not rows or sum(row.bytes for row in rows) > size * 1.01:
            text = LUMPS.get(category, category.replace("_", " "))
            rows = [AtPeak(name=text, category=category, count=1, bytes=int(size))]
        found += rows
    return tuple(sorted(found, key=lambda row: (-row.bytes, row.name))[:TOP])


def _states(setting: Setting, ledger: StageLedger) -> dict[str, Iterator[AtPeak]]:
    """Weights and what belongs to them, by category, after sharding."""
    sizes: dict[str, tuple[Size, bool]] = {
        "parameters": (parameter_bytes, setting.gathers),
        "master_weights": (master_bytes, setting.zero >= 1),
        "gradients": (gradient_bytes, setting.zero >= 2),
        "optimizer_states": (state_bytes, setting.zero >= 1),
    }

    def rows(category: str, size: Size, shards: bool) -> Iterator[AtPeak]:
        for weight, count in ledger.weights():
            alone = Operation(name=weight.name, kind="elementwise", weights=(weight,))
            bytes_ = int(sharded(setting, [((alone,), count)], size, shards))
            yield AtPeak(name=weight.name, category=category, count=count, bytes=bytes_)

    return {category: rows(category, *rule) for category, rule in sizes.items()}


def _kept(setting: Setting, ledger: StageLedger, held: Held) -> Iterator[AtPeak]:
    """What layers and the ends of the model keep of every micro-batch that is held."""
    counts: Counter[Tensor] = Counter()
    whole = setting.plan.recompute == "full" or alternates(setting.plan)
    for kept, late, chunk in zip(held.kept, held.late, ledger.stage.chunks, strict=True):
        if whole:
            size = int(kept_by_chunk(setting, ledger, chunk))
            name = f"checkpoints ({layer_input(setting).name})"
            yield AtPeak(name=name, category="activations", count=kept, bytes=kept * size)
        else:
            for layer, layers in Counter(chunk).items():
                for tensor in _once(saved_by_layer(setting, ledger.layers[layer])):
                    counts[tensor] += layers * kept
        size = late * int(late_by_chunk(setting, ledger, chunk))
        name = "kept for weights' gradients"
        yield AtPeak(name=name, category="activations", count=late, bytes=size)
    for operations, kept in ((ledger.embedding, held.kept[0]), (ledger.head, held.kept[-1])):
        for tensor in _once(tensor for operation in operations for tensor in operation.saves):
            counts[tensor] += kept
    for tensor, count in counts.items():
        size = count * int(tensor.bytes)
        yield AtPeak(name=tensor.name, category="activations", count=count, bytes=size)


def _once(tensors: Iterable[Tensor]) -> Iterable[Tensor]:
    return {tensor.name: tensor for tensor in tensors}.values()

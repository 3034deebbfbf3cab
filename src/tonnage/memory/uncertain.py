"""What a plan asks for that is known in its bounds only: a range of bytes, by name."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.algebra import Number, largest, total
from tonnage.dtype import dtype
from tonnage.ledger import StageLedger, Weight
from tonnage.ledger.layer import layer_input
from tonnage.memory.activations import backward_transients
from tonnage.memory.host import staged_activations
from tonnage.memory.peak import live_inside, per_layer
from tonnage.memory.states import sharded
from tonnage.plan import Setting


@dataclass(frozen=True, kw_only=True)
class Uncertain:
    """A feature and how far it can move what is allocated.

    Attributes:
        name: the feature, as a person reads it.
        below: bytes that the figure may be too high by.
        above: bytes that it may be too low by.
    """

    name: str
    below: Number
    above: Number


def uncertain(setting: Setting, ledger: StageLedger) -> tuple[Uncertain, ...]:
    """The features of a plan whose memory is known in bounds only, on one stage."""
    plan = setting.plan
    found: list[Uncertain] = []
    if plan.cuda_graphs:
        found.append(_graphs(setting, ledger))
    if plan.offload_activations:
        found.append(_offload(setting, ledger))
    if any(rule == "hidden_matrices" for _, rule in setting.optimizer.states):
        found.append(_orthogonal(setting, ledger))
    if not setting.runtime.measured:
        found.append(_unmeasured(setting, ledger))
    return tuple(found)


def _graphs(setting: Setting, ledger: StageLedger) -> Uncertain:
    """Captured graphs have a pool of their own.

    What a layer keeps lies in that pool, where it no longer counts as allocated once the
    capture is over: up to all of it goes. Each captured layer and micro-batch has an input and
    an output that stay, and the pool has a layer's transients of its own (PyTorch, CUDA
    semantics, graph memory management).
    """
    entry = layer_input(setting).bytes
    layers = total(per_layer(setting, ledger))
    transient = backward_transients(setting, ledger)
    return Uncertain(
        name="CUDA graphs: a private pool, and inputs and outputs that stay",
        below=live_inside(setting, ledger),
        above=2 * entry * layers + transient.forward + transient.backward,
    )


def _offload(setting: Setting, ledger: StageLedger) -> Uncertain:
    """Small tensors, modules that are left out and copies that fall behind stay on the device."""
    kept = live_inside(setting, ledger)
    return Uncertain(
        name="offloaded activations: which of them leave, and how soon",
        below=0,
        above=kept - staged_activations(setting, ledger, kept),
    )


def _orthogonal(setting: Setting, ledger: StageLedger) -> Uncertain:
    """Newton-Schulz steps of a matrix, and a second moment where a stack keeps one all the same.

    A step has the matrix, its Gram matrix and the square of that in 16 bits (arXiv 2502.16982).
    """
    hidden = [w for w, _ in ledger.weights() if _is_hidden_matrix(w)]
    steps = largest(3 * dtype("bf16").storage(w.numel) for w in hidden)
    return Uncertain(
        name="Muon: the temporaries of its orthogonalisation, and how its states are sharded",
        below=0,
        above=steps + sharded(setting, ledger.pieces(), _second_moment, setting.zero >= 1),
    )


def _is_hidden_matrix(weight: Weight) -> bool:
    return weight.trains and len(weight.shape) == 2 and not weight.embedding


def _second_moment(setting: Setting, weight: Weight) -> Number:
    each = dtype(setting.precision.moments)
    return each.storage(weight.numel) if _is_hidden_matrix(weight) else 0


def _unmeasured(setting: Setting, ledger: StageLedger) -> Uncertain:
    """An engine that gathers, of which no measurement says how much it holds at once."""
    weights = ledger.weights()
    each = dtype(setting.precision.compute).bytes + dtype(setting.precision.reduction).bytes
    whole = total(n * w.numel for w, n in weights) * each
    return Uncertain(
        name=f"{setting.runtime.name}: how much it gathers at once",
        below=0,
        above=whole,
    )

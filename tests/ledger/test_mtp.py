"""Predictors of further tokens: their weights, what they keep, their losses and FLOPs."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.plan.strategies import DENSE, EXPERTS, HIDDEN, MIXTURE, cluster, layer
from tonnage.algebra import total
from tonnage.arch import Architecture
from tonnage.errors import InputError
from tonnage.ledger import StageLedger, parameters, sequence_flops, stage_ledgers
from tonnage.ledger.mtp import predictors_keep, predictors_losses
from tonnage.memory import stage_memory
from tonnage.plan import Plan, Resolved, resolve

PREDICTING = dataclasses.replace(MIXTURE, mtp_layers=2, mtp=layer(mlp=EXPERTS))


def run(architecture: Architecture = PREDICTING, **plan: Any) -> Resolved:
    return resolve(Plan(**{"seq": 64, **plan}), architecture, cluster(8))


def last(resolved: Resolved) -> StageLedger:
    return stage_ledgers(resolved.setting, resolved.stages)[-1]


def weight(ledger: StageLedger) -> int:
    return int(total(n * w.numel for w, n in ledger.weights()))


def test_they_hold_the_weights_that_a_count_names() -> None:
    count = parameters(PREDICTING)
    without, with_two = (weight(last(run(mtp=mtp))) for mtp in (0, 2))
    assert with_two - without == count.mtp


def test_away_from_the_embedding_they_hold_a_copy_of_it_once() -> None:
    """As large as the vocabulary that the runtime pads; a tied head is that copy."""
    extra = [weight(last(run(mtp=depth, pp=2))) - weight(last(run(pp=2))) for depth in (1, 2)]
    each = extra[1] - extra[0]
    assert extra[0] - each == 1024 * HIDDEN
    tied = dataclasses.replace(PREDICTING, tied_embeddings=True)
    assert weight(last(run(tied, mtp=1, pp=2))) - weight(last(run(tied, pp=2))) == each


@pytest.mark.parametrize(("loss", "each"), [("vocab-parallel", 4), ("in-place", 2)])
def test_every_depth_keeps_a_loss_until_backward(loss: str, each: int) -> None:
    for depth in (1, 2):
        resolved = run(mtp=depth, loss=loss)
        kept = predictors_losses(resolved.setting, last(resolved).predictors)
        assert kept == depth * each * 64 * 1024
    memory = [
        stage_memory(run(mtp=depth, loss=loss).setting, last(run(mtp=depth, loss=loss)))
        for depth in (1, 2)
    ]
    peaks = [{i.when: i for i in found.instants} for found in memory]
    gap = [
        peaks[1][when].categories["logits_and_loss"] - peaks[0][when].categories["logits_and_loss"]
        for when in ("loss", "head backward", "head product")
    ]
    assert gap == [each * 64 * 1024] * 3


def test_flops_of_a_predictor_are_a_projection_a_layer_and_a_head() -> None:
    """Of DENSE: 6 FLOPs a weight and token beside attention, which is that of a layer."""
    found = [
        sequence_flops(run(DENSE, mtp=depth).setting, run(DENSE).stages, causal=True).model
        for depth in (0, 1)
    ]
    model = dataclasses.replace(DENSE, layers=DENSE.layers[:1])
    shorter = dataclasses.replace(DENSE, layers=DENSE.layers[:2])
    one, two = (
        sequence_flops(run(each).setting, run(each).stages, causal=True).model
        for each in (model, shorter)
    )
    projection, head = 6 * 64 * 2 * HIDDEN * HIDDEN, 6 * 64 * HIDDEN * DENSE.vocab
    assert found[1] - found[0] == (two - one) + projection + head


def test_full_recomputation_keeps_the_streams_that_enter() -> None:
    resolved = run(mtp=2, recompute="full")
    stream = 2 * 64 * HIDDEN
    assert predictors_keep(resolved.setting, last(resolved).predictors) == 3 * stream


def test_a_stack_without_them_says_so() -> None:
    with pytest.raises(InputError, match="trains"):
        run(DENSE, mtp=1, runtime="ddp")

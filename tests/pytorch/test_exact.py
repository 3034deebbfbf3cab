"""The ledger beside the dry run, to the byte and to the FLOP: no tolerance.

Every model is run under each recipe, with and without recomputation, with flash and with
unfused attention. The window of gemma2 is as long as the sequence, since unfused attention
multiplies what the mask hides.
"""

from __future__ import annotations

from functools import cache

import pytest

from tests.pytorch.models import MODELS

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tonnage.cluster import parse_cluster
from tonnage.plan import Plan
from tonnage.plan.plan import AttentionKernel, Recompute
from tonnage.pytorch import DryRun, compare, dry_run
from tonnage.pytorch.compare import saved_by_layer

PRECISIONS = ("fp32", "bf16", "bf16-amp")
RECOMPUTES: tuple[Recompute, ...] = ("none", "full")
ATTENTIONS: tuple[AttentionKernel, ...] = ("flash", "eager")

every_model = pytest.mark.parametrize("model", MODELS)
every_precision = pytest.mark.parametrize("precision", PRECISIONS)
every_attention = pytest.mark.parametrize("attention", ATTENTIONS)


@cache
def run(model: str, precision: str, recompute: Recompute, attention: AttentionKernel) -> DryRun:
    plan = Plan(
        runtime="transformers",
        precision=precision,
        recompute=recompute,
        attention=attention,
        seq=32,
        mbs=2,
    )
    return dry_run(MODELS[model], plan, parse_cluster("1xH100"), name=model)


@every_model
@every_precision
@pytest.mark.parametrize("recompute", RECOMPUTES)
@every_attention
def test_states_activations_and_flops(
    model: str, precision: str, recompute: Recompute, attention: AttentionKernel
) -> None:
    rows = [row for row in compare(run(model, precision, recompute, attention)) if row.exact]
    assert len(rows) == 7
    assert {row.name: row.dry_run for row in rows} == {row.name: row.ledger for row in rows}


@every_model
@every_precision
@every_attention
def test_saved_activations_of_each_layer(
    model: str, precision: str, attention: AttentionKernel
) -> None:
    layers, outside = saved_by_layer(run(model, precision, "none", attention))
    assert len(layers) == 2
    rows = (*layers, outside)
    assert {row.name: row.dry_run for row in rows} == {row.name: row.ledger for row in rows}


@pytest.mark.parametrize("mbs", [1, 3])
@pytest.mark.parametrize("grad_acc", [1, 2])
def test_batches_and_accumulation(mbs: int, grad_acc: int) -> None:
    plan = Plan(runtime="transformers", seq=24, mbs=mbs, grad_acc=grad_acc)
    rows = compare(dry_run(MODELS["llama"], plan, parse_cluster("1xH100")))
    assert [row.name for row in rows if row.exact and row.difference] == []


def test_the_peak_of_a_real_model_is_near() -> None:
    """A peak is a walk over operators, of which the ledger has fewer: near, not equal."""
    config = {
        **MODELS["llama"],
        "hidden_size": 1024,
        "intermediate_size": 2816,
        "vocab_size": 32000,
        "max_position_embeddings": 2048,
    }
    plan = Plan(runtime="transformers", seq=2048, recompute="full")
    (peak,) = (
        row
        for row in compare(dry_run(config, plan, parse_cluster("1xH100")))
        if row.name == "peak"
    )
    assert abs(peak.difference) < 0.01 * peak.dry_run

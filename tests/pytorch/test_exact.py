"""The ledger beside the dry run, to the byte and to the FLOP: no tolerance.

Every model is run under each recipe, with and without recomputation, with flash and with
unfused attention. The window of gemma2 is as long as the sequence, since unfused attention
multiplies what the mask hides.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.pytorch.models import MODELS

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tonnage.cluster import parse_cluster
from tonnage.plan import Plan
from tonnage.plan.plan import AttentionKernel, Recompute
from tonnage.pytorch import Comparison, DryRun, compare, dry_run
from tonnage.pytorch.compare import saved_by_layer

PRECISIONS = ("fp32", "bf16", "bf16-amp")
RECOMPUTES: tuple[Recompute, ...] = ("none", "full")
ATTENTIONS: tuple[AttentionKernel, ...] = ("flash", "eager")


def run(model: str, plan: Plan) -> DryRun:
    return dry_run(MODELS[model], plan, parse_cluster("1xH100"), name=model)


def differing(rows: Iterable[Comparison]) -> dict[str, tuple[int, int]]:
    return {row.name: (row.dry_run, row.ledger) for row in rows if row.exact and row.difference}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("recompute", RECOMPUTES)
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_states_activations_and_flops(
    model: str, precision: str, recompute: Recompute, attention: AttentionKernel
) -> None:
    plan = Plan(
        runtime="transformers",
        precision=precision,
        recompute=recompute,
        attention=attention,
        seq=32,
        mbs=2,
    )
    done = run(model, plan)
    rows = compare(done)
    assert sum(row.exact for row in rows) == 7
    assert differing(rows) == {}
    if recompute == "none":
        layers, outside = saved_by_layer(done)
        assert len(layers) == 2
        assert differing((*layers, outside)) == {}


@pytest.mark.parametrize("mbs", [1, 3])
@pytest.mark.parametrize("grad_acc", [1, 2])
def test_batches_and_accumulation(mbs: int, grad_acc: int) -> None:
    plan = Plan(runtime="transformers", seq=24, mbs=mbs, grad_acc=grad_acc)
    assert differing(compare(run("llama", plan))) == {}


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
        row for row in compare(dry_run(config, plan, parse_cluster("1xH100"))) if row.name == "peak"
    )
    assert abs(peak.difference) < 0.01 * peak.dry_run

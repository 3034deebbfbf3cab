"""What binds a plan is said of it."""

from __future__ import annotations

from tonnage.arch import load
from tonnage.cluster import parse_cluster
from tonnage.estimation import estimate
from tonnage.plan import Plan
from tonnage.search.answer import Neighbour
from tonnage.search.binding import bindings


def found(*beside: Neighbour, **plan: object) -> dict[str, str]:
    fields = {"gbs": 64, "seq": 4096, **plan}
    best = estimate(
        load("llama-3.1-8b"),
        Plan(**fields),  # type: ignore[arg-type]
        parse_cluster("16xH100"),
    )
    return {each.name: each.remark for each in bindings(best, beside)}


def test_a_pipeline_binds_by_its_bubble() -> None:
    names = found(pp=16, tp=1)
    assert next(iter(names)) == "bubble"
    assert "pp 16" in names["bubble"]


def test_tensor_parallelism_binds_by_its_communication() -> None:
    names = found(tp=8)
    assert next(iter(names)) == "communication"
    assert "tensor parallel" in names["communication"]


def test_a_batch_of_single_sequences_binds() -> None:
    assert "batch" in found(pp=4, gbs=8)
    assert "batch" not in found(pp=4, gbs=64)


def test_memory_binds_by_what_is_faster_and_does_not_fit() -> None:
    larger = Neighbour(
        knob="mbs",
        before="1",
        after="2",
        fields={"mbs": 2},
        seconds=-0.5,
        bytes=2**30,
        fits=False,
        error="",
    )
    assert "mbs 2 would save" in found(larger, tp=2)["memory"]
    assert "would save" not in found(tp=2)["memory"]

"""A name where a model, a plan or a cluster is asked for is one error that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import tonnage
from tonnage.errors import InputError
from tonnage.estimation import explain, timeline
from tonnage.search import changes, nearest
from tonnage.search.batch_curve import batch_curve
from tonnage.search.fit import fewest_gpus, largest_fitting
from tonnage.search.scaling import scaling

CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "estimate": tonnage.estimate,
    "explain": lambda a, p, c: explain(a, p, c, "parameters"),
    "timeline": timeline,
    "scaling": lambda a, p, c: scaling(a, p, (c,)),
    "batch": batch_curve,
    "fewest": fewest_gpus,
    "nearest": nearest,
    "changes": changes,
    "export": lambda a, p, c: tonnage.export("megatron", a, p, c),
    "question": lambda a, p, c: tonnage.Question(architecture=a, base=p, clusters=(c,)),
    "fit mbs": partial(largest_fitting, "mbs"),
    "fit seq": partial(largest_fitting, "seq"),
    "fit layers": partial(largest_fitting, "layers"),
    "fit params": partial(largest_fitting, "params"),
    "fit lora-rank": partial(largest_fitting, "lora-rank"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    ("place", "value", "field", "does"),
    [
        (0, "gpt2", "architecture", "tonnage.load('gpt2')"),
        (0, None, "architecture", "tonnage.load(...)"),
        (1, {"tp": 2}, "plan", "tonnage.Plan(...)"),
        (2, "8xH100", "cluster", "tonnage.parse_cluster('8xH100')"),
    ],
)
def test_a_name_is_no_noun(
    call: Callable[[Any, Any, Any], Any], place: int, value: Any, field: str, does: str
) -> None:
    nouns: list[Any] = [
        tonnage.load("gpt2"),
        tonnage.Plan(gbs=8, seq=1024),
        tonnage.parse_cluster("8xH100"),
    ]
    nouns[place] = value
    with pytest.raises(InputError) as refused:
        call(*nouns)
    assert (refused.value.field, refused.value.accepted) == (field, does)


@pytest.mark.parametrize("clusters", ["8xH100", (), ("8xH100",), None])
def test_clusters_are_a_list_of_them(clusters: Any) -> None:
    gpt2, plan = tonnage.load("gpt2"), tonnage.Plan(gbs=8, seq=1024)
    with pytest.raises(InputError, match="cluster"):
        scaling(gpt2, plan, clusters)
    with pytest.raises(InputError, match="cluster"):
        tonnage.Question(architecture=gpt2, base=plan, clusters=clusters)


def test_other_arguments_of_another_kind_are_refused_too() -> None:
    gpt2, cluster = tonnage.load("gpt2"), tonnage.parse_cluster("8xH100")
    with pytest.raises(InputError, match=r"limits: .* is dict, and not Limits"):
        tonnage.estimate(gpt2, tonnage.Plan(), cluster, {"steps": 1})
    with pytest.raises(InputError, match="question: gpt2 is str"):
        tonnage.find_plans("gpt2")
    with pytest.raises(InputError, match=r"MODEL: .* is not text"):
        tonnage.load(gpt2)
    with pytest.raises(InputError, match="--gpus: 8 is not text"):
        tonnage.parse_cluster(8)

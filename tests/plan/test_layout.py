"""Which layers a stage holds: every layer once, in order, as Megatron deals them out."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.strategies import DENSE, cluster, layer, model, runs
from tonnage.arch import MLP, Architecture, Layer
from tonnage.errors import InputError
from tonnage.plan import Plan, resolve
from tonnage.plan.layout import divisors_text, stages
from tonnage.plan.schedule import seat


def numbered(count: int) -> Architecture:
    """A model whose layers tell one another apart by their width."""
    return model(
        "numbered",
        *[
            layer(mlp=MLP(intermediate=index + 1, gated=False, activation="gelu"))
            for index in range(count)
        ],
    )


def numbers(layers: tuple[Layer, ...]) -> list[int]:
    return [layer.mlp.intermediate - 1 for layer in layers if isinstance(layer.mlp, MLP)]


@given(st.integers(1, 24), st.integers(1, 8), st.integers(1, 4), st.booleans(), st.booleans())
def test_every_layer_once_in_the_order_that_a_token_passes(
    count: int, pp: int, vpp: int, embedding: bool, loss: bool
) -> None:
    plan = Plan(pp=pp, vpp=vpp, account_for_embedding=embedding, account_for_loss=loss)
    places = count + embedding + loss
    try:
        layout = stages(numbered(count), plan)
    except InputError:
        even = pp <= count and places % pp == 0 and places // pp % vpp == 0
        assert not even or places // (pp * vpp) < 1 + (embedding and loss and pp * vpp == 1)
        return
    passed = [numbers(stage.chunks[chunk]) for chunk in range(vpp) for stage in layout]
    assert list(itertools.chain(*passed)) == list(range(count))
    assert [stage.index for stage in layout] == list(range(pp))
    assert [stage.embedding for stage in layout] == [i == 0 for i in range(pp)]
    assert [stage.head for stage in layout] == [i == pp - 1 for i in range(pp)]


@given(runs())
def test_stages_partition_any_model(run: Any) -> None:
    architecture, plan, cluster = run
    resolved = resolve(plan, architecture, cluster)
    streams: dict[int, dict[int, Any]] = {}
    for stage in resolved.stages:
        for index, chunk in enumerate(stage.chunks):
            found = seat(resolved.plan, stage.index, index)
            streams.setdefault(found.stream, {})[found.place] = chunk
    for places in streams.values():
        passed = [places[place] for place in sorted(places)]
        assert tuple(itertools.chain(*passed)) == architecture.layers
    for stage in resolved.stages:
        assert sum(stage.kinds().values()) == len(stage.layers)


def test_virtual_stages_are_dealt_out_in_rounds() -> None:
    """arXiv 2104.04473, section 2.2: device 1 has layers 1, 2, 9, 10; device 2 has 3, 4, 11, 12."""
    layout = stages(numbered(16), Plan(pp=4, vpp=2))
    assert [numbers(stage.layers) for stage in layout] == [
        [0, 1, 8, 9],
        [2, 3, 10, 11],
        [4, 5, 12, 13],
        [6, 7, 14, 15],
    ]


def test_the_embedding_and_the_loss_take_a_place() -> None:
    """Llama 3.1 405B: 126 layers over 16 stages, 7 on the first and the last."""
    plan = Plan(pp=16, account_for_embedding=True, account_for_loss=True)
    layout = stages(numbered(126), plan)
    assert [len(stage.layers) for stage in layout] == [7, *[8] * 14, 7]


def test_ends_as_given() -> None:
    plan = Plan(pp=4, first_stage_layers=1, last_stage_layers=3)
    assert [len(stage.layers) for stage in stages(numbered(10), plan)] == [1, 3, 3, 3]


@pytest.mark.parametrize(
    ("number", "limit", "text"),
    [
        (1, None, "1"),
        (12, None, "1, 2, 3, 4, 6 or 12"),
        (12, 4, "1, 2, 3 or 4"),
        (97, None, "1 or 97"),
    ],
)
def test_divisors(number: int, limit: int | None, text: str) -> None:
    assert divisors_text(number, limit) == text


def test_a_long_list_of_divisors_keeps_both_ends() -> None:
    text = divisors_text(5040)
    assert text.startswith("1, 2, 3, 4, 5, 6, 7, 8, …, ")
    assert text.endswith("or 5040")


@pytest.mark.parametrize("field", ["first_stage_layers", "last_stage_layers"])
def test_one_stage_has_all_layers(field: str) -> None:
    fields: dict[str, Any] = {field: 1}
    with pytest.raises(InputError, match=field):
        resolve(Plan(**fields), DENSE, cluster(1))


def test_a_counted_end_is_not_counted_twice() -> None:
    plan = Plan(pp=2, first_stage_layers=3, account_for_embedding=True)
    with pytest.raises(InputError, match="first_stage_layers"):
        resolve(plan, DENSE, cluster(2))


@given(st.integers(3, 130), st.integers(2, 16))
def test_the_hint_for_an_uneven_split_is_a_split(layers: int, pp: int) -> None:
    """What the error suggests is accepted."""
    if layers % pp == 0 or pp > layers or (layers + 2) % pp == 0:
        return
    architecture = model("uneven", *(DENSE.layers[0],) * layers)
    with pytest.raises(InputError) as caught:
        stages(architecture, Plan(pp=pp))
    words = caught.value.hint.split()
    ends = {
        name[2:].replace("-", "_"): int(count)
        for name, count in zip(*[iter(words)] * 2, strict=True)
    }
    fields: dict[str, Any] = {"pp": pp, **ends}
    assert sum(len(stage.layers) for stage in stages(architecture, Plan(**fields))) == layers

"""Single changes to a plan are what their estimates say."""

from dataclasses import replace

import pytest

from tonnage import Limits, Plan, estimate, load, parse_cluster
from tonnage.search import changes, nearest
from tonnage.search.changes import every_change, kept_sp

LLAMA = load("llama-3.1-8b")
NODE = parse_cluster("8xH100")
PLAN = Plan(runtime="fsdp2", seq=8192, mbs=2, gbs=64)


def test_each_change_is_the_estimate_of_the_changed_plan() -> None:
    before = estimate(LLAMA, PLAN, NODE)
    found = changes(LLAMA, PLAN, NODE, before=before)
    assert len(found) > 5
    for change in found:
        again = estimate(LLAMA, change.answer.plan, NODE)
        assert again.memory.peak_bytes == change.answer.memory.peak_bytes
        assert change.bytes == (again.memory.peak_bytes.device - before.memory.peak_bytes.device)
        assert change.seconds == pytest.approx(again.step.seconds - before.step.seconds)
        assert change.bytes < 0


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("llama-3.1-8b", Plan(tp=2, sp=False, mbs=2, gbs=64, seq=8192)),
        ("llama-3.1-8b", Plan(tp=4, pp=2, sp=False, mbs=2, gbs=64, seq=8192)),
        ("mixtral-8x7b", Plan(tp=4, ep=4, etp=1, mbs=2, gbs=64, seq=4096)),
        ("mixtral-8x7b", Plan(tp=4, ep=2, etp=4, sp=True, mbs=2, gbs=64, seq=4096)),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_change_is_what_its_fields_say_and_nothing_besides(name: str, plan: Plan) -> None:
    """Whoever adds the flags of a change to those of the plan gets what was promised."""
    model = load(name)
    before = estimate(model, plan, NODE)
    for change in every_change(model, before, NODE, None):
        told = replace(plan, **change.fields)
        again = estimate(model, told, NODE)
        assert again.memory.peak_bytes == change.answer.memory.peak_bytes, change.fields
        assert again.step.seconds == change.answer.step.seconds, change.fields


def test_the_batch_stays() -> None:
    for change in changes(LLAMA, PLAN, NODE):
        assert change.answer.plan.gbs == 64


def test_what_fits_comes_cheapest_first_and_the_same_training_before_another() -> None:
    found = nearest(LLAMA, PLAN, NODE)
    assert all(change.answer.fits for change in found)
    same = [change.seconds for change in found if not change.alters]
    assert same == sorted(same)
    kinds = [bool(change.alters) for change in found]
    assert kinds == sorted(kinds)
    assert found[0].fields == {"mbs": 1}


def test_changes_are_joined_where_none_is_enough() -> None:
    tight = Limits(memory_limit=26 * 2**30)
    (joined,) = nearest(LLAMA, PLAN, NODE, tight)
    assert joined.answer.fits
    assert len(joined.fields) > 1
    for change in changes(LLAMA, PLAN, NODE, tight):
        assert change.alters or not change.answer.fits


def test_nothing_is_promised_where_nothing_is_enough() -> None:
    assert nearest(load("llama-3.1-405b"), Plan(seq=8192), NODE) == ()


def test_an_offload_costs_time_and_alters_nothing_of_the_training() -> None:
    found = {tuple(each.fields): each for each in changes(LLAMA, PLAN, NODE)}
    for field in ("offload_parameters", "offload_optimizer"):
        assert found[field,].alters == ""
        assert found[field,].seconds > 0
        assert found[field,].answer.step.breakdown["offload"] > 0


@pytest.mark.parametrize(
    ("tp", "after", "kept"), [(2, 4, False), (4, 2, False), (1, 2, None), (2, 1, None)]
)
def test_sequence_parallelism_stays_where_there_is_a_choice(
    tp: int, after: int, kept: bool | None
) -> None:
    assert kept_sp(Plan(tp=tp, sp=False), after) is kept

"""The largest value that fits, by any way of looking for it."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage import InputError, Limits, NotModelledError, Plan, estimate, load, parse_cluster
from tonnage.ledger import parameters
from tonnage.search.fit import _last, fewest_gpus, largest_fitting
from tonnage.search.resize import with_heads, with_layers

LLAMA = load("llama-3.2-1b")
NODE = parse_cluster("8xH100")


@given(length=st.integers(1, 300), good=st.integers(0, 300))
def test_the_last_that_fits_is_found_with_few_questions(length: int, good: int) -> None:
    good = min(good, length)
    asked: set[int] = set()

    def fits(value: int) -> bool:
        asked.add(value)
        return value < good

    assert _last(range(length), fits) == good - 1
    assert len(asked) <= 2 * length.bit_length() + 2


def test_the_largest_micro_batch_is_the_one_before_the_first_that_does_not_fit() -> None:
    plan = Plan(runtime="fsdp2", seq=4096)
    found = largest_fitting("mbs", LLAMA, plan, NODE)
    assert found.value is not None
    assert found.next_value == found.value + 1
    for value in range(1, found.value + 2):
        fits = estimate(LLAMA, dataclasses.replace(plan, mbs=value), NODE).fits
        assert fits == (value <= found.value)
    assert found.answer == estimate(LLAMA, dataclasses.replace(plan, mbs=found.value), NODE)
    assert "too much at" in found.stopped_by


def test_a_global_batch_leaves_its_divisors() -> None:
    plan = Plan(runtime="fsdp2", seq=4096, gbs=8 * 12)
    found = largest_fitting("mbs", LLAMA, plan, NODE)
    assert found.value in (1, 2, 3, 4, 6, 12)
    assert found.answer is not None
    assert found.answer.plan.gbs == 96


@pytest.mark.parametrize("quantity", ["seq", "layers", "params"])
def test_less_memory_never_lets_more_in(quantity: str) -> None:
    plan = Plan(runtime="fsdp2", seq=4096)
    values = []
    for gib in (30, 60):
        limits = Limits(memory_limit=gib * 2**30)
        found = largest_fitting(quantity, LLAMA, plan, NODE, limits)  # type: ignore[arg-type]
        assert found.value is not None
        assert found.answer is not None
        assert found.answer.fits
        assert found.next_value is not None
        assert found.next_value > found.value
        values.append(found.value)
    assert values[0] < values[1]


def test_adapters_end_at_the_hidden_size() -> None:
    plan = Plan(runtime="transformers", seq=512)
    found = largest_fitting("lora-rank", LLAMA, plan, NODE)
    assert found.value == LLAMA.hidden
    assert found.next_value is None


def test_learnt_positions_stop_a_sequence() -> None:
    gpt = load("gpt2")
    found = largest_fitting("seq", gpt, Plan(), NODE)
    assert found.value == 1024
    assert "learnt positions" in found.stopped_by


def test_nothing_fits() -> None:
    found = largest_fitting("seq", load("llama-3.1-405b"), Plan(), NODE)
    assert (found.value, found.answer) == (None, None)
    assert found.stopped_by


def test_the_fewest_devices() -> None:
    large, many = load("llama-3.1-8b"), parse_cluster("64xH100")
    plan = Plan(runtime="fsdp2", seq=4096, recompute="full")
    found = fewest_gpus(large, plan, many)
    assert found.value is not None
    counts = [*range(1, 9), *range(16, 65, 8)]
    by_hand = [n for n in counts if estimate(large, plan, many.override(gpus=n)).fits]
    assert found.value == by_hand[0]


def test_no_count_of_devices_is_an_error_that_says_why() -> None:
    with pytest.raises(InputError, match="does not divide the 4 GPUs"):
        fewest_gpus(LLAMA, Plan(tp=8), parse_cluster("4xH100"))


def test_a_deeper_model_goes_on_with_its_pattern() -> None:
    gemma = load("gemma-2-9b")
    longer = with_layers(gemma, len(gemma.layers) + 3)
    whole = longer.layers
    assert whole[: len(gemma.layers)] == gemma.layers
    assert all(whole[i] == whole[i - 2] for i in range(2, len(whole)))
    mixed = load("deepseek-v3")
    assert set(with_layers(mixed, 80).layers[3:]) == {mixed.layers[-1]}
    assert with_layers(mixed, 2).layers == mixed.layers[:2]


def test_scaling_to_its_own_size_changes_nothing() -> None:
    same = with_heads(LLAMA, LLAMA.layers[0].mixer.heads)
    assert parameters(same).total == parameters(LLAMA).total
    twice = with_heads(LLAMA, 2 * LLAMA.layers[0].mixer.heads)
    assert twice.hidden == 2 * LLAMA.hidden
    assert len(twice.layers) == 2 * len(LLAMA.layers)


def test_what_has_no_one_width_is_refused() -> None:
    with pytest.raises(NotModelledError, match="no one meaning for deepseek-v3"):
        largest_fitting("params", load("deepseek-v3"), Plan(), NODE)

"""A field that acts on nothing is refused, and one that acts on something is not."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.arch import load
from tonnage.cluster import Device, find_device, parse_cluster
from tonnage.errors import InputError
from tonnage.estimation import estimate
from tonnage.plan import PRECISIONS, Plan, resolve
from tonnage.plan.idle import without_idle
from tonnage.plan.precision import Precision, check_peaks

CLUSTER = parse_cluster("8xH100")
IDLE: tuple[tuple[dict[str, Any], str], ...] = (
    ({"lora_targets": ("q_proj",)}, "lora_targets: q_proj is about adapters"),
    ({"lora_dropout": 0.1}, "lora_dropout: 0.1 is about adapters"),
    ({"moe_imbalance": 2.0}, "moe_imbalance: 2.0 is about experts, and gpt2 has none"),
    ({"moe_capacity_factor": 1.0}, "moe_capacity_factor: 1.0 is about experts"),
    ({"recompute_modules": ("mlp",)}, "recompute_modules: mlp chooses among parts"),
    ({"recompute": "full", "recompute_modules": ("mlp",)}, "and recompute is full"),
    ({"recompute_num_layers": 4}, "recompute_num_layers: 4 chooses among layers"),
    ({"recompute": "selective", "recompute_method": "block"}, "and recompute is selective"),
)


@pytest.mark.parametrize(("fields", "message"), IDLE)
def test_what_acts_on_nothing_is_refused(fields: dict[str, Any], message: str) -> None:
    plan, model = Plan(seq=512, **fields), load("gpt2")
    with pytest.raises(InputError) as caught:
        resolve(plan, model, CLUSTER)
    assert message in caught.value.message
    resolve(without_idle(plan, model), model, CLUSTER)


def test_what_acts_on_something_stays() -> None:
    model = load("mixtral-8x7b")
    plan = Plan(moe_imbalance=1.5, recompute="full", recompute_num_layers=2, ep=8)
    assert without_idle(plan, model) == plan
    resolve(plan, model, CLUSTER)


def refusal(recipe: Precision, device: Device) -> InputError | None:
    try:
        check_peaks(recipe, device)
    except InputError as error:
        return error
    return None


@pytest.mark.parametrize("name", ["T4", "V100", "H100", "M3 Max"])
def test_a_recipe_without_a_peak_names_those_that_have_one(name: str) -> None:
    device = find_device(name)
    possible = [each.name for each in PRECISIONS.values() if refusal(each, device) is None]
    for recipe in PRECISIONS.values():
        error = refusal(recipe, device)
        assert (error is None) == (recipe.name in possible)
        if error is not None:
            assert error.field == "precision"
            assert error.accepted == ", ".join(possible)
            assert bool(error.hint) == (not possible)


def test_the_default_of_a_v100_says_what_it_can_train_in() -> None:
    with pytest.raises(InputError, match="needs a bf16 peak, and none is published for V100"):
        estimate(load("gpt2"), Plan(seq=512), parse_cluster("8xV100"))

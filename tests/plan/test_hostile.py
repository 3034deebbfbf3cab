"""Values of the wrong type or size: an error that names the field, never a traceback or a hang."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.strategies import DENSE, MIXTURE, cluster
from tonnage.errors import InputError
from tonnage.plan import Plan, resolve

COUNTS = (
    "tp",
    "pp",
    "vpp",
    "cp",
    "ep",
    "etp",
    "dp",
    "hsdp_shard",
    "mbs",
    "gbs",
    "grad_acc",
    "seq",
    "first_stage_layers",
    "last_stage_layers",
    "lora_rank",
    "recompute_num_layers",
)
NOT_COUNTS = (True, False, 1.0, 2.5, -1, 10**9 + 1, 10**100, "8", "", float("nan"), (), type)


# 0 is a value of one field, and False equals 0.
CASES = [
    (field, value)
    for field in COUNTS
    for value in NOT_COUNTS
    if (field, value) != ("recompute_num_layers", False)
]


@pytest.mark.parametrize(("field", "value"), CASES, ids=repr)
def test_a_count_is_a_positive_whole_number(field: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        resolve(dataclasses.replace(Plan(), **{field: value}), DENSE, cluster(8))
    assert caught.value.field == field
    assert len(caught.value.message) < 250


@pytest.mark.parametrize("field", ["moe_capacity_factor", "moe_imbalance"])
@pytest.mark.parametrize("value", [0.0, -1.0, 1e9, float("nan"), float("inf"), "2", ()], ids=repr)
def test_factors_of_experts_are_bounded(field: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        resolve(dataclasses.replace(Plan(seq=64), **{field: value}), MIXTURE, cluster(1))
    assert caught.value.field == field


def test_imbalance_is_at_least_one() -> None:
    with pytest.raises(InputError, match="1 to 1000"):
        resolve(Plan(moe_imbalance=0.9), MIXTURE, cluster(1))


DEGREES = st.integers(1, 40) | st.sampled_from([10**6, 10**9])


@given(
    st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(COUNTS, DEGREES),
            "runtime": st.sampled_from(["megatron", "fsdp2", "ddp"]),
            "zero": st.integers(-1, 4),
            "sp": st.booleans(),
            "account_for_embedding": st.booleans(),
            "account_for_loss": st.booleans(),
            "recompute": st.sampled_from(["none", "full"]),
            "schedule": st.sampled_from(["1f1b", "gpipe", "interleaved"]),
        },
    ),
    st.sampled_from([1, 2, 4, 8, 48]),
    st.sampled_from([DENSE, MIXTURE]),
)
def test_any_numbers_resolve_or_are_refused(fields: dict[str, Any], gpus: int, model: Any) -> None:
    """And a plan that resolves is whole: every blank filled, every product as it must be."""
    resolved, refused = None, None
    try:
        resolved = resolve(Plan(**fields), model, cluster(gpus))
    except InputError as error:
        refused = error
    if resolved is None:
        assert refused is not None
        assert refused.field
        assert refused.accepted
        return
    plan: Any = resolved.plan
    assert plan.tp * plan.pp * plan.cp * plan.dp == gpus
    assert plan.gbs == plan.mbs * plan.grad_acc * plan.dp
    assert all(getattr(plan, name) == value for name, value in fields.items())
    assert sum(len(stage.layers) for stage in resolved.stages) == len(model.layers)
    assert None not in (plan.sp, plan.etp, plan.zero, plan.precision, plan.seq, plan.schedule)


@pytest.mark.parametrize(
    "fields",
    [
        *({name: 5} for name in ("runtime", "optimizer", "precision", "weights_dtype", "loss")),
        *({name: None} for name in ("tp", "mbs", "runtime", "optimizer")),
        *({name: None} for name in ("recompute_modules", "lora_targets", "habits")),
        {"habits": ("x",)},
        {"habits": (("loss", 5),)},
        {"moe_imbalance": True},
        {"moe_capacity_factor": "2"},
    ],
    ids=str,
)
def test_a_value_of_the_wrong_type_is_one_error(fields: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        resolve(Plan(**fields), DENSE, cluster(1))
    assert next(iter(fields)) in caught.value.field


def test_a_habit_is_given_once() -> None:
    twice = (("loss", "eager"), ("loss", "chunked"))
    with pytest.raises(InputError, match="twice"):
        resolve(Plan(habits=twice), DENSE, cluster(1))

"""A plan written as flags is the plan that the flags say."""

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.cli.flags import plan_changes
from tonnage.plan import Plan
from tonnage.plan.words import changed_fields, flag_words

PLANS = st.builds(
    Plan,
    tp=st.sampled_from([1, 2, 8]),
    sp=st.sampled_from([None, True, False]),
    pp=st.integers(1, 4),
    gbs=st.one_of(st.none(), st.integers(1, 4096)),
    recompute=st.sampled_from(["none", "selective", "full"]),
    recompute_modules=st.sampled_from([("core_attn",), ("mlp", "layernorm")]),
    moe_capacity_factor=st.one_of(st.none(), st.sampled_from([1.0, 1.25])),
    habits=st.sampled_from([(), (("loss", "chunked"), ("vocab_multiple", "128"))]),
    lora_saved=st.sampled_from([(), ("embedding", "head")]),
    runtime=st.sampled_from(["megatron", "fsdp2"]),
)


def as_given(words: list[str]) -> dict[str, object]:
    """What the parser hands over for some words, by the verb's own signature."""
    from tonnage.cli.app import make_app

    _, bound, _ = make_app().parse_args(["estimate", "m", *words], exit_on_error=False)
    return dict(bound.arguments.get("flags", bound.kwargs))


@settings(max_examples=25, deadline=None)
@given(plan=PLANS)
def test_words_are_read_back(plan: Plan) -> None:
    changes = plan_changes(as_given(flag_words(changed_fields(plan))))  # type: ignore[arg-type]
    assert dataclasses.replace(Plan(), **changes) == plan  # type: ignore[arg-type]


def test_a_blank_plan_needs_no_words() -> None:
    assert flag_words(changed_fields(Plan())) == []

from __future__ import annotations

import dataclasses

import pytest

from tests.cli.running import run
from tonnage.cli.app import make_app
from tonnage.cli.flags import attribute_docs, field_types, plan_changes
from tonnage.cli.names import ALIASES, FLAGS, GROUPS, flags_of
from tonnage.errors import InputError
from tonnage.plan import Plan

FIELDS = [field.name for field in dataclasses.fields(Plan)]


def test_every_field_is_a_flag_with_its_help() -> None:
    docs = attribute_docs(Plan)
    assert list(docs) == FIELDS
    page = run("estimate", "--help").out
    for field in FIELDS:
        for flag in flags_of(field):
            assert flag in page.replace("--[no-]", "--"), flag


def test_the_tables_of_names_know_only_fields() -> None:
    listed = [field for fields in GROUPS.values() for field in fields]
    assert len(listed) == len(set(listed))
    assert {*listed, *ALIASES, *FLAGS} <= set(FIELDS)


def test_no_flag_means_two_fields() -> None:
    flags = [flag for field in FIELDS for flag in flags_of(field)]
    assert len(flags) == len(set(flags))


def test_absent_flags_change_nothing() -> None:
    assert plan_changes(dict.fromkeys(FIELDS)) == {}


def test_types_are_those_of_the_fields() -> None:
    found = plan_changes(
        {
            "tp": " 2 ",
            "moe_imbalance": "1.5",
            "sp": False,
            "precision": "bf16",
            "freeze": ["a,b", "c"],
            "habits": ["loss=eager"],
        }
    )
    assert found == {
        "tp": 2,
        "moe_imbalance": 1.5,
        "sp": False,
        "precision": "bf16",
        "freeze": ("a", "b", "c"),
        "habits": (("loss", "eager"),),
    }
    assert Plan(**found)  # type: ignore[arg-type]


def test_none_is_taken_out_of_every_type() -> None:
    assert not any("None" in str(hint) for hint in field_types().values())


@pytest.mark.parametrize(
    ("field", "text", "problem"),
    [
        ("seq", "8k", "is not a whole number"),
        ("seq", "8192.0", "is not a whole number"),
        ("tp", "", "is not a whole number"),
        ("tp", "٣", "is not a whole number"),
        ("gbs", "9" * 19, "has too many digits"),
        ("moe_imbalance", "nan", "is not a number"),
        ("moe_imbalance", "1e999", "is not a number"),
        ("precision", " ", "is empty"),
    ],
)
def test_bad_values(field: str, text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        plan_changes({field: text})
    assert caught.value.field == field


def test_a_suffix_of_a_length_is_explained() -> None:
    with pytest.raises(InputError) as caught:
        plan_changes({"seq": "8k"})
    assert "decimal or binary" in caught.value.hint


def test_contradicting_recompute_flags() -> None:
    with pytest.raises(InputError, match="already decided by recompute every-4"):
        plan_changes({"recompute": "every-4", "recompute_num_layers": "2"})
    with pytest.raises(InputError, match="is not known"):
        plan_changes({"recompute": "every-x"})


def test_help_imports_no_verb() -> None:
    app = make_app()
    assert not any(getattr(spec, "is_resolved", False) for spec in app._commands.values())

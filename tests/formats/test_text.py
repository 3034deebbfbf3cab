"""Launch files as text: bounded, loaded safely, and their simple references resolved."""

from __future__ import annotations

import pytest

from tonnage.errors import InputError
from tonnage.formats.keys import Fields
from tonnage.formats.text import parse_document


def test_references_are_resolved_where_they_are_simple() -> None:
    document = parse_document(
        "a.yaml",
        "v: {n: 8, f: gpt2, u: null}\na: ${v.n}\nb: {c: '${.d}', d: 'x-${v.f}'}\n"
        "e: ${oc.env:WORLD,4}\nf: ${oc.env:WORLD}\ng: ${multiply:${v.n},2}\nh: ${v.u}\n",
    )
    assert document.values["a"] == 8
    assert document.values["b"] == {"c": "x-gpt2", "d": "x-gpt2"}
    assert document.values["e"] == 4
    assert document.values["f"] == "${oc.env:WORLD}"
    assert document.values["g"] == 16
    assert document.values["h"] is None


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
        + "".join(
            f"{n}: &{n} [{','.join([f'*{m}'] * 10)}]\n"
            for m, n in zip("abcdef", "bcdefg", strict=True)
        ),
        "a: &a [*a]",
        "a: " + "[" * 100 + "]" * 100,
        "a: !!python/object/apply:os.system ['true']",
        "? {a: 1}\n: 2",
        "a: b: c",
        "a: ${b}\nb: ${a}\n- c",
        "",
    ],
    ids=["laughs", "circle", "deep", "code", "key", "syntax", "mixed", "empty"],
)
def test_hostile_yaml_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(InputError):
        parse_document("a.yaml", text)


def test_references_in_a_circle_end() -> None:
    values = parse_document("a.yaml", "a: ${b}\nb: ${a}").values
    assert set(values) == {"a", "b"}


def test_every_key_is_in_exactly_one_account() -> None:
    fields = Fields({"a": {"b": 1, "c": "x"}, "d": None, "e": [1], "f": {}})
    assert fields.whole("a.b") == 1
    fields.ignore("a.*", "d")
    fields.leave("a.c", "is not modelled")
    assert fields.account() == {
        "used": ("a.b",),
        "ignored": ("d",),
        "not_understood": ("a.c", "e", "f"),
    }


@pytest.mark.parametrize("value", ["eight", 1.5, True, [1], {}, -1, 10**30])
def test_a_value_of_another_type_is_named(value: object) -> None:
    with pytest.raises(InputError, match=r"config\.n: .* \(accepted: a whole number"):
        Fields({"n": value}).whole("n")


@pytest.mark.parametrize("value", ["8", 8, 8.0, "8.0", "8e0", " 8 "])
def test_numbers_are_read_in_the_spellings_of_launch_files(value: object) -> None:
    assert Fields({"n": value}).whole("n") == 8


@pytest.mark.parametrize("value", ["$N", "${N}", "$(nproc)", "`nproc`", "???"])
def test_what_the_file_does_not_say_is_as_good_as_none(value: str) -> None:
    fields = Fields({"n": value})
    assert fields.whole("n") is None
    assert fields.account()["not_understood"] == ("n",)

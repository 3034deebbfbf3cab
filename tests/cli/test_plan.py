"""``tonnage plan`` as a person or a program calls it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import run
from tonnage.cli.knobs import choices_of, wanted_of
from tonnage.cli.money import parse_prices
from tonnage.search.hunt import Hunt

SMALL = ("gpt2", "--gpus", "4xA100", "--gbs", "32", "--seq", "1024", "--vpp", "1")
"""A search that takes a moment."""


def test_json_has_the_plans_and_what_they_were_chosen_from() -> None:
    result = run("plan", *SMALL, "--top", "2", "--json")
    assert result.code == 0
    answer = result.json()
    assert answer["schema_version"] == 1
    assert answer["space"] >= answer["evaluated"] >= answer["feasible"] > 0
    assert answer["seconds"] > 0
    assert answer["complete"] is True
    assert len(answer["plans"]) == 2
    best = answer["plans"][0]
    assert best["estimate"]["fits"]
    assert best["plan"] == best["estimate"]["plan"]
    assert {"seconds", "device_bytes", "plan"} <= answer["frontier"][0].keys()
    assert "cloud" not in answer


def test_a_plan_of_the_answer_is_a_plan_file(tmp_path: Path) -> None:
    best = run("plan", *SMALL, "--top", "1", "--json").json()["plans"][0]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(best["plan"]), encoding="utf-8")
    again = run("estimate", "gpt2", "--gpus", "4xA100", "--plan-file", str(file), "--json").json()
    assert again["step"] == best["estimate"]["step"]
    assert again["memory"] == best["estimate"]["memory"]


def test_the_flags_that_are_printed_are_the_best_plan() -> None:
    shown = run("plan", *SMALL, "--top", "1").out
    start = shown.index("--runtime")
    words = shown[start : shown.index("\n\n", start)].split()
    best = run("plan", *SMALL, "--top", "1", "--json").json()["plans"][0]["estimate"]
    again = run("estimate", "gpt2", "--gpus", "4xA100", *words, "--json").json()
    assert again["step"]["seconds"] == best["step"]["seconds"]
    assert again["memory"]["peak_bytes"] == best["memory"]["peak_bytes"]


def test_the_answer_says_why() -> None:
    shown = run("plan", *SMALL, "--why-not", "tp=4 mbs=1").out
    for title in ("fits on 4", "Why not", "The best plans", "What binds", "One step either way"):
        assert title in shown
    assert "slower by" in shown


def test_nothing_fits_is_exit_code_3_with_the_nearest() -> None:
    result = run("plan", *SMALL, "--memory-limit", "2GiB", "--no-offload")
    assert result.code == 3
    assert "no plan meets the limits" in result.out
    assert "GiB too much" in result.out


def test_several_clusters_are_compared_by_cost() -> None:
    words = ("gpt2", "--gpus", "2..4xA100,4xH100", "--gbs", "32", "--seq", "1024", "--vpp", "1")
    result = run("plan", *words, "--objective", "cost", "--price", "A100=1,H100=100", "--json")
    best = result.json()["plans"][0]
    assert best["estimate"]["cluster"]["device"].startswith("A100")
    assert best["cost"] == pytest.approx(
        best["estimate"]["cluster"]["gpus"] * best["estimate"]["step"]["seconds"] / 3600.0
    )


def test_a_table_with_prices_has_each_figure_under_its_name() -> None:
    words = ("plan", *SMALL, "--price", "2", "--top", "1")
    shown = run(*words).out.partition("The best plans")[2].splitlines()
    row = dict(zip(shown[1].split(), shown[2].split()[1:], strict=False))
    plan = run(*words, "--json").json()["plans"][0]["plan"]
    for name in ("tp", "pp", "cp", "ep", "dp", "mbs"):
        assert row[name] == str(plan[name])
    assert row["recompute"] == plan["recompute"]


def test_the_page_holds_the_cloud(tmp_path: Path) -> None:
    page = tmp_path / "plans.html"
    assert run("plan", *SMALL, "--html", str(page)).code == 0
    text = page.read_text(encoding="utf-8")
    for part in ("frontier", "excluded by bounds", "within the limits", "Memory over a step"):
        assert part in text
    assert 'src="http' not in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--tp", "3"), "no plan with tp [3], vpp [1] is legal on 4xA100"),
        (("--tp", "1,x"), "is not a whole number"),
        (("--objective", "joy"), "is not known"),
        (("--price", "H9000=2"), "H9000"),
        (("--why-not", "tp"), "is not a knob and its value"),
        (("--why-not", "seq=4"), "is not a knob and its value"),
        (("--top", "0"), "is none"),
        (("--objective", "cost"), "has no price"),
    ],
)
def test_what_cannot_be_answered_is_one_error(words: tuple[str, ...], says: str) -> None:
    result = run("plan", *SMALL, *words)
    assert result.code == 2
    assert says in result.err
    assert "Traceback" not in result.err


def test_a_batch_is_needed() -> None:
    result = run("plan", "gpt2", "--gpus", "4xA100")
    assert result.code == 2
    assert "gbs" in result.err


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"tp": "1,2, 4"}, {"tp": (1, 2, 4)}),
        ({"sp": False}, {"sp": (False,)}),
        ({"account_for_loss": True}, {"account_for_loss": (True,)}),
        ({"recompute": "none,full"}, {"recompute": ("none", "full")}),
        (
            {"recompute": "every-4"},
            {
                "recompute": ("full",),
                "recompute_method": ("uniform",),
                "recompute_num_layers": (4,),
            },
        ),
        ({"recompute_modules": ["mlp,core_attn"]}, {"recompute_modules": (("mlp", "core_attn"),)}),
        ({"loss": "eager,linear"}, {"loss": ("eager", "linear")}),
    ],
)
def test_lists_are_read_as_people_write_them(given: Any, wanted: Any) -> None:
    assert choices_of(given) == wanted


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--zero", "4"], "--zero: 4 is not a ZeRO stage"),
        (["--zero", "0,9"], "--zero: 9 is not a ZeRO stage"),
        (["--tp", "0"], "--tp: 0 is not a positive whole number"),
        (["--tp", "1,-2"], "--tp: -2 is not a positive whole number"),
        (["--mbs", "0"], "--mbs: 0 is not a positive whole number"),
        (["--seq", "0"], "--seq: 0 is not a positive whole number"),
        (["--gbs", "0"], "--gbs: 0 is not a positive whole number"),
        (["--schedule", "1f1b,banana"], "--schedule: banana is not known"),
        (["--recompute-modules", "banana"], "--recompute-modules: banana is not known"),
        (["--tp", "3"], "3 × 1 × 1 = 3 does not divide the 4 GPUs (accepted: 1, 2 or 4)"),
        (["--mbs", "33"], "--gbs: 32 is not a multiple of mbs 33"),
        (["--ep", "2"], "--ep: 2 needs experts"),
        (["--grad-acc", "7"], "--grad-acc: 7 contradicts gbs 32"),
        (["--pipeline-layout", "x"], "--pipeline-layout: x is no pipeline layout"),
        (
            ["--no-offload", "--offload-optimizer", "0,1"],
            "--offload-optimizer: 1.0 is given beside --no-offload",
        ),
        (["--export"], "--export is given without its value"),
        (["--html"], "--html is given without its value"),
        (["--price", "2,5"], "--price: 2,5 prices every device twice"),
        (["--price", "A100=2,A100=3"], "prices A100-SXM4-80GB twice"),
        (["--price", "1e308"], "--price: 1e308 is over 1e15"),
        (["--budget", "1e308M", "--steps", "9"], "--budget: 1e308M is over 1e15"),
        (["--why-not", ""], "--why-not is not a knob and its value"),
        (["--why-not", "tp=2 tp=4"], "--why-not: tp=4 is given twice"),
        (["--why-not", "tp=-1"], "--why-not: tp=-1 is not a positive whole number"),
        (["--why-not", "recompute=every-0"], "recompute=every-0 is no number of layers"),
        (["--why-not", "loss=banana"], "loss=banana is not known (accepted: eager"),
        (["--why-not", "recompute=banana"], "recompute=banana is not known (accepted: none"),
        (["--why-not", "schedule=banana"], "schedule=banana is not known (accepted: 1f1b"),
        (["--why-not", "zero=9"], "zero=9 is not a ZeRO stage (accepted: 0, 1, 2 or 3)"),
        (["--why-not", "sp=maybe"], "sp=maybe is neither yes nor no"),
        (["--why-not", "tp=x"], "tp=x is not a whole number"),
        (["--why-not", "mbs=1.5"], "mbs=1.5 is not a whole number"),
        (["--why-not", "tp=1,2"], "--why-not: tp=1,2 is a list (accepted: one value"),
        (["--why-not", "recompute_modules=banana"], "recompute_modules=banana is not known"),
        (["--why-not", "recompute=full recompute=none"], "recompute=none is given twice"),
        (
            ["--why-not", "recompute=every-2 recompute-method=block"],
            "recompute-method=block is given twice",
        ),
        (["--why-not", "banana=2"], "banana=2 is not a knob and its value"),
        (["--loss", "banana"], "--loss: banana is not known (accepted: eager"),
        (["--loss", "eager,banana"], "--loss: banana is not known (accepted: eager"),
        (["--config-kind", "megatron"], "--config-kind: megatron is given without --config"),
        (["--html", "model.json"], "--html: model.json is not the name of a page"),
        (["--html", "/nowhere/page.html"], "it has no folder"),
    ],
)
def test_what_no_search_can_do_is_refused_before_one(words: list[str], said: str) -> None:
    kept = [*SMALL]
    if words[0] in kept:
        at = kept.index(words[0])
        del kept[at : at + 2]
    result = run("plan", *kept, *words)
    assert result.code == 2
    assert result.err.startswith("error: ")
    assert said in result.err
    assert not result.out


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("tp=16 pp=2", {"tp": 16, "pp": 2}),
        ("--tp=16, --pp=2", {"tp": 16, "pp": 2}),
        ("tp=16;pp=2", {"tp": 16, "pp": 2}),
        ("tp=16,pp=2", {"tp": 16, "pp": 2}),
        ("first-stage-layers=3", {"first_stage_layers": 3}),
        ("recompute-modules=mlp,core_attn tp=2",
         {"recompute_modules": ("mlp", "core_attn"), "tp": 2}),
        ("recompute=every-4", {"recompute": "full", "recompute_method": "uniform",
                               "recompute_num_layers": 4}),
    ],
)  # fmt: skip
def test_what_is_asked_about_is_read_as_people_write_it(text: str, wanted: Any) -> None:
    assert wanted_of(text) == wanted


def test_why_not_takes_values_with_hyphens() -> None:
    result = run("plan", *SMALL, "--tp", "1", "--why-not", "recompute=every-2", "--json")
    assert result.code == 0
    assert result.json()["why_not"]["verdict"] in {"slower", "ties"}


def test_interrupted_before_there_is_a_plan_nothing_is_claimed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(_: Hunt) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Hunt, "run", interrupt)
    result = run("plan", *SMALL, "--why-not", "tp=2")
    assert result.code == 130
    assert "interrupted before a plan was found" in result.out
    assert "best" not in result.out
    answer = run("plan", *SMALL, "--why-not", "tp=2", "--json")
    assert (answer.code, answer.json()["complete"], answer.json()["plans"]) == (130, False, [])


def test_a_price_is_one_flag_everywhere() -> None:
    for verb in ("plan", "estimate", "scale"):
        shown = run(verb, "--help").out
        assert shown.count("--price") == 1, verb


@pytest.mark.parametrize(
    ("text", "prices"),
    [
        (None, {}),
        ("2.5", {"": 2.5}),
        ("$2.50", {"": 2.5}),
        ("H100=2.5, B200=6", {"H100-SXM5-80GB": 2.5, "B200-SXM-180GB": 6.0}),
        ("H100=2,1", {"H100-SXM5-80GB": 2.0, "": 1.0}),
    ],
)
def test_prices_are_read_as_people_write_them(text: str | None, prices: Any) -> None:
    assert parse_prices(text) == prices


@pytest.mark.parametrize("text", ["", "x", "-1", "0", "nan", "inf", "1e308", "2.5.0", "k", "H100="])
def test_what_is_no_price_is_refused_alike(text: str) -> None:
    said = {
        run(*words, f"--price={text}").err
        for words in (
            ("plan", *SMALL, "--steps", "9"),
            ("estimate", "gpt2", "--gpus", "4xA100", "--steps", "9"),
            ("scale", "gpt2", "--gpus", "4,8xA100", "--steps", "9"),
        )
    }
    assert len(said) == 1
    assert said.pop().startswith("error: --price")


def test_a_price_by_device_is_that_of_the_cluster() -> None:
    words = ("estimate", "gpt2", "--gpus", "4xA100", "--steps", "9", "--json", "--price")
    assert run(*words, "H100=9,A100=3").json()["run"]["price"] == 3
    refused = run(*words, "H100=9").json()["error"]
    assert refused["field"] == "price"
    assert "A100-SXM4-80GB is not" in refused["message"]
    points = run("scale", "gpt2", "--gpus", "4xA100,4xH100", "--gbs", "32", "--steps", "9",
                 "--json", "--price", "H100=9,A100=3").json()["points"]  # fmt: skip
    assert [point["run"]["price"] for point in points] == [3, 9]


def test_a_table_over_several_devices_names_them() -> None:
    shown = run("scale", "gpt2", "--gpus", "4xA100,4xH100", "--gbs", "32", "--steps", "9").out
    assert shown.startswith("gpt2 on A100-SXM4-80GB, H100-SXM5-80GB, strong")
    assert shown.count("4xA100") == shown.count("4xH100") == 2


def test_the_cost_of_a_plan_is_that_of_its_estimate() -> None:
    words = ("plan", *SMALL, "--top", "1", "--steps", "100", "--price", "2", "--json")
    best = run(*words).json()["plans"][0]
    assert best["estimate"]["run"]["cost"] == pytest.approx(best["cost"])


def test_a_page_that_cannot_be_drawn_is_told_before_the_search(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def never(_: Hunt) -> None:
        raise AssertionError("the search began")

    monkeypatch.setattr(Hunt, "run", never)
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    result = run("plan", *SMALL, "--html", str(tmp_path / "plans.html"))
    assert result.code == 4
    assert "tonnage[plot]" in result.err


def test_the_fewest_gpus_of_a_range_are_found_host_by_host() -> None:
    words = ("gpt2", "--gbs", "48", "--seq", "1024", "--vpp", "1", "--tp", "1", "--pp", "1")
    more = ("--recompute", "none", "--top", "1", "--steps", "9", "--json", "--gpus")
    whole = run("plan", *words, *more, "24xA100").json()["plans"][0]["estimate"]
    late = ("--objective", "gpus", "--deadline", f"{9 * whole['step']['seconds'] * 1.05}s")
    found = run("plan", *words, *late, *more, "1..24xA100").json()["plans"][0]["estimate"]
    assert found["cluster"]["gpus"] == 24


def test_a_missed_deadline_is_told_with_the_fastest_plan() -> None:
    shown = run("plan", *SMALL, "--steps", "1000000", "--deadline", "3h")
    assert shown.code == 3
    assert "The nearest  the fastest plan, on 4 x A100" in shown.out
    assert "and the deadline is 0.1" in " ".join(shown.out.split())
    shown = run("plan", *SMALL, "--steps", "1000000", "--budget", "9", "--price", "2")
    assert shown.code == 3
    assert "the plan on the fewest GPUs" in shown.out
    assert "and the budget is 9.00" in " ".join(shown.out.split())


def test_interrupted_before_there_is_a_plan_an_export_does_not_say_that_nothing_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(_: Hunt) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Hunt, "run", interrupt)
    result = run("plan", *SMALL, "--export", "megatron")
    assert (result.code, result.out) == (130, "")
    assert result.err == "interrupted before a plan was found\n"


def test_a_cluster_that_is_named_twice_is_searched_once() -> None:
    few = ("gpt2", "--gbs", "32", "--seq", "1024", "--vpp", "1", "--tp", "1", "--no-offload")
    once, twice = (
        run("plan", *few, "--gpus", gpus, "--json").json() for gpus in ("2..4xA100", "2..4,4xA100")
    )
    assert twice["space"] == once["space"]
    assert twice["plans"] == once["plans"]

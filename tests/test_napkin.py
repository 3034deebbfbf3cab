from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.arch import load
from tonnage.cluster import Cluster, parse_cluster
from tonnage.errors import InputError
from tonnage.ledger import parameters
from tonnage.napkin import DEFAULT_RECIPE, max_parameters, train_time
from tonnage.plan import PRECISIONS

H100S = parse_cluster("8xH100")


def refusal(call: Any, *args: Any, **kwargs: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        call(*args, **kwargs)
    return caught.value


def test_seventy_billion_parameters_on_fifteen_trillion_tokens() -> None:
    answer = train_time(70e9, 15e12, parse_cluster("1024xH100"), 0.5)
    assert answer.flops == 6.3e24
    assert answer.seconds == 6.3e24 / (1024 * 989.4e12 * 0.5)
    assert round(answer.days) == 144
    assert answer.gpu_hours == pytest.approx(1024 * 24 * answer.days)
    assert answer.worked == (
        "6 × 70.0 B × 15.0 T = 6.30e24 FLOP; 6.30e24 FLOP / (1024 × 989 TFLOP/s × 0.5) = 144 days"
    )
    assert answer.formula == "FLOPs = 6 · N · D; seconds = FLOPs / (GPUs · peak · MFU)"
    assert answer.corrected == ()
    assert any("attention" in caveat for caveat in answer.caveats)


def test_time_as_json() -> None:
    answer = train_time(70e9, 15e12, H100S, 0.4, architecture=load("llama-3.1-70b"), seq=8192)
    found = json.loads(json.dumps(answer.to_json(), allow_nan=False))
    assert {"flops", "seconds", "days", "gpu_hours", "formula", "worked", "caveats"} <= set(found)
    assert found["days"] == found["seconds"] / 86400
    assert list(found["corrected"]) == ["causal", "full"]
    assert train_time(70e9, 15e12, H100S, 0.4).to_json()["corrected"] is None


def test_the_ledger_stands_beside_the_napkin() -> None:
    """At 128k tokens attention is twice the rest of an 8B model, or four times."""
    model = load("llama-3.1-8b")
    short, long = (
        train_time(None, 1e12, H100S, 0.4, architecture=model, seq=seq) for seq in (4096, 131072)
    )
    assert short.parameters == parameters(model).total
    assert short.flops == long.flops
    for answer in (short, long):
        causal, full = answer.corrected
        assert (causal.convention, full.convention) == ("causal", "full")
        # 12·L·h FLOPs a token and position seen, of which the mask leaves half.
        square = 12.0 * len(model.layers) * 4096 * (answer.seq or 0) * 1e12
        assert full.flops - causal.flops == pytest.approx(square / 2)
        assert causal.seconds / answer.seconds == pytest.approx(causal.flops / answer.flops)
        assert causal.days == causal.seconds / 86400
    assert 1.0 < short.corrected[0].flops / short.flops < 1.01
    assert long.corrected[0].flops / long.flops == pytest.approx(3.07, abs=0.01)


def test_a_mixture_counts_the_parameters_that_a_token_meets() -> None:
    model = load("deepseek-v3")
    answer = train_time(None, 14.8e12, H100S, 0.4, architecture=model)
    assert answer.parameters == parameters(model).active < parameters(model).total
    assert "deepseek-v3 has 671 B parameters, of which a token meets 37.6 B; N is the latter." in (
        answer.caveats
    )
    given_count = train_time(37e9, 14.8e12, H100S, 0.4, architecture=model)
    assert given_count.parameters == 37e9
    assert any("N is as given" in caveat for caveat in given_count.caveats)
    assert given_count.corrected == answer.corrected


def test_the_sequence_length_has_the_default_of_a_plan() -> None:
    assert train_time(None, 1e9, H100S, 0.4, architecture=load("llama-3.1-8b")).seq == 4096
    assert train_time(None, 1e9, H100S, 0.4, architecture=load("gpt2")).seq == 1024


def test_the_peak_is_that_of_the_number_format() -> None:
    half, eighth = (train_time(1e9, 1e9, H100S, 0.5, dtype=name) for name in ("bf16", "fp8"))
    assert eighth.peak_flops == H100S.device.peak_flops("fp8")
    assert half.seconds / eighth.seconds == pytest.approx(2, rel=1e-3)


NUMBERS = [0, -1, 0.5, math.nan, math.inf, 2**63, 1e300, True, "70B"]


@pytest.mark.parametrize("value", NUMBERS)
@pytest.mark.parametrize("field", ["params", "tokens"])
def test_sizes_that_make_no_sense(field: str, value: Any) -> None:
    sizes = {"params": 70e9, "tokens": 15e12, field: value}
    error = refusal(train_time, **sizes, cluster=H100S, mfu=0.5)
    assert (error.field, error.value) == (field, value)


@pytest.mark.parametrize("mfu", [0, -0.5, 1.01, 40, math.nan, math.inf, 1e-320, True, "0.5"])
def test_an_mfu_is_a_share(mfu: Any) -> None:
    assert refusal(train_time, 70e9, 15e12, H100S, mfu).field == "mfu"


def test_a_percentage_is_explained() -> None:
    assert refusal(train_time, 70e9, 15e12, H100S, 40).hint == "write 0.4 for 40.0%"


def test_what_else_time_refuses() -> None:
    gpt2 = load("gpt2")
    assert refusal(train_time, None, 1e12, H100S, 0.5).field == "params"
    assert refusal(train_time, 1e9, 1e12, H100S, 0.5, seq=4096).field == "seq"
    assert refusal(train_time, 1e9, 1e12, H100S, 0.5, architecture=gpt2, seq=0).field == "seq"
    error = refusal(train_time, 1e9, 1e12, H100S, 0.5, architecture=gpt2, seq=1025)
    assert error.message == "seq: 1025 is more than the 1024 learnt positions (accepted: 1 to 1024)"
    volta = parse_cluster("8xV100")
    assert refusal(train_time, 1e9, 1e12, volta, 0.5).field == "dtype"


@given(
    params=st.floats(1, 2.0**62),
    tokens=st.floats(1, 2.0**62),
    mfu=st.floats(1e-6, 1),
    gpus=st.integers(1, 1000).map(lambda nodes: 8 * nodes),
)
def test_time_is_finite_and_falls_with_devices(
    params: float, tokens: float, mfu: float, gpus: int
) -> None:
    one = train_time(params, tokens, H100S, mfu)
    many = train_time(params, tokens, Cluster.of(H100S.device, gpus), mfu)
    assert math.isfinite(one.seconds)
    assert 0 < many.seconds <= one.seconds
    assert many.gpu_hours == pytest.approx(one.gpu_hours)


def test_eight_h100_hold_53_billion_parameters() -> None:
    answer = max_parameters(H100S)
    assert answer.bytes_per_parameter == 12
    assert answer.parameters == 8 * 80_000_000_000 // 12
    assert answer.worked == "8 × 80 GB / 12 bytes = 53.3 B parameters"
    assert answer.formula == "parameters = GPUs · memory / bytes per parameter"
    assert any("activations" in caveat for caveat in answer.caveats)


@pytest.mark.parametrize(
    ("recipe", "each"),
    [
        ("bf16-no-master", 12),
        ("bf16-no-master-fp32-grads", 14),
        ("fp32", 16),
        ("fp16-mixed", 16),
        ("bf16-mixed", 18),
        ("bf16-mixed-accumulate", 20),
        ("BF16_mixed", 18),
        ("inference-fp32", 4),
        ("inference-bf16", 2),
        ("inference-fp8", 1),
        ("inference-int8", 1),
        ("inference-int4", 0.5),
        ("12", 12),
        (12, 12),
        ("0.5", 0.5),
    ],
)
def test_recipes_by_name_and_by_number(recipe: str | float, each: float) -> None:
    answer = max_parameters(H100S, recipe)
    assert answer.bytes_per_parameter == each
    assert answer.parameters == int(640e9 / each)


def test_every_recipe_stands_beside_the_answer() -> None:
    answer = max_parameters(H100S)
    names = [capacity.recipe for capacity in answer.recipes]
    assert names[: len(PRECISIONS)] == list(PRECISIONS)
    assert all(name.startswith("inference-") for name in names[len(PRECISIONS) :])
    assert answer.chosen in answer.recipes


@pytest.mark.parametrize(
    ("optimizer", "each"),
    [("sgd", 10), ("momentum", 14), ("lion", 14), ("adam", 18), ("adamw", 18), ("adagrad", 14)],
)
def test_an_optimizer_brings_its_moments(optimizer: str, each: float) -> None:
    assert max_parameters(H100S, "bf16-mixed", optimizer=optimizer).bytes_per_parameter == each


def test_capacity_as_json() -> None:
    found = json.loads(json.dumps(max_parameters(H100S).to_json()))
    assert found["parameters"] == 53_333_333_333
    assert found["bytes_per_parameter"] == 12
    assert found["recipe"] == DEFAULT_RECIPE
    assert {"recipe", "summary", "bytes_per_parameter", "parameters"} == set(found["recipes"][0])
    assert max_parameters(H100S, 12).to_json()["recipe"] is None


def test_a_number_says_which_recipes_have_it() -> None:
    assert max_parameters(H100S, "20").chosen.summary == "as bf16-mixed-accumulate"
    assert max_parameters(H100S, "3").chosen.summary == "given by hand"


def test_a_narrow_recipe_says_what_it_leaves_out() -> None:
    caveats = max_parameters(H100S, "nvfp4").caveats
    assert "Copies of the weights in nvfp4 are not counted." in caveats


@pytest.mark.parametrize("recipe", ["", "fp12", "nan", "inf", "0", "-1", "1e-300", "1e300", "１２"])
def test_what_is_no_recipe(recipe: str) -> None:
    error = refusal(max_parameters, H100S, recipe)
    assert error.field == "recipe"
    assert error.accepted.startswith("bytes per parameter such as 12, or fp32, ")


@pytest.mark.parametrize(
    ("recipe", "optimizer", "problem"),
    [
        ("12", "adam", "has no say in bytes given by hand"),
        ("inference-int4", "adam", "has no say in inference-int4"),
        (
            "bf16-mixed",
            "adafactor",
            "keeps states whose size depends on the shapes of the weights",
        ),
        ("bf16-mixed", "muon", "keeps states whose size depends on the shapes of the weights"),
        ("bf16-mixed", "sdg", "is not an optimizer that is modelled"),
    ],
)
def test_optimizers_that_do_not_fit(recipe: str, optimizer: str, problem: str) -> None:
    error = refusal(max_parameters, H100S, recipe, optimizer=optimizer)
    assert (error.field, error.problem) == ("optimizer", problem)

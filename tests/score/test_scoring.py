"""The judge: what it reads, what it compares, and what its figures mean."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.errors import InputError, TonnageError
from tonnage.score import INPUT_COLUMNS, Row, read_rows, score, scoreboard
from tonnage.score.case import case
from tonnage.score.choice import choice
from tonnage.score.metrics import Outcome, balanced_accuracy, errors
from tonnage.score.predict import predict

TRUTH = Path(__file__).parents[3] / "shared" / "truth"

LLAMA = {
    "id": "one",
    "framework": "Megatron-LM",
    "model": "llama",
    "layers": "4",
    "hidden": "1024",
    "heads": "16",
    "ffn": "4096",
    "vocab": "32000",
    "seq_len": "2048",
    "gpu": "H100-80GB",
    "num_gpus": "8",
    "tp": "2",
    "gbs": "16",
    "counter": "allocated",
    "scope": "max",
    "mem_gib": "5",
    "step_time_s": "0.5",
}


def row(**cells: str) -> Row:
    return Row(family="mine", line=2, cells={**LLAMA, **cells})


def outcome(predicted: float | None, measured: float, **cells: str) -> Outcome:
    return Outcome(row=row(**cells), predicted=predicted, measured=measured)


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    names = list(rows[0])
    lines = [",".join(names), *(",".join(cells[name] for name in names) for cells in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_prediction_reads_only_the_input_columns() -> None:
    blind = dataclasses.replace(
        row(), cells={name: cell for name, cell in LLAMA.items() if name in INPUT_COLUMNS}
    )
    answer = predict(row())
    assert answer.refused == ""
    assert answer == predict(blind)


@pytest.mark.skipif(not TRUTH.exists(), reason="the measured rows are not here")
@pytest.mark.parametrize("family", ["simumax_b200", "megatron_ci_golden", "nanotron_ultrascale"])
def test_blanking_the_measured_columns_of_real_rows_changes_nothing(family: str) -> None:
    for real in read_rows(TRUTH / f"{family}.csv")[:10]:
        assert predict(real) == dataclasses.replace(predict(real.inputs()))


def test_the_least_that_a_file_must_have(tmp_path: Path) -> None:
    names = ("layers", "hidden", "heads", "vocab", "seq_len", "gpu")
    least = write(tmp_path / "least.csv", [{name: LLAMA[name] for name in names}])
    (read,) = read_rows(least)
    assert predict(read).refused == ""
    lacking = write(tmp_path / "lacking.csv", [{name: LLAMA[name] for name in names[1:]}])
    with pytest.raises(InputError, match="layers"):
        read_rows(lacking)


@pytest.mark.parametrize(
    "text",
    ["", "layers\n", "layers,hidden,heads,vocab,seq_len,gpu\n1,2\n", "\0", '"' * 99],
)
def test_a_hostile_file_is_one_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "hostile.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError):
        read_rows(path)


def test_a_missing_or_binary_file_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_rows(tmp_path / "absent.csv")
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)))
    with pytest.raises(InputError, match="cannot be read"):
        read_rows(tmp_path / "binary.csv")


@given(
    column=st.sampled_from(sorted(LLAMA)),
    cell=st.one_of(st.text(max_size=20), st.integers().map(str), st.floats().map(str)),
)
def test_a_hostile_cell_is_an_answer_or_a_reason(column: str, cell: str) -> None:
    try:
        answer = predict(row(**{column: cell}))
    except TonnageError as error:  # pragma: no cover
        pytest.fail(f"predict lets an error out: {error}")
    assert answer.refused or answer.memory > 0


def test_refused_rows_count_as_an_error_of_one() -> None:
    summed = errors([outcome(110.0, 100.0), outcome(None, 100.0)])
    assert (summed.n, summed.eligible, summed.coverage) == (1, 2, 0.5)
    assert summed.mean_abs_error == pytest.approx((0.1 + 1.0) / 2)
    assert summed.worst_abs_error == 1.0
    assert summed.bias == pytest.approx(0.1)


def test_signs_and_shares() -> None:
    some = [outcome(p, 100.0) for p in (80.0, 94.0, 96.0, 100.0, 130.0)]
    summed = errors(some)
    assert summed.bias == pytest.approx(0.0)
    assert summed.median_abs_error == pytest.approx(0.06)
    assert summed.p90_abs_error == pytest.approx(0.3)
    assert summed.share_under_by_5pct == pytest.approx(2 / 5)


def test_no_rows_have_no_figures() -> None:
    assert set(dataclasses.asdict(errors([])).values()) == {0, None}


def test_the_range_is_what_a_row_is_inside_of() -> None:
    inside = Outcome(row=row(), predicted=100.0, measured=108.0, low=95.0, high=110.0)
    beyond = dataclasses.replace(inside, measured=111.0)
    summed = errors([inside, beyond])
    assert summed.share_in_range == 0.5
    assert summed.median_range_width == pytest.approx(0.15)


def test_balanced_accuracy_weighs_both_kinds_alike() -> None:
    told: list[tuple[bool, bool | None]] = [*[(True, True)] * 9, (True, None), (False, True)]
    assert balanced_accuracy(told) == pytest.approx((0.9 + 0.0) / 2)
    assert balanced_accuracy(told[:1]) is None


def test_regret_and_order() -> None:
    plans = [outcome(1.0, 2.0), outcome(2.0, 1.0), outcome(3.0, 4.0), outcome(9.0, 4.1)]
    chosen = choice(plans)
    assert chosen.groups == 1
    assert chosen.mean_regret == pytest.approx(0.5)
    # Six pairs, of which 4.0 against 4.1 is a tie and 2.0 against 1.0 is the wrong way round.
    assert chosen.pairs == 5
    assert chosen.pairwise_order == pytest.approx(4 / 5)


def test_plans_of_other_jobs_are_not_compared() -> None:
    assert choice([outcome(1.0, 2.0), outcome(2.0, 1.0, gbs="32")]).groups == 0


def test_time_comes_from_the_step_or_from_tokens() -> None:
    (by_step,) = score([row()])
    assert by_step.time is not None
    assert by_step.time.measured == 0.5
    cells = {name: cell for name, cell in LLAMA.items() if name != "step_time_s"}
    (by_tokens,) = score([Row(family="mine", line=2, cells={**cells, "tok_s_gpu": "1024"})])
    assert by_tokens.time is not None
    assert by_tokens.time.measured == 16 * 2048 / (1024 * 8)


def test_what_is_not_trusted_is_not_compared() -> None:
    for cells in ({"confidence": "low"}, {"config_complete": "0"}, {"status": "analytic"}):
        assert score([row(**cells)]) == []


def test_the_scoreboard_pools_families() -> None:
    one, other = row(), dataclasses.replace(row(gpu="no such card"), family="other")
    board = scoreboard(score([one, other]))
    assert set(board.families) == {"mine", "other"}
    assert board.pooled.memory.eligible == 2
    assert [refusal.row for refusal in board.refused] == ["one"]
    assert set(board.pooled.splits) == {"model", "gpu", "tp", "pp", "cp", "ep"}
    assert board.pooled.splits["model"]["dense"]["memory"].eligible == 2


FMS = {
    "framework": "HF Trainer/SFTTrainer (fms-hf-tuning) + fms-acceleration",
    "fw_version": "torch 2.4.1, transformers 4.45.2, trl 0.11.4",
    "model": "Mistral-7B",
    "kv_heads": "8",
    "tp": "1",
    "num_gpus": "2",
    "gbs": "8",
    "mbs": "4",
    "zero": "FSDP1 FULL_SHARD (accelerate), no offload",
    "precision": "bfloat16 weights + HF bf16 AMP",
    "recompute": "full (HF gradient_checkpointing)",
    "attention": "flash-attn-2",
    "extra": "framework_config=foak-fast-kernels; packed=1; lora_dropout=0.1",
}


def test_words_of_the_trainer_say_engine_version_and_kernels_together() -> None:
    found = case(row(**FMS, lora_rank="16", lora_targets="q_proj v_proj"))
    habits = dict(found.plan.habits)
    assert (found.unknown, found.refused) == ((), ())
    assert found.plan.runtime == "accelerate"
    assert (found.plan.zero, found.plan.precision) == (3, "bf16")
    assert found.plan.lora_targets == ("q_proj", "v_proj")
    assert found.plan.lora_dropout == 0.1
    assert habits["loss"] == "upcast-in-place"
    assert habits["norm"] == "fused"
    assert habits["repeat_kv"] == habits["rebuilt_output"] == "true"


@pytest.mark.parametrize(
    ("cells", "runtime", "precision", "base"),
    [
        ({}, "accelerate", "bf16-amp", None),
        ({"zero": "none", "num_gpus": "1"}, "transformers", "bf16", None),
        ({"quant": "bnb nf4 4-bit", "lora_rank": "8"}, "accelerate", "bf16", "nf4-dq"),
        ({"quant": "GPTQ 4-bit", "lora_rank": "8"}, "accelerate", "bf16", "gptq4-g128"),
        (
            {"quant": "GPTQ 4-bit", "lora_rank": "8", "model": "Llama2-70B"},
            "accelerate",
            "bf16",
            "gptq4",
        ),
        (
            {"framework": "torchtune", "quant": "bnb.nf4", "lora_rank": "8"},
            "torchtune",
            "bf16",
            "nf4",
        ),
    ],
)
def test_engine_recipe_and_base(
    cells: dict[str, str], runtime: str, precision: str, base: str | None
) -> None:
    found = case(row(**{**FMS, **cells})).plan
    assert (found.runtime, found.precision, found.lora_base) == (runtime, precision, base)


def test_a_word_that_names_no_layer_is_counted() -> None:
    found = case(row(**FMS, lora_rank="16", lora_targets="q_proj mystery"))
    assert found.unknown == ("lora_targets: mystery",)


MIXTURE = {"experts": "8", "topk": "2", "moe_ffn": "512", "ep": "2", "sp": "1"}


def now(**cells: str) -> Row:
    """A run of Megatron-Core, and not of the papers' Megatron-LM."""
    return row(**{"framework": "Megatron-LM core", **cells})


@pytest.mark.parametrize(
    ("cells", "fields"),
    [
        (
            {"recompute": "selective [layernorm mla_up_proj mlp moe_act]"},
            {"recompute_modules": ("mlp", "moe_act", "layernorm", "mla_up_proj")},
        ),
        ({"recompute": "selective: mlp,core_attn"}, {"recompute_modules": ("core_attn", "mlp")}),
        ({"recompute": "full block 1 per pp rank"}, {"recompute_per_stage": True}),
        ({"attention": "TE fused; cp comm a2a", "cp": "2"}, {"cp_comm": "a2a"}),
        (
            {"extra": "context-parallel-algo=megatron_cp_algo", "cp": "2"},
            {"cp_comm": "p2p"},
        ),
        ({"extra": "mtp-num-layers=1; swap-optimizer"}, {"mtp": 1, "offload_optimizer": 1.0}),
        ({"extra": "fine-grained-activation-offloading=True"}, {"offload_activations": True}),
        (
            {"extra": "defer-embedding-wgrad-compute=True; wgrad-deferral-limit=2"},
            {"wgrad_deferral_limit": 2},
        ),
        (
            {"extra": "moe-token-dispatcher-type=allgather", **MIXTURE},
            {"moe_dispatcher": "allgather"},
        ),
        ({"extra": "reuse-fp32-param"}, {"master_dtype": "bf16"}),
        ({"extra": "stage=dpo"}, {"reference_model": True}),
        (
            {"framework": "Megatron-Bridge", "precision": "FP8 (current scaling)"},
            {"gradients_dtype": "bf16", "fp8_param_gather": True},
        ),
    ],
)
def test_options_of_a_launch_line_are_fields_of_a_plan(
    cells: dict[str, str], fields: dict[str, object]
) -> None:
    asked = case(now(**cells))
    assert not asked.refused
    assert {name: getattr(asked.plan, name) for name in fields} == fields
    assert predict(now(**cells)).memory > 0


def test_a_layout_says_how_many_chunks_there_are() -> None:
    plan = case(now(pp="2", layers="5", extra="pipeline-model-parallel-layout=Et|t|t|ttL")).plan
    assert (plan.vpp, plan.pipeline_layout) == (2, "Et|t|t|ttL")


def test_places_without_a_layer_have_no_weights() -> None:
    asked = case(now(layers="8", pp="2", vpp="2", extra="noop-layers=0,7", gbs="32"))
    assert len(asked.architecture.layers) == 6
    assert asked.plan.pipeline_layout == "Et|tt|tt|tL"


def test_a_hybrid_pattern_is_a_layer_a_letter() -> None:
    words = "hybrid-layer-pattern=ME*-/*E; mamba-num-heads=16; mamba-head-dim=64"
    layers = case(now(arch_note="mamba hybrid", extra=words, **MIXTURE)).architecture.layers
    mixers = [type(layer.mixer).__name__ for layer in layers]
    parts = [type(layer.mlp).__name__ for layer in layers]
    assert mixers == ["Mamba2", "NoneType", "Attention", "NoneType"]
    assert parts == ["NoneType", "MoE", "NoneType", "MLP"]
    refused = predict(now(extra="hybrid-layer-pattern=ME"))
    assert "experts" in refused.refused


def test_a_few_shared_experts_are_as_wide_as_the_routed_ones() -> None:
    def width(shared: str) -> int:
        (layer, *_) = case(now(shared_expert_ffn=shared, **MIXTURE)).architecture.layers
        assert layer.mlp is not None
        return layer.mlp.shared.intermediate  # type: ignore[union-attr]

    assert (width("2"), width("640")) == (1024, 640)


def test_what_is_known_in_bounds_is_answered_with_a_range() -> None:
    found = predict(now(extra="cuda-graph-impl=local"))
    low, high = found.memory_range
    assert not found.refused
    assert low < found.memory < high


def test_a_column_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("layers,hidden,heads,vocab,seq_len,gpu,hidden\n1,2,1,4,8,H100,3\n")
    with pytest.raises(InputError, match="hidden stands twice in the header"):
        read_rows(path)

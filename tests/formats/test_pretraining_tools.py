"""What keys of pretraining tools ask for beside sizes and degrees."""

from __future__ import annotations

import pytest

from tests.formats.test_readers import FOUNDRY, NEMO, NEOX, read


def test_experts_of_gpt_neox_under_model_parallelism_are_weighed() -> None:
    text = NEOX.replace('"pipe-', '"moe_num_experts": 8, "pipe-')
    launch = read(text, "moe.yml", "gpt-neox")
    assert launch.plan["sp"] is True
    assert any("sequence parallelism" in note for note in launch.notes)
    plain = read(NEOX, "dense.yml", "gpt-neox")
    assert plain.plan["sp"] is False


def test_transformer_engines_fp8_in_gpt_neox_is_not_passed_over() -> None:
    text = NEOX.replace('"pipe-', '"te_mha": true, "te_fp8_format": "hybrid", "pipe-')
    assert read(text, "fp8.yml", "gpt-neox").not_understood == ("te_fp8_format",)


@pytest.mark.parametrize(
    ("ratio", "packs"), [("auto", True), ("5.2", True), ("null", None), ("1", None)]
)
def test_llm_foundry_packs_by_a_ratio(ratio: str, packs: bool | None) -> None:
    text = FOUNDRY.replace('"${variables.seq}"}', f'"${{variables.seq}}", packing_ratio: {ratio}}}')
    assert text != FOUNDRY
    assert read(text, "x.yaml", "llm-foundry").plan.get("packing") is packs


@pytest.mark.parametrize("mixer", ["jamba", "griffin", "hyena", "retro"])
def test_a_mixer_that_nemos_code_chooses_is_not_taken_for_attention(mixer: str) -> None:
    launch = read(f"name: megatron_{mixer}\n{NEMO}", "x.yaml", "nemo")
    assert launch.lacks == ("model",)
    assert launch.architecture is None
    assert launch.not_understood == ()

"""Parameter totals that the hub states for the weights of a model, to the last digit.

The hub counts the tensors of the safetensors files. The totals were recalled and not fetched
again; a config or a total that was put down wrong would not agree to the last digit.
"""

from __future__ import annotations

import pytest

from tonnage.arch import load
from tonnage.ledger import parameters

PUBLISHED = {
    "bert-base": 109_514_298,
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "vit-base-16": 86_567_656,
    "vit-large-16": 304_326_632,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt-j-6b": 6_050_882_784,
    "pythia-1.4b": 1_414_647_808,
    "pythia-6.9b": 6_857_302_016,
    "pythia-12b": 11_846_072_320,
    "opt-125m": 125_239_296,
    "opt-1.3b": 1_315_758_080,
    "bloom-560m": 559_214_592,
    "bloom-7b1": 7_069_016_064,
    "bloom": 176_247_271_424,
    "mpt-7b": 6_649_286_656,
    "falcon-7b": 6_921_720_704,
    "falcon-40b": 41_303_293_952,
    "falcon-180b": 179_522_565_120,
    "phi-2": 2_779_683_840,
    "phi-3-mini": 3_821_079_552,
    "phi-3-medium": 13_960_238_080,
    "phi-4": 14_659_507_200,
    "llama-7b": 6_738_415_616,
    "llama-13b": 13_015_864_320,
    "llama-65b": 65_285_660_672,
    "llama-2-13b": 13_015_864_320,
    "llama-3-8b": 8_030_261_248,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "mistral-nemo-12b": 12_247_782_400,
    "mistral-small-24b": 23_572_403_200,
    "mistral-large-2": 122_610_069_504,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-3b": 3_085_938_688,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-32b": 32_763_876_352,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-4b": 4_022_468_096,
    "qwen3-14b": 14_768_307_200,
    "gemma-2b": 2_506_172_416,
    "gemma-7b": 8_537_680_896,
    "gemma-2-2b": 2_614_341_888,
    "gemma-3-1b": 999_885_952,
    "gemma-3-4b": 4_300_079_472,
    "gemma-3-12b": 12_187_325_040,
    "olmo-7b": 6_888_095_744,
    "olmo-2-7b": 7_298_617_344,
    "olmo-2-13b": 13_716_198_400,
    "olmo-2-32b": 32_234_279_936,
    "olmoe-1b-7b": 6_919_161_856,
    "command-r-35b": 34_980_831_232,
    "command-r-plus-104b": 103_810_674_688,
    "starcoder2-3b": 3_030_371_328,
    "starcoder2-7b": 7_173_923_840,
    "starcoder2-15b": 15_957_889_024,
    "smollm3-3b": 3_075_098_624,
    "gpt-oss-20b": 20_914_757_184,
    "glm-4-9b": 9_399_951_360,
    "glm-4-32b": 32_566_081_536,
    "llama-4-scout": 108_641_793_536,
    "llama-4-maverick": 401_583_781_376,
    "qwen2-vl-2b": 2_208_985_600,
    "qwen2-vl-7b": 8_291_375_616,
    "qwen2.5-vl-3b": 3_754_622_976,
    "qwen2.5-vl-7b": 8_292_166_656,
    "qwen2.5-vl-72b": 73_410_777_344,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_totals_equal_those_of_the_hub(name: str) -> None:
    assert parameters(load(name)).total == PUBLISHED[name]


@pytest.mark.parametrize(
    ("name", "published"), [("glm-4.5", 358_337_791_296), ("glm-4.5-air", 110_468_824_832)]
)
def test_files_that_hold_a_predictor(name: str, published: int) -> None:
    """They hold its copies of embedding and head, and the buffers that balance the routers."""
    model = load(name)
    count = parameters(model)
    assert count.mtp is not None
    routed = sum(getattr(layer.mlp, "experts", 0) for layer in model.layers)
    assert model.mtp is not None
    buffers = routed + getattr(model.mtp.mlp, "experts", 0)
    tables = 2 * model.vocab * model.hidden
    assert count.total + count.mtp + tables + buffers == published

"""Which layers see a window, beside what transformers' own configs say."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.arch import Attention, catalog, read_config

transformers = pytest.importorskip("transformers")

SLIDING_QWEN = {"use_sliding_window": True, "sliding_window": 512}


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("gemma-2-9b", {}),
        ("gemma-2-9b", {"layer_types": ["full_attention", "sliding_attention"] * 21}),
        ("gemma-3-27b", {}),
        ("gemma-3-27b", {"sliding_window_pattern": 4}),
        ("qwen2.5-7b", {}),
        ("qwen2.5-7b", {**SLIDING_QWEN, "max_window_layers": 20}),
        ("qwen3-8b", {**SLIDING_QWEN, "max_window_layers": 0}),
        ("qwen3-8b", {**SLIDING_QWEN, "max_window_layers": 36}),
    ],
)
def test_windows_equal_transformers(name: str, changes: dict[str, Any]) -> None:
    config = dict(catalog.entries()[name].config)
    text = config.pop("text_config", config)
    assert isinstance(text, dict)
    text = {**text, **changes}
    named = text["model_type"]
    theirs = transformers.AutoConfig.for_model(
        named, **{key: value for key, value in text.items() if key != "model_type"}
    )
    expected = [
        theirs.sliding_window if kind == "sliding_attention" else None
        for kind in theirs.layer_types
    ]
    mixers = [layer.mixer for layer in read_config(text, name=named).layers]
    assert [mixer.window for mixer in mixers if isinstance(mixer, Attention)] == expected

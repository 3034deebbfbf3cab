"""Files that nobody has checked: whatever the values, an answer or one clear error."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.errors import InputError
from tonnage.formats.document import Document
from tonnage.formats.kinds import KINDS
from tonnage.formats.launch import Launch
from tonnage.formats.options import options
from tonnage.plan import Plan
from tonnage.plan.values import check_values

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from(
        ["", "auto", "none", "true", "1e9", "zero3", "3", "full", "bf16", "\x00", "$X"]
    ),
    st.text(max_size=8),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)

MARKS: dict[str, dict[str, Any]] = {
    "accelerate": {"distributed_type": "FSDP", "fsdp_config": {}},
    "deepspeed": {"zero_optimization": {"stage": 2}},
    "axolotl": {"base_model": "a/b", "sequence_len": 512},
    "llama-factory": {"model_name_or_path": "a/b", "template": "q", "do_train": True},
    "ms-swift": {"model": "a/b", "train_type": "lora"},
    "trl": {"model_name_or_path": "a/b", "dataset_name": "c", "learning_rate": 1},
    "transformers": {"per_device_train_batch_size": 1, "learning_rate": 1},
    "torchtune": {"model": {"_component_": "a.b"}, "optimizer": {"_component_": "SGD"}},
    "litgpt": {"checkpoint_dir": "a/b", "train": {"micro_batch_size": 1}},
}
NESTED = {
    "accelerate": ("deepspeed_config", "fsdp_config", "megatron_lm_config", "parallelism_config"),
    "deepspeed": ("zero_optimization", "bf16", "fp16", "optimizer", "data_types", "compile"),
    "torchtune": ("model", "tokenizer", "dataset", "loss", "optimizer", "fsdp"),
    "litgpt": ("train", "optimizer", "model_config"),
}
KEYS = {
    "accelerate": ("mixed_precision", "num_processes", "num_machines", "use_cpu", "fp16"),
    "deepspeed": ("train_batch_size", "gradient_accumulation_steps", "communication_data_type"),
    "torchtune": ("batch_size", "dtype", "tensor_parallel_dim", "optimizer_in_bwd", "ac_option"),
    "litgpt": ("precision", "quantize", "devices", "num_nodes", "lora_r", "lora_query"),
}
INNER = (
    *("zero_stage", "stage", "fsdp_version", "fsdp_sharding_strategy", "tp_degree", "device"),
    *("fsdp_reshard_after_forward", "parallelism_config_tp_size", "enabled", "type", "lora_rank"),
    *("reduce_bucket_size", "overlap_comm", "max_seq_len", "global_batch_size", "_component_"),
    *("max_seq_length", "offload_param", "grad_accum_dtype", "class_path", "lora_attn_modules"),
)


def documents(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """Mappings with the marks of a kind and any values under its keys."""
    known = options(kind, "transformers") if kind not in KEYS else KEYS[kind]
    inner = st.dictionaries(st.sampled_from(INNER), values, max_size=4)
    sections = dict.fromkeys(NESTED.get(kind, ("fsdp_config", "deepspeed")), inner)
    return st.builds(
        lambda keys, nested: {**MARKS[kind], **keys, **nested},
        st.dictionaries(st.sampled_from(known), values, max_size=6),
        st.fixed_dictionaries({}, optional=sections),
    )


def read(kind: str, config: dict[str, Any]) -> Launch | None:
    """The launch of a mapping; None where it is refused by one clear error."""
    document = Document(name="run", syntax="json", text="", values=config)
    try:
        return KINDS[kind].read(document, 8)
    except InputError as error:
        if not error.message:
            raise
    return None


@pytest.mark.parametrize("kind", MARKS)
def test_any_values_give_an_answer_or_one_clear_error(kind: str) -> None:
    @settings(max_examples=60)
    @given(documents(kind))
    def check(config: dict[str, Any]) -> None:
        launch = read(kind, config)
        if launch is not None:
            keys = [*launch.used, *launch.ignored, *launch.not_understood]
            assert len(keys) == len(set(keys))
            with contextlib.suppress(InputError):  # a value that no plan can have
                check_values(Plan(**dict[str, Any](launch.plan)))

    check()


def test_marks_are_what_detection_sees() -> None:
    for kind, config in MARKS.items():
        text = json.dumps(config)
        document = Document(name="run", syntax="json", text=text, values=config)
        first = next(name for name, one in KINDS.items() if one.detect(document))
        assert first == kind

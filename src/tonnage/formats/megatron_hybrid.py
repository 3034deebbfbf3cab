"""Hybrids of Mamba-2, attention and MLPs under Megatron's names, through arch's own reader.

``--hybrid-override-pattern`` (later ``--hybrid-layer-pattern``) has a letter a layer, as the
config.json of Nemotron-H has; what follows a slash is multi-token prediction.
"""

from __future__ import annotations

import dataclasses

from tonnage.arch import read_config
from tonnage.errors import NotModelledError
from tonnage.formats.draft import Draft
from tonnage.formats.megatron_names import Names
from tonnage.formats.megatron_shape import vocabulary

_HEAD_DIM = 64
_GROUPS = 8
_STATE = 128
_KERNEL = 4
_CHUNK = 128
"""Defaults of ``TransformerConfig`` and of Megatron-Core's ``MambaMixer``."""


def is_hybrid(names: Names) -> bool:
    """Whether a file gives a pattern of letters."""
    return names.has("hybrid-override-pattern", "hybrid-layer-pattern")


def read_hybrid(draft: Draft, names: Names) -> None:
    """Read the architecture, or say that the file lacks one.

    Args:
        draft: the launch; its architecture is set.
        names: where the file keeps Megatron's options.

    Raises:
        InputError: the sizes contradict each other.
    """
    pattern = names.word("hybrid-override-pattern", "hybrid-layer-pattern") or ""
    hidden, heads = names.whole("hidden-size"), names.whole("num-attention-heads")
    letters = pattern.split("/")[0].replace("|", "")
    if not hidden or not letters or set(letters) - set("M*-E"):
        draft.no_model(f"a hybrid of {pattern} is not read from this file")
        return
    vocab, known = vocabulary(names)
    if not known:
        draft.lack("vocab")
    tied = not names.flag("untie-embeddings-and-output-weights")
    try:
        found = read_config(
            {
                "hybrid_override_pattern": letters,
                "vocab_size": vocab,
                **_sizes(names, hidden, heads),
            },
            name=draft.kind,
            source="a launch file",
        )
    except NotModelledError as error:
        draft.no_model(f"its model is not modelled: {error.message}")
        return
    draft.architecture = dataclasses.replace(found, tied_embeddings=tied)


def _sizes(names: Names, hidden: int, heads: int | None) -> dict[str, object]:
    width = names.whole("mamba-head-dim") or _HEAD_DIM
    groups = names.whole("num-query-groups", least=1)
    grouped = names.flag("group-query-attention")
    names.ignore("num-layers", "hybrid-*", "is-hybrid-model", "swiglu", "disable-bias-linear")
    names.ignore("normalization", "position-embedding-type")
    wide = names.whole("ffn-hidden-size") or 4 * hidden
    return {
        "model_type": "nemotron_h",
        "hidden_size": hidden,
        "num_attention_heads": heads or max(hidden // _HEAD_DIM, 1),
        "num_key_value_heads": groups if grouped and groups else heads or 1,
        "head_dim": names.whole("kv-channels") or hidden // (heads or 1),
        "intermediate_size": wide,
        "moe_intermediate_size": names.whole("moe-ffn-hidden-size") or wide,
        "moe_shared_expert_intermediate_size": names.whole("moe-shared-expert-intermediate-size")
        or wide,
        "n_routed_experts": names.whole("num-experts") or 1,
        "num_experts_per_tok": names.whole("moe-router-topk") or 1,
        "mlp_hidden_act": "relu2" if names.flag("squared-relu") else "gelu",
        "mamba_num_heads": names.whole("mamba-num-heads") or 2 * hidden // width,
        "mamba_head_dim": width,
        "n_groups": names.whole("mamba-num-groups") or _GROUPS,
        "ssm_state_size": names.whole("mamba-state-dim") or _STATE,
        "conv_kernel": _KERNEL,
        "chunk_size": _CHUNK,
        "max_position_embeddings": names.whole("max-position-embeddings")
        or names.whole("seq-length")
        or 1,
    }

"""The shape of a model under Megatron's names -> `Architecture`, through arch's own reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tonnage.arch import load, read_config
from tonnage.arch.families.megatron import from_fields
from tonnage.errors import InputError, NotModelledError
from tonnage.formats.draft import Draft
from tonnage.formats.expressions import layer_pattern, numbers_in
from tonnage.formats.megatron_constants import constants
from tonnage.formats.megatron_names import Names
from tonnage.formats.model_name import catalog_name

VOCABULARIES: Mapping[str, int] = {
    "gpt2bpetokenizer": 50_257,
    "llama2tokenizer": 32_000,
    "bertwordpiecelowercase": 30_522,
    "bertwordpiececase": 28_996,
    "nemotron_2_256k": 256_000,
    "gpt2": 50_257,
}
"""Entries of tokenizers that launch files name: GPT-2's, Llama 2's, BERT's and Nemotron-4's
(arXiv 2402.16819, section 2)."""

_STAND_IN = 1
_OTHER_MODELS = (
    ("encoder-num-layers", "an encoder"),
    ("decoder-num-layers", "an encoder and a decoder"),
    ("retro-add-retriever", "a retriever"),
    ("img-h", "images"),
    ("vision-model-type", "images"),
    ("language-model-type", "images"),
    ("disable-vision-class-token", "images"),
    ("freeze-LM", "images"),
    ("freeze-ViT", "images"),
    ("hybrid-attention-ratio", "a hybrid of Mamba and attention"),
    ("is-hybrid-model", "a hybrid of Mamba and attention"),
)


def read_shape(draft: Draft, names: Names, **over: object) -> None:
    """Read the architecture, or say that the file lacks one.

    Args:
        draft: the launch; its architecture is set where the file spells one out.
        names: where the file keeps Megatron's options.
        over: fields of `tonnage.arch.families.megatron` that the dialect reads otherwise.

    Raises:
        InputError: the sizes contradict each other.
    """
    kind = next((what for name, what in _OTHER_MODELS if names.has(name)), "")
    if "bert" in (names.fields.path(*names("vocab-file")) or "").rsplit("/", 1)[-1].lower():
        kind = "an encoder, as BERT is"
    config = {**_config(names), **over}
    if kind or not all(
        config.get(name) for name in ("num_layers", "hidden_size", "num_attention_heads")
    ):
        if kind:
            draft.no_model(f"the file describes {kind}, which is not read from it")
        return
    vocab, known = (
        (config.pop("vocab_size", None), True) if "vocab_size" in over else vocabulary(names)
    )
    if not known:
        draft.lack("vocab")
    try:
        draft.architecture = read_config(
            from_fields(vocab_size=vocab, **config), name=draft.kind, source="a launch file"
        )
    except NotModelledError as error:
        draft.no_model(f"its model is not modelled: {error.message}")
    except InputError as error:
        raise InputError(
            field=error.field.replace("config.", "config: "),
            value=error.value,
            problem=error.problem,
            accepted=error.accepted,
        ) from None


def _config(names: Names) -> dict[str, Any]:
    """The fields of a config of the family, None where the file leaves one to its default."""
    latent = names.flag("multi-latent-attention")
    width = names.whole("kv-channels")
    gated = names.flag("swiglu"), names.flag("quick-geglu"), names.flag("gated-linear-unit")
    grouped = names.flag("group-query-attention")
    groups = names.whole("num-query-groups", least=1)
    experts = names.whole("num-experts", "num-moe-experts")
    return {
        "num_layers": names.whole("num-layers"),
        "hidden_size": names.whole("hidden-size"),
        "ffn_hidden_size": names.whole("ffn-hidden-size"),
        "num_attention_heads": names.whole("num-attention-heads"),
        "num_query_groups": groups if grouped is not False else None,
        "kv_channels": None if latent else width,
        "gated_linear_unit": any(gated) or None,
        "activation_func": _activation(names, *gated),
        "normalization": names.word("normalization"),
        "add_bias_linear": names.on("add-bias-linear", "disable-bias-linear"),
        "add_qkv_bias": names.flag("add-qkv-bias"),
        "qk_layernorm": names.flag("qk-layernorm"),
        "position_embedding_type": _positions(names, latent=bool(latent)),
        "rotary_percent": names.number("rotary-percent", "rotary-percentage"),
        "max_position_embeddings": _longest(names),
        "share_embeddings_and_output_weights": names.on(
            "share-embeddings-and-output-weights", "untie-embeddings-and-output-weights"
        ),
        "hidden_dropout": names.number("hidden-dropout"),
        "attention_dropout": names.number("attention-dropout"),
        **_window(names),
        **(latent_fields(names) if latent else {}),
        **(_experts(names, experts) if experts and experts > 1 else {}),
        **constants(names, latent=bool(latent)),
        "mtp_num_layers": names.whole("mtp-num-layers"),
    }


def _activation(
    names: Names, swiglu: bool | None, geglu: bool | None, gated: bool | None
) -> str | None:
    if names.flag("squared-relu"):
        return "relu2"
    if geglu:
        return "quick_gelu"
    given = names.word("activation-func")
    return given or ("silu" if swiglu or (gated and not given) else None)


def _positions(names: Names, *, latent: bool) -> str | None:
    rotary = names.flag("use-rotary-position-embeddings")
    given = names.word("position-embedding-type")
    names.word("rope-type")
    return "rope" if latent or rotary else given


def _longest(names: Names) -> int | None:
    """The context length; where no position is learnt, the sequence length will do."""
    return names.whole("max-position-embeddings") or names.whole("seq-length", "encoder-seq-length")


def _window(names: Names) -> dict[str, Any]:
    """``(127, 0)``: a query sees 127 positions before its own, and none after it."""
    written = names.fields.take(*names("window-size", "sliding-window"))
    pair = numbers_in(str(written)) if written else ()
    return {
        "window_size": pair[0] + 1 if pair and pair[0] > 0 else None,
        "window_attn_skip_freq": _pattern(names, "window-attn-skip-freq"),
    }


def latent_fields(names: Names) -> dict[str, Any]:
    """Widths of latent attention, by field of the family."""
    options = {
        "q_lora_rank": ("q-lora-rank",),
        "kv_lora_rank": ("kv-lora-rank",),
        "qk_head_dim": ("qk-head-dim", "qk-nope-head-dim"),
        "qk_pos_emb_head_dim": ("qk-pos-emb-head-dim", "qk-rope-head-dim"),
        "v_head_dim": ("v-head-dim",),
    }
    return {"multi_latent_attention": True} | {
        field: names.whole(*where) for field, where in options.items()
    }


def _experts(names: Names, experts: int) -> dict[str, Any]:
    return {
        "num_moe_experts": experts,
        "moe_router_topk": names.whole("moe-router-topk") or 2,
        "moe_ffn_hidden_size": names.whole("moe-ffn-hidden-size", "moe-intermediate-size"),
        "moe_layer_freq": _pattern(names, "moe-layer-freq"),
        "moe_shared_expert_intermediate_size": names.whole("moe-shared-expert-intermediate-size"),
        "moe_shared_expert_gate": names.flag("moe-shared-expert-gate"),
        "moe_latent_size": names.whole("moe-latent-size") or None,
    }


def _pattern(names: Names, option: str) -> object:
    """A number or a list, be it written as an expression."""
    written = names.fields.take(*names(option))
    if str(written).strip() == "-1":  # how MindSpeed leaves it unset
        return None
    if not isinstance(written, str):
        return written
    found = layer_pattern(written)
    if found is None:
        names.fields.leave(names(option)[0], "is no pattern of layers")
    return found


def vocabulary(names: Names) -> tuple[int, bool]:
    """Rows of the embedding before they are padded, and whether the file says so."""
    given = names.whole("vocab-size", least=1)
    stated = names.whole("padded-vocab-size", least=1) or given
    kind = names.word("tokenizer-type") or ""
    files = [
        names.fields.path(*names(option)) or ""
        for option in ("tokenizer-model", "tokenizer-name-or-path", "vocab-file", "merge-file")
    ]
    if stated:
        # A null tokenizer adds the token that ends a document.
        return stated + (kind == "NullTokenizer" and not names.has("padded-vocab-size")), True
    known = _known_tokenizer(kind, files)
    if known:
        names.fields.note(f"vocabulary {known}: that of its tokenizer")
        return known, True
    if files[2] and "bert" in files[2].lower():
        return VOCABULARIES["bertwordpiececase"], True
    if files[2] and files[3]:
        size = VOCABULARIES["gpt2"]
        names.fields.note(f"vocabulary {size}: byte pairs with a vocabulary and merges, as GPT-2's")
        return size, True
    return _STAND_IN, False


def _known_tokenizer(kind: str, files: list[str]) -> int | None:
    if kind.lower() in VOCABULARIES:
        return VOCABULARIES[kind.lower()]
    for name in filter(None, files[:2]):
        parts = name.rstrip("/").split("/")
        stem = parts[-1].removesuffix(".model").lower()
        if stem in VOCABULARIES:
            return VOCABULARIES[stem]
        known = catalog_name("/".join(parts[-2:]))
        if known is not None:
            return load(known).vocab
    return None

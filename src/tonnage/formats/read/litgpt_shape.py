"""A model that LitGPT's YAML spells out under ``model_config``.

Source: LitGPT 0.5, ``litgpt/config.py``: keys that are absent mean the defaults of ``Config``.
"""

from __future__ import annotations

from tonnage.arch import Architecture, read_config
from tonnage.arch.families.megatron import from_fields
from tonnage.formats.keys import Fields

SECTIONS = ("model_config", "model")
"""``model`` is what versions before 0.4 called it."""

_IGNORED = (
    *("name", "hf_config*", "scale_embeddings", "norm_eps", "gelu_approximate", "rope_*"),
    *("padding_multiple", "lm_head_bias", "shared_attention_norm", "n_expert_per_token"),
)
_MLPS = {"LLaMAMLP": (True, "silu"), "GemmaMLP": (True, "gelu"), "GptNeoxMLP": (False, "gelu")}
_ROWS = 50_254
_MULTIPLE = 512


def section(fields: Fields) -> str | None:
    """Where the sizes stand; None: the file spells none out."""
    return next((s for s in SECTIONS if fields.has(f"{s}.n_layer", f"{s}.n_embd")), None)


def read_shape(fields: Fields, here: str) -> Architecture:
    """Read the sizes.

    Args:
        fields: the file.
        here: the section that they stand in.

    Raises:
        InputError: a key has no value of its type, or the sizes contradict each other.
        NotModelledError: it mixes experts, or its block is none that is known.
    """
    hidden = fields.whole(f"{here}.n_embd", least=1) or 4096
    heads = fields.whole(f"{here}.n_head", least=1) or 32
    gated, activation = _MLPS.get(fields.word(f"{here}.mlp_class_name") or "GptNeoxMLP", (True, ""))
    experts = fields.whole(f"{here}.n_expert") or None
    norm = fields.word(f"{here}.norm_class_name") or "LayerNorm"
    bias = fields.flag(f"{here}.bias")
    rotary = fields.number(f"{here}.rotary_percentage")
    parallel = fields.flag(f"{here}.parallel_residual")
    longest = fields.whole(f"{here}.block_size", least=1) or 4096
    config = from_fields(
        num_layers=fields.whole(f"{here}.n_layer", least=1) or 16,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_query_groups=fields.whole(f"{here}.n_query_groups", least=1),
        kv_channels=fields.whole(f"{here}.head_size", least=1),
        ffn_hidden_size=fields.whole(f"{here}.intermediate_size", least=1) or 4 * hidden,
        vocab_size=_rows(fields, here),
        gated_linear_unit=gated,
        activation_func=activation or "silu",
        normalization="LayerNorm" if norm == "LayerNorm" else "RMSNorm",
        add_bias_linear=bias is not False,
        add_qkv_bias=fields.flag(f"{here}.attn_bias"),
        position_embedding_type="rope",
        rotary_percent=0.25 if rotary is None else rotary,
        parallel_residual=parallel is not False,
        max_position_embeddings=longest,
        share_embeddings_and_output_weights=bool(fields.peek("train.tie_embeddings")),
        hidden_dropout=0.0,
        attention_dropout=0.0,
        **(_experts(fields, here, experts) if experts else {}),
    )
    fields.ignore(*(f"{here}.{name}" for name in _IGNORED))
    return read_config(config, name=fields.word(f"{here}.name") or "litgpt", source="a launch file")


def _rows(fields: Fields, here: str) -> int:
    """Rows of the embedding: padded to a multiple of 512 where they are not given padded."""
    padded = fields.whole(f"{here}.padded_vocab_size", least=1)
    given = fields.whole(f"{here}.vocab_size", least=1) or _ROWS
    multiple = fields.whole(f"{here}.padding_multiple", least=1) or _MULTIPLE
    return padded or -(-given // multiple) * multiple


def _experts(fields: Fields, here: str, experts: int) -> dict[str, object]:
    return {
        "num_moe_experts": experts,
        "moe_router_topk": fields.whole(f"{here}.n_expert_per_token", least=1) or 1,
        "moe_ffn_hidden_size": fields.whole(f"{here}.moe_intermediate_size", least=1),
    }

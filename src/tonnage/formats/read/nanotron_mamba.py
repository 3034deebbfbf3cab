"""nanotron's Mamba example (``examples/mamba/config.py``) as a config.json of Mamba."""

from __future__ import annotations

from tonnage.formats.keys import Fields

_IGNORED = (
    *("dtype", "fused_add_norm", "residual_in_fp32", "rms_norm", "ssm_cfg.dt_init*"),
    *("ssm_cfg.dt_m*", "ssm_cfg.dt_scale", "ssm_cfg.use_fast_path"),
)


def mamba_config(fields: Fields, here: str) -> dict[str, object]:
    """The keys of a config.json; embeddings are not tied.

    Args:
        fields: the file.
        here: the section of the model.

    Raises:
        InputError: a key has no value of its type.
    """
    rows = fields.whole(f"{here}.vocab_size", least=1) or 0
    multiple = fields.whole(f"{here}.pad_vocab_size_multiple", least=1) or 1
    rank = fields.take(f"{here}.ssm_cfg.dt_rank")
    fields.ignore(*(f"{here}.{name}" for name in _IGNORED))
    return {
        "model_type": "mamba",
        "hidden_size": fields.whole(f"{here}.d_model", least=1),
        "num_hidden_layers": fields.whole(f"{here}.num_hidden_layers", least=1),
        "vocab_size": -(-rows // multiple) * multiple,
        "state_size": fields.whole(f"{here}.ssm_cfg.d_state", least=1) or 16,
        "expand": fields.whole(f"{here}.ssm_cfg.expand", least=1) or 2,
        "conv_kernel": fields.whole(f"{here}.ssm_cfg.d_conv", least=1) or 4,
        "time_step_rank": rank if isinstance(rank, int) else "auto",
        "use_bias": bool(fields.flag(f"{here}.ssm_cfg.bias")),
        "use_conv_bias": fields.flag(f"{here}.ssm_cfg.conv_bias") is not False,
        "tie_word_embeddings": False,
    }

"""FSDP's keys, which accelerate, the Trainer's arguments and axolotl share.

Sources: accelerate 1.x, ``FullyShardedDataParallelPlugin`` and ``ParallelismConfig``;
transformers 5, ``TrainingArguments._process_fsdp_args``.
"""

from __future__ import annotations

from tonnage.formats.hugging_face.run import Run
from tonnage.formats.keys import Fields

IRRELEVANT = (
    *("auto_wrap_policy", "transformer_layer_cls_to_wrap", "transformer_cls_names_to_wrap"),
    *("min_num_params", "state_dict_type", "final_state_dict_type", "cpu_ram_efficient_loading"),
    *("sync_module_states", "use_orig_params", "backward_prefetch", "forward_prefetch"),
    *("limit_all_gathers", "ignored_modules", "cpu_offload_pin_memory", "param_init_fn"),
    *("state_dict_config", "optim_state_dict_config", "backward_prefetch_policy", "xla"),
    *("xla_fsdp_v2", "xla_fsdp_grad_ckpt", "xla_fsdp_settings", "save_each_checkpoint"),
)
"""How modules are found, loaded and saved: no bytes or seconds of a step that are modelled."""

_STRATEGIES = {
    "FULL_SHARD": (3, False),
    "1": (3, False),
    "SHARD_GRAD_OP": (2, False),
    "2": (2, False),
    "NO_SHARD": (0, False),
    "3": (0, False),
    "HYBRID_SHARD": (3, True),
    "4": (3, True),
    "HYBRID_SHARD_ZERO2": (2, True),
    "5": (2, True),
}
"""Sharding strategy of FSDP1: ZeRO stage, and whether it shards inside a machine only."""


def read_fsdp(fields: Fields, prefix: str, *, version: int) -> Run:
    """An ``fsdp_config``, with or without ``fsdp_`` before its keys.

    Args:
        fields: the file.
        prefix: path of the mapping, with a full stop after it; empty: the file itself.
        version: FSDP's version where none is named.

    Raises:
        InputError: a key has no value of its type.
    """

    def at(name: str) -> tuple[str, str]:
        return f"{prefix}fsdp_{name}", f"{prefix}{name}" if prefix else f"fsdp_{name}"

    number = fields.whole(*at("version"), least=1) or version
    strategy = fields.word(*at("sharding_strategy"))
    reshard = fields.word(*at("reshard_after_forward"))
    zero, in_node = _strategy(fields, at("sharding_strategy")[0], strategy, reshard, number)
    plan: dict[str, object] = {} if zero is None else {"zero": zero}
    if fields.flag(*at("offload_params"), *at("cpu_offload")):
        plan["offload_parameters"] = True
        fields.says("offload_parameters", *at("offload_params"), *at("cpu_offload"))
    if fields.flag(*at("activation_checkpointing_offload")):
        plan["offload_activations"] = True
        fields.says("offload_activations", *at("activation_checkpointing_offload"))
    policy = fields.word(*at("mixed_precision_policy"))
    recompute = fields.flag(*at("activation_checkpointing"))
    for name in IRRELEVANT:
        fields.ignore(*at(name), *(f"{path}.*" for path in at(name)))
    if zero == 0:
        return Run(engine="none", recompute=recompute or None)
    return Run(
        engine="fsdp2" if number == 2 else "fsdp1",
        mixed=_MIXED.get((policy or "").lower()),  # type: ignore[arg-type]
        recompute=recompute or None,
        reentrant=False if recompute else None,
        shard_in_node=in_node or None,
        plan=plan,
    )


_MIXED = {"bf16": "bf16", "fp16": "fp16", "bfloat16": "bf16", "float16": "fp16"}


def _strategy(
    fields: Fields, path: str, strategy: str | None, reshard: str | None, version: int
) -> tuple[int | None, bool]:
    """ZeRO stage and whether a machine holds a whole copy."""
    words = {"true": "FULL_SHARD", "false": "SHARD_GRAD_OP", "full_shard": "FULL_SHARD"}
    said = reshard if version == 2 and reshard is not None else strategy or reshard
    if said is None:
        return None, False
    word = words.get(said.strip().lower(), said.strip().upper())
    if word not in _STRATEGIES:
        fields.fail(path, said, ", ".join(name for name in _STRATEGIES if len(name) > 1))
    return _STRATEGIES[word]


def read_options(fields: Fields, path: str) -> tuple[str, ...]:
    """The Trainer's ``fsdp``: a list or a text of options; ``true`` and ``""`` too."""
    value = fields.peek(path)
    if isinstance(value, bool):
        fields.use(path)
        return ("full_shard",) if value else ()
    return tuple(word.lower() for word in fields.words(path))


def of_options(fields: Fields, path: str, options: tuple[str, ...]) -> Run:
    """What options of ``fsdp`` say beyond that there is FSDP."""
    names = {
        "full_shard": 3,
        "shard_grad_op": 2,
        "no_shard": 0,
        "hybrid_shard": 3,
        "hybrid_shard_zero2": 2,
    }
    plan: dict[str, object] = {}
    in_node = None
    for word in options:
        if word in names:
            plan["zero"] = names[word]
            in_node = True if word.startswith("hybrid") else in_node
        elif word == "offload":
            plan["offload_parameters"] = True
            fields.says("offload_parameters", path)
        elif word not in ("auto_wrap", "true"):
            fields.fail(path, word, ", ".join((*names, "offload", "auto_wrap")))
    if plan.get("zero") == 0:
        return Run(engine="none")
    return Run(shard_in_node=in_node, plan=plan)


def read_parallelism(fields: Fields, prefix: str, names: str = "parallelism_config_") -> Run:
    """Accelerate's ``parallelism_config``: replicas, shards, tensor and context parallelism.

    Keys and values are gathered, or passed round (``alltoall``, a rotation).
    """

    def at(name: str) -> tuple[str, str]:
        return f"{prefix}{names}{name}", f"{prefix}{name}"

    sizes = {name: fields.whole(*at(f"{name}_size"), least=1) or 1 for name in _AXES}
    fields.ignore(*(path for name in _DETAILS for path in at(name)))
    if sizes["sp"] > 1:
        path = next(path for path in at("sp_size") if fields.has(path))
        fields.leave(path, "sequences split over DeepSpeed's ranks (Ulysses) are not modelled")
    plan: dict[str, object] = {axis: sizes[axis] for axis in ("tp", "cp") if sizes[axis] > 1}
    for axis in plan:
        fields.says(axis, *at(f"{axis}_size"))
    rotation = fields.word(*at("cp_comm_strategy"))
    if sizes["cp"] > 1 and (rotation or "").lower() == "alltoall":
        plan["cp_comm"] = "p2p"
    if sizes["dp_replicate"] > 1 and sizes["dp_shard"] * sizes["cp"] > 1:
        plan["hsdp_shard"] = sizes["dp_shard"] * sizes["cp"]
    engine = "fsdp2" if max(sizes["dp_shard"], sizes["tp"], sizes["cp"]) > 1 else None
    return Run(engine=engine, plan=plan)  # type: ignore[arg-type]


_AXES = ("dp_replicate", "dp_shard", "tp", "cp", "sp")
_DETAILS = (
    *("cp_backend", "sp_backend", "sp_seq_length"),
    *("sp_seq_length_is_variable", "sp_attn_implementation", "tp_enable_async_tp"),
)

"""torchtitan: its TOML (https://github.com/pytorch/torchtitan, ``torchtitan/config``).

Keys and defaults are those of ``JobConfig`` in 0.2; the names of 2024's files are read too.
"""

from __future__ import annotations

from tonnage.formats import torchtitan_models
from tonnage.formats.document import Document
from tonnage.formats.draft import Draft
from tonnage.formats.keys import Fields
from tonnage.formats.launch import Launch
from tonnage.plan.layout_text import balanced_sizes, written

_SCHEDULES = {
    "1f1b": ("1f1b", 1),
    "gpipe": ("gpipe", 1),
    "interleaved1f1b": ("interleaved", 2),
    "loopedbfs": ("interleaved", 2),
    "zbvzerobubble": ("zbv", 2),
    "dualpipev": ("dualpipev", 2),
}
"""Names of torch.distributed.pipelining's schedules, and the chunks that torchtitan gives each."""

_IGNORED = (
    *("job.*", "profiling.*", "metrics.*", "checkpoint.*", "comm.*", "debug.*", "validation.*"),
    *("lr_scheduler.*", "memory_estimation.*", "fault_tolerance.*", "experimental.custom*"),
    *("optimizer.lr", "optimizer.eps", "optimizer.weight_decay", "optimizer.beta*"),
    *("training.dataset*", "training.max_norm", "training.gc_*", "training.deterministic"),
    *("training.seed", "training.dataloader.*", "training.warmup_steps", "model.*assets_path"),
    *("model.tokenizer_*", "model.print_after*", "model.hf_*", "compile.backend", "encoder.*"),
    *("activation_checkpoint.early_stop", "activation_checkpoint.per_op_*", "training.classif*"),
    *("activation_checkpoint.preserve*", "activation_checkpoint.deter*", "inference.*"),
    *(
        "activation_checkpoint.debug",
        "quantize.*",
        "float8.*",
        "mx.*",
        "training.mixed_prec*reduce",
    ),
    *("parallelism.context_parallel_*", "parallelism.expert_parallel_comm*", "eval.*"),
    *("parallelism.disable_loss_parallel", "parallelism.pipeline_parallel_expert*"),
    *("parallelism.pipeline_parallel_schedule_csv", "deepep.*", "simple_fsdp.*"),
)

ROTATIONS = {"allgather": "allgather", "alltoall": "p2p"}
"""How PyTorch's context parallelism passes keys and values on, as a plan calls it."""


def detect(document: Document) -> bool:
    """Whether the content is torchtitan's."""
    if document.any("job_config"):
        return False
    return document.has("model.flavor") or document.has("training.local_batch_size", "parallelism")


def read(document: Document) -> Launch:
    """Read a torchtitan file.

    Raises:
        InputError: a key has no value of its type.
    """
    fields = Fields(document.values)
    draft = Draft("torchtitan", fields, "fsdp2")
    _read_model(draft)
    _read_degrees(draft)
    _read_pipeline(draft)
    _read_batch(draft)
    _read_precision(draft)
    _read_recompute(draft)
    _read_rest(draft)
    fields.ignore(*_IGNORED)
    return draft.finish()


def _read_model(draft: Draft) -> None:
    fields = draft.fields
    name = fields.word("model.name") or "llama3"
    flavor = fields.word("model.flavor") or "debugmodel"
    draft.model = fields.word("hf_transformers.model", "model.hf_model_name")
    if draft.model is not None:
        return
    draft.architecture = torchtitan_models.find(name, flavor)
    if draft.architecture is None:
        draft.no_model(f"{name} {flavor} is no language model of torchtitan that is known")


def _read_degrees(draft: Draft) -> None:
    fields = draft.fields
    tp = draft.whole("tp", "parallelism.tensor_parallel_degree", "training.tensor_parallel_degree")
    old = "experimental"
    cp = draft.whole("cp", "parallelism.context_parallel_degree", f"{old}.context_parallel_degree")
    rotation = "parallelism.context_parallel_rotate_method"
    word = (fields.word(rotation) or "").lower()
    if (cp or 1) > 1 and word in ROTATIONS:
        draft.put("cp_comm", ROTATIONS[word], rotation)
    pp = draft.whole(
        "pp", "parallelism.pipeline_parallel_degree", f"{old}.pipeline_parallel_degree"
    )
    ep = draft.whole("ep", "parallelism.expert_parallel_degree")
    if (ep or 1) > 1:
        draft.whole("etp", "parallelism.expert_tensor_parallel_degree")
    fields.ignore("parallelism.expert_tensor_parallel_degree")
    draft.put("sp", (tp or 1) > 1)
    if (cp or 1) > 1:
        where = "parallelism.context_parallel_rotate_method"
        word = (fields.word(where) or "").lower()
        draft.put("cp_comm", {"alltoall": "p2p"}.get(word, word or None), where)
    replicas = fields.whole(
        "parallelism.data_parallel_replicate_degree",
        "training.data_parallel_replicate_degree",
        least=1,
    )
    shard = fields.whole(
        "parallelism.data_parallel_shard_degree",
        "training.data_parallel_shard_degree",
        "training.data_parallel_degree",
        least=-1,
    )
    ranks = (tp or 1) * (pp or 1)
    if shard is not None and shard > 0:
        draft.gpus = (replicas or 1) * shard * (cp or 1) * ranks
    _read_sharding(draft, replicas or 1, shard or -1, cp or 1, pp or 1)


def _read_sharding(draft: Draft, replicas: int, shard: int, cp: int, pp: int) -> None:
    """Parameters are gathered again in backward unless told otherwise, or with stages."""
    path = "parallelism.fsdp_reshard_after_forward"
    again = draft.fields.word(path) or "default"
    draft.put("zero", 2 if again == "never" or (again == "default" and pp > 1) else 3, path)
    if replicas == 1:
        return
    if shard > 1:
        draft.put("hsdp_shard", shard * cp, "parallelism.data_parallel_shard_degree")
    elif shard == 1 and cp > 1:
        draft.put("hsdp_shard", cp, "parallelism.data_parallel_shard_degree")
    elif shard == 1 and draft.plan.get("tp", 1) * cp * pp == 1:
        draft.plan["runtime"] = "ddp"
        draft.put("zero", 0)
    else:
        where = "parallelism.data_parallel_replicate_degree"
        draft.fields.leave(where, "how many ranks share a copy is not said: give --hsdp-shard")


def _read_pipeline(draft: Draft) -> None:
    fields, pp = draft.fields, draft.plan.get("pp", 1)
    here = "parallelism.pipeline_parallel_"
    names = (f"{here}schedule", "experimental.pipeline_parallel_schedule")
    schedule = (fields.word(*names) or "1F1B").lower()
    if pp == 1:
        fields.ignore(f"{here}*", "experimental.pipeline*", "parallelism.module_fqns*")
        return
    name, chunks = _SCHEDULES.get(schedule, (schedule, 1))
    if schedule == "interleavedzerobubble":
        fields.leave(fields.first(*names), "is not modelled: interleaved stands in its place")
        name, chunks = "interleaved", 2
    draft.put("schedule", name, *names)
    sizes = _sizes(draft, pp, chunks)
    chunks = len(sizes) // pp if sizes else chunks
    if chunks > 1:
        draft.put("vpp", chunks, f"{here}layers_per_stage", *names)
    even = sizes and len(set(sizes)) == 1
    if sizes and not even:
        draft.put("pipeline_layout", written(sizes))


def _sizes(draft: Draft, pp: int, chunks: int) -> list[int]:
    """Layers of each chunk: listed, or as torchtitan cuts them; none where that is not known."""
    fields, here = draft.fields, "parallelism.pipeline_parallel_"
    each = fields.whole(f"{here}layers_per_stage", least=1)
    given = [fields.whole(f"{here}{end}_stage_less_layers") for end in ("first", "last")]
    ends = {1 if end is None else end for end in given}
    listed = fields.take("parallelism.module_fqns_per_model_part")
    layers = len(draft.architecture.layers) if draft.architecture else 0
    if isinstance(listed, list) and listed:
        return [sum(str(name).startswith("layers.") for name in part) for part in listed]
    if not layers or len(ends) > 1:
        return []
    places = ends.pop()
    if each is not None:
        chunks = max(-(-(layers + 2 * places) // each) // pp, 1)
    if places == 1:
        fields.note("stages as torchtitan balances them: the embedding and the head a layer each")
    return balanced_sizes(layers, pp * chunks, ends=places)


def _read_batch(draft: Draft) -> None:
    """With stages the local batch is cut into micro-batches of one sequence unless told."""
    fields = draft.fields
    local = fields.whole("training.local_batch_size", "training.batch_size", least=1) or 8
    whole = fields.whole("training.global_batch_size", least=-1)
    micro = fields.whole("parallelism.pipeline_parallel_microbatch_size", least=1)
    if draft.plan.get("pp", 1) > 1:
        pieces = max(local // (micro or 1), 1)
        draft.put("mbs", local // pieces, "training.local_batch_size")
    else:
        pieces = 1
        draft.put("mbs", local, "training.local_batch_size")
    if whole is not None and whole > 0:
        draft.put("gbs", whole, "training.global_batch_size")
    else:
        draft.put("grad_acc", pieces, "training.local_batch_size")
    draft.put("seq", fields.whole("training.seq_len", least=1) or 2048, "training.seq_len")
    draft.steps = fields.whole("training.steps", least=1)


def _read_precision(draft: Draft) -> None:
    fields = draft.fields
    stored = fields.word("training.dtype") or "float32"
    products = fields.word("training.mixed_precision_param") or "bfloat16"
    recipe = "bf16-amp" if products == "bfloat16" else "fp32"
    if stored == "bfloat16":
        recipe = "bf16"
    converters = " ".join(fields.words("model.converters"))
    old = fields.flag("float8.enable_float8_linear", "training.enable_float8_linear")
    if "mx" in converters:
        recipe = "mxfp8-amp"
    elif "float8" in converters or old:
        recipe = "fp8-amp"
    draft.put("precision", recipe, "model.converters", "training.dtype")


def _read_recompute(draft: Draft) -> None:
    """Selective: every second layer, or all but what is dear to compute (``op``)."""
    fields, here = draft.fields, "activation_checkpoint."
    mode = (fields.word(f"{here}mode") or "selective").lower()
    option = (fields.word(f"{here}selective_ac_option") or "2").lower()
    if mode == "memory_budget":
        fields.leave(f"{here}mode", "torch.compile's memory budget is not modelled")
        return
    fields.ignore(f"{here}memory_budget", f"{here}visualize*")
    modules = {"op": ("outputs",), "2": ("every-second-layer",)}
    if mode == "selective" and option not in modules:
        if option != "1":
            fields.leave(f"{here}selective_ac_option", "only op, 1 and 2 are modelled")
        mode = "full" if option == "1" else "none"
    draft.put("recompute", mode, f"{here}mode")
    if mode == "selective":
        draft.put("recompute_modules", modules[option], f"{here}selective_ac_option")


def _read_rest(draft: Draft) -> None:
    fields = draft.fields
    compiled = fields.flag("compile.enable", "training.compile") or False
    parts = fields.words("compile.components") or ("model", "loss")
    if compiled and "model" in parts:
        draft.put("compile", True, "compile.enable")
        draft.habit("norm", "fused")
        draft.habit("activation", "fused")
    draft.put("loss", "compiled" if compiled and "loss" in parts else "eager", "compile.components")
    draft.put("optimizer", (fields.word("optimizer.name") or "AdamW").lower(), "optimizer.name")
    step = (fields.word("optimizer.implementation") or "fused").lower()
    draft.put(
        "optimizer_step", "fused" if step == "fused" else "foreach", "optimizer.implementation"
    )
    draft.flag("optimizer_in_backward", "optimizer.early_step_in_backward")
    draft.flag("offload_parameters", "training.enable_cpu_offload")
    draft.flag("tp_comm_overlap", "parallelism.enable_async_tensor_parallel")

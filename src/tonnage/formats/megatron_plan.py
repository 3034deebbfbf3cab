"""The plan under Megatron's names -> fields of `tonnage.plan.Plan`."""

from __future__ import annotations

from tonnage.formats.draft import Draft
from tonnage.formats.megatron_names import Names
from tonnage.plan.layout_text import chunk_count

MODULES = {
    "core_attn": "core_attn",
    "mlp": "mlp",
    "moe": "moe",
    "layernorm": "layernorm",
    "moe_act": "moe_act",
    "mla_up_proj": "mla_up_proj",
}

EXCHANGES = {"p2p": "p2p", "a2a": "a2a", "allgather": "allgather", "all_gather": "allgather"}
"""``--cp-comm-type``; combinations of them are not modelled."""

"""``--recompute-modules`` that a plan has a name for; the others are not modelled."""

SHARDING = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
"""``--data-parallel-sharding-strategy`` of Megatron-FSDP as a ZeRO stage."""

_PARALLEL = {
    "tp": ("tensor-model-parallel-size",),
    "pp": ("pipeline-model-parallel-size",),
    "cp": ("context-parallel-size",),
    "ep": ("expert-model-parallel-size", "expert-parallel-size"),
    "etp": ("expert-tensor-parallel-size",),
    "first_stage_layers": (
        "decoder-first-pipeline-num-layers",
        "num-layers-in-first-pipeline-stage",
    ),
    "last_stage_layers": ("decoder-last-pipeline-num-layers", "num-layers-in-last-pipeline-stage"),
}


def read_parallel(draft: Draft, names: Names) -> None:
    """Degrees, stages and how layers are split over them."""
    for field, options in _PARALLEL.items():
        draft.whole(field, *names(*options))
    draft.put("sp", names.flag("sequence-parallel") or False, *names("sequence-parallel"))
    draft.flag("account_for_embedding", *names("account-for-embedding-in-pipeline-split"))
    draft.flag("account_for_loss", *names("account-for-loss-in-pipeline-split"))
    layout = names.word("pipeline-model-parallel-layout")
    # A layout's bars and brackets are escaped where a shell reads the file's values again.
    layout = layout.replace("\\", "") if layout else None
    draft.put("pipeline_layout", layout, *names("pipeline-model-parallel-layout"))
    _read_chunks(draft, names, layout)
    group = "microbatch-group-size-per-virtual-pipeline-stage"
    if draft.plan.get("vpp", 1) > 1:
        draft.whole("microbatch_group", *names(group, "microbatch-group-size-per-vp-stage"))
    _read_context(draft, names)


def _read_context(draft: Draft, names: Names) -> None:
    """How context-parallel ranks share keys and values."""
    written = names.fields.take(*names("cp-comm-type"))
    word = str(written[0] if isinstance(written, list) and written else written or "")
    if draft.plan.get("cp", 1) == 1 or not word:
        return
    if word in EXCHANGES:
        draft.put("cp_comm", EXCHANGES[word], *names("cp-comm-type"))
    else:
        names.fields.leave(names("cp-comm-type")[0], "is not modelled")


def _read_chunks(draft: Draft, names: Names, layout: str | None) -> None:
    """Model chunks of a stage: given, from the layers of each, or from the layout."""
    stages = int(draft.plan.get("pp", 1))
    given = ("num-virtual-stages-per-pipeline-rank", "virtual-pipeline-model-parallel-size")
    chunks = names.whole(*given, least=1)
    each = names.whole("num-layers-per-virtual-pipeline-stage", least=1)
    where = names(*given, "num-layers-per-virtual-pipeline-stage")
    if chunks is None and each is not None:
        layers = names.whole("num-layers") or 0
        chunks = max(layers // (stages * each), 1)
    if chunks is None and layout is not None:
        chunks = max(chunk_count(layout) // stages, 1)
        where = names("pipeline-model-parallel-layout")
    if chunks is not None and stages > 1:
        draft.put("vpp", chunks, *where)


def read_batch(draft: Draft, names: Names) -> None:
    """Micro-batch, global batch, sequence length, and how long the run is."""
    if draft.whole("mbs", *names("micro-batch-size")) is None:
        draft.lack("mbs")
    if draft.whole("seq", *names("seq-length", "encoder-seq-length")) is None:
        draft.lack("seq")
    gbs = draft.whole("gbs", *names("global-batch-size"))
    if gbs is None:
        draft.put("grad_acc", 1)
        draft.fields.note("no global batch size: one micro-batch a step")
    draft.steps = names.whole("train-iters", least=1)
    samples = names.whole("train-samples", least=1)
    if samples and gbs and draft.steps is None:
        draft.steps = samples // gbs or None
    if names.has("rampup-batch-size"):
        draft.fields.note("the batch grows at first: the estimate is of its last size")
        names.ignore("rampup-batch-size")


def read_precision(draft: Draft, names: Names) -> None:
    """The recipe: Megatron keeps fp32 gradients with bf16, and 16-bit ones with fp16."""
    bf16, fp16 = names.flag("bf16"), names.flag("fp16")
    full = names.on("accumulate-allreduce-grads-in-fp32", "grad-reduce-in-bf16")
    recipe = "fp32"
    if fp16:
        recipe = "fp16-mixed-fp32-grads" if full else "fp16-mixed"
    elif bf16:
        recipe = "bf16-mixed-bf16-grads" if full is False else "bf16-mixed"
    eight = names.word("fp8-format", "fp8")
    kind = names.word("fp8-recipe") or "delayed"
    four = names.word("fp4-format", "fp4")
    wide = recipe
    if four and four.lower() not in ("false", "none"):
        recipe = "nvfp4"
    elif eight and eight.lower() not in ("false", "none"):
        recipe = "mxfp8" if "mxfp8" in kind else "fp8"
    if recipe != wide and wide == "bf16-mixed-bf16-grads":
        draft.put("gradients_dtype", "bf16", *names("grad-reduce-in-bf16"))
        draft.put("reduction_dtype", "bf16", *names("grad-reduce-in-bf16"))
    draft.put("precision", recipe, *names("bf16", "fp16", "fp8-format"))
    _read_formats(draft, names)


def _read_formats(draft: Draft, names: Names) -> None:
    """The precision-aware optimizer's formats."""
    for field, option in (
        ("gradients_dtype", "main-grads-dtype"),
        ("master_dtype", "main-params-dtype"),
        ("moments_dtype", "exp-avg-dtype"),
    ):
        draft.put(field, names.word(option), *names(option))
    second = names.word("exp-avg-sq-dtype")
    if second is not None and second != draft.plan.get("moments_dtype", "fp32"):
        draft.fields.leave(names("exp-avg-sq-dtype")[0], "both moments have one format here")


def read_recompute(draft: Draft, names: Names) -> None:
    """What of the activations is computed again."""
    granularity = names.word("recompute-granularity", "activations-checkpoint-granularity")
    if granularity is None and names.flag("recompute-activations"):
        granularity = "selective"
    elif granularity is None and names.flag("checkpoint-activations"):
        granularity = "full"  # whole layers, before 2022 the only kind
    if granularity is None:
        names.ignore("recompute-*", "activations-checkpoint-*")
        return
    draft.put(
        "recompute",
        granularity.lower(),
        *names("recompute-granularity", "activations-checkpoint-granularity"),
    )
    method = ("recompute-method", "activations-checkpoint-method")
    layers = (
        *("recompute-num-layers", "activations-checkpoint-num-layers"),
        "checkpoint-num-layers",
    )
    if granularity == "full":
        draft.put("recompute_method", names.word(*method), *names(*method))
        draft.whole("recompute_num_layers", *names(*layers))
    else:
        names.ignore(*method, *layers)
        _read_modules(draft, names)


def _read_modules(draft: Draft, names: Names) -> None:
    given = names.fields.words(*names("recompute-modules"))
    known = tuple(MODULES[name] for name in given if name in MODULES)
    odd = [name for name in given if name not in MODULES]
    if odd:
        names.fields.leave(
            names("recompute-modules")[0], f"recomputing {', '.join(odd)} is not modelled"
        )
    if known:
        draft.put("recompute_modules", known)
    elif given:
        draft.put("recompute", "none")


def read_kernels(draft: Draft, names: Names, *, fused: bool) -> None:
    """Attention kernel, loss, padding of the vocabulary and what else is a habit.

    Args:
        draft: the launch.
        names: where its options are.
        fused: attention is fused unless the file says otherwise.
    """
    backend = names.word("attention-backend")
    flash = names.flag("use-flash-attn")
    eager = {"unfused": True, "local": True}.get(backend or "", False)
    if not fused and not flash and backend not in ("flash", "fused"):
        eager = True
    draft.put("attention", "eager" if eager else "flash", *names("attention-backend"))
    if names.flag("cross-entropy-loss-fusion"):
        draft.put("loss", "vocab-parallel-fused", *names("cross-entropy-loss-fusion"))
    names.word("cross-entropy-fusion-impl")
    multiple = names.whole("make-vocab-size-divisible-by", least=1)
    if names.has("padded-vocab-size"):
        multiple = 1
    if multiple is not None:
        draft.habit("vocab_multiple", multiple)
    if names.on("gradient-accumulation-fusion", "no-gradient-accumulation-fusion") is False:
        draft.habit("placeholder_gradients", False)
    draft.flag("tp_comm_overlap", *names("tp-comm-overlap", "ub-tp-comm-overlap"))
    draft.flag("fp8_param_gather", *names("fp8-param-gather"))
    stored = "activation-func-fp8-input-store"
    draft.flag(stored.replace("-", "_"), *names(stored))
    if names.flag("defer-embedding-wgrad-compute"):
        limit = names.whole("wgrad-deferral-limit") or 0
        draft.put("wgrad_deferral_limit", limit, *names("defer-embedding-wgrad-compute"))
    graphs = names.flag("enable-cuda-graph", "external-cuda-graph")
    kind = names.word("cuda-graph-impl")
    if graphs or (kind and kind != "none"):
        draft.put("cuda_graphs", True, *names("enable-cuda-graph", "cuda-graph-impl"))


def read_optimizer(draft: Draft, names: Names) -> None:
    """The optimizer, where its states are, and how they are sharded."""
    optimizer = (names.word("optimizer") or "adam").lower()
    plain = {"adam": None, "sgd": "momentum", "dist_muon": "muon", "muon": "muon"}
    draft.put("optimizer", plain.get(optimizer, optimizer), *names("optimizer"))
    if names.flag("optimizer-cpu-offload"):
        share = names.number("optimizer-offload-fraction")
        draft.put(
            "offload_optimizer", 1.0 if share is None else share, *names("optimizer-cpu-offload")
        )
    names.ignore("optimizer-offload-fraction")
    if names.flag("use-megatron-fsdp", "use-torch-fsdp2", "use-custom-fsdp"):
        strategy = names.word("data-parallel-sharding-strategy") or "optim_grads_params"
        draft.plan["runtime"] = "megatron-fsdp"
        draft.put("zero", SHARDING.get(strategy, 3), *names("data-parallel-sharding-strategy"))
    else:
        sharded = names.flag("use-distributed-optimizer") or False
        draft.put("zero", int(sharded), *names("use-distributed-optimizer"))
    draft.put(
        "overlap_grad_reduce", names.flag("overlap-grad-reduce") or False, "--overlap-grad-reduce"
    )
    gather = names.flag("overlap-param-gather") or False
    draft.put("overlap_param_gather", gather, *names("overlap-param-gather"))
    instances = names.whole("num-distributed-optimizer-instances", least=1)
    ranks = draft.plan.get("tp", 1) * draft.plan.get("pp", 1) * (instances or 1)
    if instances and instances > 1 and draft.gpus and draft.gpus % ranks == 0:
        draft.put("hsdp_shard", draft.gpus // ranks, *names("num-distributed-optimizer-instances"))
    elif instances and instances > 1:
        names.fields.leave(
            names("num-distributed-optimizer-instances")[0], "give --hsdp-shard for it"
        )


def read_experts(draft: Draft, names: Names, *, dispatcher: str) -> None:
    """How tokens reach their experts.

    Args:
        draft: the launch.
        names: where its options are.
        dispatcher: what the tool does where the file does not say.
    """
    if not names.has("num-experts", "num-moe-experts"):
        names.ignore("moe-*", "expert-*")
        return
    given = names.word("moe-token-dispatcher-type") or dispatcher
    backend = names.word("moe-flex-dispatcher-backend")
    given = given.removesuffix("_seq")
    if given == "flex" or names.flag("moe-enable-deepep"):
        given = "deepep"
        if backend not in (None, "deepep"):
            draft.fields.note(f"dispatcher {backend}: taken for DeepEP")
    draft.put("moe_dispatcher", given, *names("moe-token-dispatcher-type"))
    draft.put(
        "moe_capacity_factor",
        names.number("moe-expert-capacity-factor"),
        *names("moe-expert-capacity-factor"),
    )
    for option in ("overlap-moe-expert-parallel-comm", "delay-wgrad-compute"):
        if names.flag(option):
            names.fields.leave(
                names(option)[0], "hiding the exchange is a habit: --habit ep_overlap=X"
            )


def read_predictors(draft: Draft, names: Names) -> None:
    """Multi-token-prediction layers."""
    count = names.whole("mtp-num-layers")
    draft.put("mtp", count or None, *names("mtp-num-layers"))

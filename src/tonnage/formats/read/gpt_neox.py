"""GPT-NeoX: its YAML (https://github.com/EleutherAI/gpt-neox, ``configs/neox_arguments.md``).

Names come with hyphens or underscores. The engine is DeepSpeed under Megatron's layers.
"""

from __future__ import annotations

from tonnage.arch import read_config
from tonnage.formats.command import canonical
from tonnage.formats.detect_error import not_a_launch
from tonnage.formats.document import Document
from tonnage.formats.draft import Draft
from tonnage.formats.keys import Fields
from tonnage.formats.launch import Launch
from tonnage.formats.megatron_ignored import IGNORED
from tonnage.formats.megatron_names import Names
from tonnage.formats.megatron_shape import read_shape
from tonnage.formats.read.gpt_neox_method import IGNORED as METHOD
from tonnage.formats.read.gpt_neox_method import read_method

TOKENIZER_20B = 50_277
"""Entries of the tokenizer of GPT-NeoX-20B (arXiv 2204.06745), which Pythia shares."""

_SHAPE = tuple(
    """
    num-layers hidden-size num-attention-heads max-position-embeddings norm activation rotary-pct
    no-weight-tying gpt-j-residual hidden-dropout attention-dropout pos-emb intermediate-size
    """.split()
)
"""What another model, given in its place, says instead."""

_TELLING = frozenset(
    """
    pipe-parallel-size model-parallel-size pos-emb no-weight-tying gpt-j-residual
    checkpoint-factor attention-config data-impl output-layer-parallelism
    output-layer-init-method train-data-paths valid-data-paths test-data-paths wandb-team
    scaled-upper-triang-masked-softmax-fusion checkpoint-activations hostfile
    """.split()
)
_GATED = {"geglu": "gelu", "swiglu": "silu", "reglu": "relu", "glu": "silu"}
_PLAIN = {"gelu": "gelu", "relu": "relu", "silu": "silu", "swish": "silu", "squared_relu": "relu2"}
_POSITIONS = {"rotary": "rope", "learned": "learned_absolute", "alibi": "alibi", "none": "none"}
_NORMS = {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm"}
_IGNORED = tuple(
    """
    activation-checkpointing allgather-* autotuning* char-level-* checkpoint-factor
    checkpoint-scale checkpoint-validation-* comment comms-* contiguous-checkpointing csv-*
    dataset-impl deepscale* deepspeed* detect-nvlink-* do-* dump-state dynamic-loss-scale
    elasticity exclude extra-save-iters finetune flops-profiler force-multi gas git-hash gmlp-*
    gpt-j-tied gradient-clipping gradient-noise-* gradient-predivide-* hostfile include init-*
    iteration keep-last-* label-data-* launcher launcher-args layernorm-fusion load-universal
    local-rank log-dir mamba-*-fusion mamba-*-in-fp32 master-* mean-noise-* memory-profiling*
    min-scale mlp-multiple-of mup-* no-ssh-* opt-pos-* output-layer-* pack-impl peak-theoretical-*
    pipe-partition-method precision-* prescale-* profile* rank return-predictions rms-norm-*
    rmsnorm-fusion rope-fusion rotary-emb-* rotary-save-* save-base-shapes scaled-* scalenorm-*
    scheduler seed short-seq-* soft-prompt-* steps-per-print synchronize-* tensorboard* text-gen-*
    use-bias-in-mlp use-flashattn-swiglu use-mup use-qk-layernorm
    use-shared-* use-tutel use-wandb user-script wall-clock-*
    wandb* weight-by-* weighted-* world-size
    """.split()
)


def detect(document: Document) -> bool:
    """Whether the content is GPT-NeoX's."""
    names = {canonical(str(name)) for name in document.values}
    return len(names & _TELLING) >= 2


def read(document: Document) -> Launch:
    """Read a GPT-NeoX file.

    Raises:
        InputError: it only says where data lies, or a key has no value of its type.
    """
    fields = Fields(document.values)
    names = Names(fields)
    if not names.has("num-layers", "train-micro-batch-size-per-gpu", "hidden-size"):
        raise not_a_launch(
            document, "it names neither a model nor a batch, to be given with others"
        )
    draft = Draft("gpt-neox", fields, "megatron-deepspeed")
    _read_degrees(draft, names)
    _read_batch(draft, names)
    read_method(draft, names)
    _read_precision(draft, names)
    _read_rest(draft, names)
    _read_model(draft, names)
    _read_exchange(draft, names)
    names.ignore(*IGNORED, *_IGNORED, *METHOD)
    fields.ignore("optimizer.params.*", "optimizer.*", "zero_optimization.*", "scheduler.*")
    fields.ignore("fp16.*", "bf16.*", "amp.*", "flops_profiler.*", "comms_logger.*", "wandb.*")
    fields.ignore("tensorboard.*", "autotuning.*", "mup.*", "elasticity.*", "checkpoint.*")
    return draft.finish()


def _read_degrees(draft: Draft, names: Names) -> None:
    stages = names.whole("pipe-parallel-size")
    draft.put("pp", max(stages or 1, 1), *names("pipe-parallel-size"))
    draft.whole("tp", *names("model-parallel-size"))
    draft.put("sp", names.flag("sequence-parallel") or False, *names("sequence-parallel"))
    draft.put("ep", names.whole("moe-expert-parallel-size"), *names("moe-expert-parallel-size"))
    nodes, each = names.whole("num-nodes", least=-1), names.whole("num-gpus", least=-1)
    draft.gpus = names.whole("global-num-gpus", least=1)
    if draft.gpus is None and each and each > 0 and nodes and nodes > 0:
        draft.gpus = nodes * each


def _read_exchange(draft: Draft, names: Names) -> None:
    """Experts under tensor parallelism: weighed as Megatron-Core has them."""
    split = int(draft.plan.get("tp", 1)) > 1 and not draft.plan.get("sp")
    if split and (names.whole("moe-num-experts", "num-experts") or 1) > 1:
        draft.put("sp", True)
        draft.fields.note(
            "experts under model parallelism: weighed with sequence parallelism, which holds "
            "norms and residuals once in a group"
        )


def _read_batch(draft: Draft, names: Names) -> None:
    micro = names("train-micro-batch-size-per-gpu", "batch-size")
    if draft.whole("mbs", *micro) is None:
        draft.lack("mbs")
    if draft.whole("seq", *names("seq-length")) is None:
        draft.lack("seq")
    whole = draft.whole("gbs", *names("train-batch-size"))
    pieces = names.whole("gradient-accumulation-steps", "gas", least=1)
    if whole is None:
        draft.put("grad_acc", pieces or 1, *names("gradient-accumulation-steps"))
    draft.steps = names.whole("train-iters", least=1)


def _read_precision(draft: Draft, names: Names) -> None:
    """fp16 unless the file says bf16 or neither; gradients are summed in ``grad_accum_dtype``."""
    fields = draft.fields
    if names.word("te-fp8-format"):
        path = names("te-fp8-format")[0]
        fields.leave(path, "Transformer Engine's FP8 is left out: products in 16 bits")
    word = (names.word("precision") or "").lower()
    kind = (fields.word("fp16.type") or "").lower()
    half = fields.flag("fp16.enabled")
    brain = fields.flag("bf16.enabled") or kind in ("bfloat16", "bf16") or word == "bfloat16"
    accumulates = (fields.word("data_types.grad_accum_dtype") or "").lower()
    if brain:
        recipe = "bf16-mixed" if accumulates in ("fp32", "float32") else "bf16-mixed-bf16-grads"
    elif half or word == "fp16":
        recipe = "fp16-mixed"
    elif half is None and word == "":
        recipe = "fp16-mixed"
        fields.note("precision fp16: not given, what the tool does")
    else:
        recipe = "fp32"
    draft.put("precision", recipe, "fp16.enabled")
    if names.flag("fp32-allreduce"):
        draft.put("reduction_dtype", "fp32", *names("fp32-allreduce"))


def _read_rest(draft: Draft, names: Names) -> None:
    fields = draft.fields
    stage = fields.whole("zero_optimization.stage")
    draft.put("zero", stage if stage is not None else 0, "zero_optimization.stage")
    offloads = fields.flag("zero_optimization.cpu_offload")
    device = (fields.word("zero_optimization.offload_optimizer.device") or "none").lower()
    if offloads or device != "none":
        draft.put("offload_optimizer", 1.0, "zero_optimization.cpu_offload")
    held = (fields.word("zero_optimization.offload_param.device") or "none").lower()
    if stage == 3 and (fields.flag("zero_optimization.cpu_offload_params") or held != "none"):
        draft.put("offload_parameters", True, "zero_optimization.cpu_offload_params")
    if names.flag("checkpoint-activations"):
        draft.put("recompute", "full", *names("checkpoint-activations"))
        draft.whole("recompute_num_layers", *names("checkpoint-num-layers"))
    names.ignore("checkpoint-num-layers")
    partitioned = names.flag("partition-activations")
    if partitioned and draft.plan.get("tp", 1) > 1 and "recompute" in draft.plan:
        fields.leave(names("partition-activations")[0], "is not modelled")
    if names.flag("checkpoint-in-cpu"):
        draft.put("offload_activations", True, *names("checkpoint-in-cpu"))
    multiple = names.whole("make-vocab-size-divisible-by", least=1)
    if multiple is not None:
        draft.habit("vocab_multiple", multiple)
    kind = (fields.word("optimizer.type") or "Adam").lower().replace("_", "")
    known: dict[str, str | None] = {
        "adam": None,
        "adamw": None,
        "onebitadam": None,
        "cpuadam": None,
    }
    if names.flag("use-bnb-optimizer") and kind in known:
        known[kind] = "adam8bit"
    draft.put("optimizer", known.get(kind, kind), "optimizer.type")


def _read_model(draft: Draft, names: Names) -> None:
    kinds = _attention(draft, names)
    if "mamba" in kinds:
        _read_mamba(draft, names, kinds)
        return
    if kinds - {"flash", "global", "local"}:
        draft.no_model(f"layers of {', '.join(sorted(kinds))} are not read from this file")
        names.ignore(*_SHAPE)
        return
    draft.put("attention", "flash" if "flash" in kinds else "eager", *names("attention-config"))
    over = _shape(names)
    read_shape(draft, names, **over)


def _shape(names: Names) -> dict[str, object]:
    """What GPT-NeoX calls otherwise than Megatron-LM."""
    activation = (names.word("activation") or "gelu").lower()
    llama = names.word("mlp-type") == "llama"
    gated = activation in _GATED or llama
    norm = names.word("norm") or "layernorm"
    linear = names.flag("use-bias-in-attn-linear")
    tokens = names.whole("padded-vocab-size", least=1)
    experts = names.whole("moe-num-experts", "num-experts") or 1
    return {
        "num_query_groups": names.whole("num-kv-heads"),
        "ffn_hidden_size": names.whole("intermediate-size", "feedforward-size"),
        "gated_linear_unit": gated,
        "activation_func": "silu"
        if llama
        else _GATED.get(activation, _PLAIN.get(activation, activation)),
        "normalization": _NORMS.get(norm.lower().removeprefix("te_"), norm),
        "norm_bias": names.flag("use-bias-in-norms"),
        "position_embedding_type": _POSITIONS.get(names.word("pos-emb") or "learned", "relative"),
        "rotary_percent": names.number("rotary-pct"),
        "share_embeddings_and_output_weights": not names.flag("no-weight-tying"),
        "parallel_residual": bool(names.flag("gpt-j-residual")),
        "add_bias_linear": not llama and not gated and names.flag("use-bias-in-mlp") is not False,
        "attention_bias": linear if linear is not None else True,
        "window_size": names.whole("sliding-window-width") or None,
        "qk_layernorm": names.flag("use-qk-layernorm"),
        **(_experts(names, experts) if experts > 1 else {}),
        **({"vocab_size": tokens} if tokens else _tokenizer(names)),
    }


def _experts(names: Names, experts: int) -> dict[str, object]:
    """Every ``moe-expert-interval``-th layer routes, to one expert unless told.

    Before 2.0 it was ``expert-interval``, every second layer unless told.
    """
    usual = 1 if names.has("moe-num-experts") else 2
    return {
        "num_moe_experts": experts,
        "moe_router_topk": names.whole("moe-top-k", "moe-router-topk", least=1) or 1,
        "moe_layer_freq": names.whole("moe-expert-interval", "expert-interval", least=1) or usual,
    }


def _tokenizer(names: Names) -> dict[str, object]:
    kind = names.word("tokenizer-type") or "GPT2BPETokenizer"
    if kind == "CharLevelTokenizer":
        return {"vocab_size": 512}
    if kind != "HFTokenizer":
        return {} if kind == "SPMTokenizer" else {"vocab_size": 50_257}
    file = (names.fields.path(*names("vocab-file")) or "20B").lower()
    if not any(mark in file for mark in ("20b", "neox_tok", "neox-tok", "pythia", "pile")):
        return {}
    names.fields.note(f"vocabulary {TOKENIZER_20B}: that of GPT-NeoX-20B's tokenizer")
    return {"vocab_size": TOKENIZER_20B}


def _attention(draft: Draft, names: Names) -> set[str]:
    """The kinds of layer in ``[[[kind, …], times], …]``."""
    written = draft.fields.take(*names("attention-config"))
    found: set[str] = set()
    for item in written if isinstance(written, list) else ():
        kinds = item[0] if isinstance(item, list) and item else item
        for kind in kinds if isinstance(kinds, list) else [kinds]:
            if isinstance(kind, str):
                found.add(kind.lower())
    return found or {"global"}


def _read_mamba(draft: Draft, names: Names, kinds: set[str]) -> None:
    hidden, layers = names.whole("hidden-size"), names.whole("num-layers")
    names.ignore("num-attention-heads", "max-position-embeddings", "activation", "norm", "mamba-*")
    names.ignore("no-weight-tying", "pos-emb", "hidden-dropout", "attention-dropout")
    if kinds != {"mamba"} or not hidden or not layers:
        draft.no_model("a mixture of Mamba and attention is not read from this file")
        return
    vocab = _tokenizer(names).get("vocab_size")
    if vocab is None:
        draft.lack("vocab")
    draft.architecture = read_config(
        {
            "model_type": "mamba",
            "hidden_size": hidden,
            "num_hidden_layers": layers,
            "vocab_size": vocab or 1,
            "state_size": 16,
            "expand": 2,
            "conv_kernel": 4,
            "time_step_rank": "auto",
            "use_bias": False,
            "use_conv_bias": True,
            "tie_word_embeddings": not names.flag("no-weight-tying"),
        },
        name="gpt-neox",
        source="a launch file",
    )

"""MindSpeed and MindSpeed-LLM on Ascend: Megatron's options and some of their own.

https://gitee.com/ascend/MindSpeed-LLM (``docs``, ``mindspeed_llm/training/arguments.py``)
and https://gitee.com/ascend/MindSpeed.
"""

from __future__ import annotations

import dataclasses

from tonnage.formats.command import canonical, read_command
from tonnage.formats.document import Document
from tonnage.formats.draft import Draft
from tonnage.formats.expressions import numbers_in
from tonnage.formats.launch import Launch
from tonnage.formats.lora import targets
from tonnage.formats.megatron_ignored import IGNORED
from tonnage.formats.megatron_names import Names
from tonnage.formats.megatron_plan import (
    read_batch,
    read_experts,
    read_kernels,
    read_optimizer,
    read_parallel,
    read_precision,
    read_predictors,
    read_recompute,
)
from tonnage.formats.megatron_shape import latent_fields, read_shape
from tonnage.formats.read.megatron import ENOUGH, start, telling

_MARKS = (
    *("mindspeed", "npus_per_node", "ascend-toolkit", "ascend_", "hccl_", "torch_npu"),
    *("cann", "npu-smi", "task_queue_enable"),
)
_OWN = frozenset(
    """
    use-fused-rmsnorm use-fused-swiglu use-fused-rotary-pos-emb use-mc2 use-ascend-mc2
    reuse-fp32-param context-parallel-algo use-cp-send-recv-overlap moe-tp-extend-ep
    swap-attention recompute-in-advance recompute-in-bubble no-shared-storage noop-layers
    moe-alltoall-overlap-comm shape-order fa-type tokenizer-name-or-path
    use-fused-ring-attention-update coc-fused-kernel use-ascend-coc
    """.split()
)
_IGNORED = tuple(
    """
    adaptive-* add-rmsnorm-offset affinity* attention-mask-type auto-* beta-* coc-*
    context-parallel-algo cp-window-size enable-recompute-* enable-chunk-* fa-type fix-router
    gmm-* handler-name
    is-pairwise-* jit-compile kv-head-repeat* lora-alpha lora-load lora-register-* lora-fusion
    mask-* megatron-cp-* moe-alltoall-overlap-comm moe-allgather-overlap-comm moe-bmm-mc2
    moe-fb-overlap moe-tp-extend-ep moe-unperm2-* moe-zerc no-cp-* no-pad-* no-post-* enable-hf2mg-*
    mla-fa-* moe-permutation-* n-group no-shared-storage noisy-* norm-topk-prob npu-*
    overwrite-cache padding-* padded-samples pack prompt-type* input-embeds-norm query-pre-*
    repeated-* rope-scaling-* routed-scaling-* router-* seq-aux shape-order stage
    shared-expert-gate-*
    tokenizer-* topk-* trust-* use-cp-send-recv-overlap use-distributed-* use-fused-*
    swap-optimizer-times use-fusion-attn-v2 use-mc2 use-ascend-mc2 use-ascend-coc use-rotary-*
    use-glm-* square-alibi-*
    variable-seq-* full-shuffle-* enable-share-memory enable-high-availability enable-hbmfault-*
    enable-overlap-* enable-backward-* model-type-hf hf-* save-model-type load-model-type
    low-freq-factor long-factor long-mscale longrope-* short-factor short-mscale dynamic-factor
    cache-dir preprocessing-* rescale-* reset-attention-mask dim-model-base router-gating-*
    """.split()
)


def detect(document: Document) -> bool:
    """Whether a script is MindSpeed's: Megatron's options with marks of Ascend."""
    if document.syntax != "shell":
        return False
    options = read_command(document).options
    if telling(options) < ENOUGH:
        return False
    text = document.text.lower()
    own = any(canonical(name) in _OWN for name in options)
    return own or any(mark in text for mark in _MARKS)


def read(document: Document) -> Launch:
    """Read a launch of MindSpeed.

    Raises:
        InputError: it starts no training, or an option has no value of its type.
    """
    draft, names = start(document, kind="mindspeed", stack="mindspeed")
    read_parallel(draft, names)
    _read_schedule(draft, names)
    read_batch(draft, names)
    read_precision(draft, names)
    read_recompute(draft, names)
    # Its local layers have the NPU's fused attention where --use-flash-attn asks for it.
    read_kernels(draft, names, fused=False)
    read_optimizer(draft, names)
    read_experts(draft, names, dispatcher="allgather")
    read_predictors(draft, names)
    if names.flag("moe-tp-extend-ep") and "ep" in draft.plan:
        # Experts are spread over the tensor-parallel ranks too, and none is cut.
        draft.put("ep", draft.plan["ep"] * draft.plan.get("tp", 1), *names("moe-tp-extend-ep"))
        draft.put("etp", 1, *names("moe-tp-extend-ep"))
    _read_adapters(draft, names)
    _read_memory(draft, names)
    read_shape(draft, names, **_shape(draft, names))
    _add_norms(draft, names)
    names.ignore(*IGNORED, *_IGNORED)
    return draft.finish()


def _read_schedule(draft: Draft, names: Names) -> None:
    algorithm = names.word("context-parallel-algo") or ""
    if draft.plan.get("cp", 1) > 1 and algorithm:
        known = {"ulysses_cp_algo": "a2a", "megatron_cp_algo": "p2p"}.get(algorithm)
        draft.put("cp_comm", known, *names("context-parallel-algo"))
        if known is None:
            names.fields.leave(names("context-parallel-algo")[0], "is not modelled")
    method = names.word("schedules-method")
    draft.put("schedule", method, *names("schedules-method"))
    if method == "dualpipev":
        draft.put("vpp", 2, *names("schedules-method"))
    if names.on("gemm-gradient-accumulation-fusion", "no-gemm-gradient-accumulation-fusion"):
        draft.habit("placeholder_gradients", True)


def _shape(draft: Draft, names: Names) -> dict[str, object]:
    """DeepSeek's names, which MindSpeed-LLM takes beside Megatron's."""
    layers = names.whole("num-layers") or 0
    first = names.whole("first-k-dense-replace", least=-1)
    shared = names.whole("n-shared-experts")
    width = names.whole("moe-intermediate-size", "moe-ffn-hidden-size")
    over: dict[str, object] = {}
    if names.flag("gelu-tanh"):
        over |= {"gated_linear_unit": True, "activation_func": "gelu"}
    window = names.whole("interleave-sliding-window", least=1)
    if window is not None:  # every second layer attends within it
        over |= {"window_size": window, "window_attn_skip_freq": 2}
    if first is not None and layers:
        every = max(names.whole("moe-layer-freq", least=-1) or 1, 1) if _plain(names) else 1
        over["moe_layer_freq"] = [int(i >= first and i % every == 0) for i in range(layers)]
    if shared and width:
        over["moe_shared_expert_intermediate_size"] = shared * width
    if names.flag("multi-head-latent-attention"):
        over |= {"multi_latent_attention": True, **latent_fields(names), "kv_channels": None}
    listed = numbers_in(names.word("num-layer-list") or "")
    if listed and len(listed) == draft.plan.get("pp", 1) and sum(listed) == layers:
        layout = "E" + "|".join("t" * count for count in listed) + "L"
        draft.put("pipeline_layout", layout, *names("num-layer-list"))
    empty = numbers_in(names.word("noop-layers") or "")
    if empty and layers:
        _leave_out(draft, layers, frozenset(empty))
        over["num_layers"] = layers - len(set(empty))
    return over


def _add_norms(draft: Draft, names: Names) -> None:
    """``--post-norm``: a norm behind attention and one behind the MLP too, as Gemma 2 has."""
    found = draft.architecture
    if names.flag("post-norm") and found is not None:
        layers = tuple(
            dataclasses.replace(
                layer, mixer_output_norm=layer.mixer_norm, mlp_output_norm=layer.mlp_norm
            )
            for layer in found.layers
        )
        draft.architecture = dataclasses.replace(found, layers=layers)


def _plain(names: Names) -> bool:
    """Whether the frequency of layers of experts is a number, and no pattern."""
    return str(names.peek("moe-layer-freq") or "").lstrip("-").isdigit()


def _leave_out(draft: Draft, slots: int, empty: frozenset[int]) -> None:
    """Stages hold equally many places for layers, some of which do nothing."""
    chunks = draft.plan.get("pp", 1) * draft.plan.get("vpp", 1)
    if slots % chunks == 0 and chunks > 1:
        each = slots // chunks
        counts = [
            sum(index not in empty for index in range(at, at + each))
            for at in range(0, slots, each)
        ]
        layout = "E" + "|".join("t" * count for count in counts) + "L"
        draft.put("pipeline_layout", layout, "--noop-layers")


def _read_adapters(draft: Draft, names: Names) -> None:
    rank = names.whole("lora-r", least=1)
    if rank is None:
        names.ignore("lora-*")
        return
    draft.put("lora_rank", rank, *names("lora-r"))
    found, unknown = targets(names.fields.words(*names("lora-target-modules")))
    draft.put("lora_targets", found or None, *names("lora-target-modules"))
    if unknown:
        names.fields.leave(names("lora-target-modules")[0], "names no layer here")
    if names.flag("qlora"):
        names.fields.leave(names("qlora")[0], "a quantised base is not modelled with mindspeed")


def _read_memory(draft: Draft, names: Names) -> None:
    """What MindSpeed does to save memory beyond recomputation."""
    if names.flag("reuse-fp32-param"):
        # The bf16 weights are the upper half of their fp32 masters: one copy of both.
        names.fields.leave(
            names("reuse-fp32-param")[0], "weights and masters in one copy are not modelled"
        )
    if names.flag("swap-optimizer"):
        draft.put("offload_optimizer", 1.0, *names("swap-optimizer"))
    draft.flag("recompute_per_stage", *names("enable-recompute-layers-per-pp-rank"))
    for option in ("swap-attention", "recompute-activation-function"):
        if names.flag(option):
            names.fields.leave(names(option)[0], "is not modelled")

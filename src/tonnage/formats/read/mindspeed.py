"""MindSpeed and MindSpeed-LLM on Ascend: Megatron's options and some of their own.

https://gitee.com/ascend/MindSpeed-LLM (``docs``, ``mindspeed_llm/training/arguments.py``)
and https://gitee.com/ascend/MindSpeed.
"""

from __future__ import annotations

from tonnage.formats.command import canonical, read_command
from tonnage.formats.document import Document
from tonnage.formats.draft import Draft
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
from tonnage.formats.megatron_shape import read_shape
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
    moe-alltoall-overlap-comm shape-order fa-type adaptive-memory-optimization tokenizer-name-or-path
    use-fused-ring-attention-update coc-fused-kernel use-ascend-coc
    """.split()
)
_IGNORED = tuple(
    """
    adaptive-* affinity* attention-mask-type auto-* beta-* coc-* context-parallel-algo
    cp-window-size enable-recompute-* enable-chunk-* fa-type fix-router gmm-* handler-name
    is-pairwise-* jit-compile kv-head-repeat* lora-alpha lora-load lora-register-* lora-fusion
    mask-* megatron-cp-* moe-alltoall-overlap-comm moe-allgather-overlap-comm moe-bmm-mc2
    moe-fb-overlap moe-tp-extend-ep moe-unperm2-* moe-zerc no-cp-* no-pad-* no-post-*
    no-shared-storage noisy-* npu-* overwrite-cache padding-* padded-samples pack prompt-type*
    repeated-* rope-scaling-* router-* seq-aux shape-order shared-expert-gate-* stage
    tokenizer-* topk-* trust-* use-cp-send-recv-overlap use-distributed-* use-fused-*
    use-fusion-attn-v2 use-mc2 use-ascend-mc2 use-ascend-coc use-rotary-* use-glm-* square-alibi-*
    variable-seq-* full-shuffle-* enable-share-memory enable-high-availability enable-hbmfault-*
    enable-overlap-* enable-backward-* model-type-hf hf-* save-model-type load-model-type
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
    read_batch(draft, names)
    read_precision(draft, names)
    read_recompute(draft, names)
    # Its local layers have the NPU's fused attention where --use-flash-attn asks for it.
    read_kernels(draft, names, fused=False)
    read_optimizer(draft, names)
    read_experts(draft, names, dispatcher="allgather")
    read_predictors(draft, names)
    _read_adapters(draft, names)
    _read_memory(draft, names)
    read_shape(draft, names, **_shape(names))
    names.ignore(*IGNORED, *_IGNORED)
    return draft.finish()


def _shape(names: Names) -> dict[str, object]:
    """DeepSeek's names, which MindSpeed-LLM takes beside Megatron's."""
    layers = names.whole("num-layers") or 0
    first = names.whole("first-k-dense-replace")
    shared = names.whole("n-shared-experts")
    width = names.whole("moe-intermediate-size", "moe-ffn-hidden-size")
    over: dict[str, object] = {}
    if first is not None and layers:
        every = names.whole("moe-layer-freq") or 1
        over["moe_layer_freq"] = [int(i >= first and i % every == 0) for i in range(layers)]
    if shared and width:
        over["moe_shared_expert_intermediate_size"] = shared * width
    empty = names.word("noop-layers")
    if empty and layers:
        names.fields.note(f"layers {empty} do nothing: they are left out")
        over["num_layers"] = layers - len(set(empty.replace(",", " ").split()))
    return over


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
    for option in ("swap-attention", "recompute-activation-function", "swap-optimizer"):
        if names.flag(option):
            names.fields.leave(names(option)[0], "is not modelled")

"""The stacks that Tonnage knows, each a row of habits."""

from __future__ import annotations

from tonnage.errors import InputError
from tonnage.runtime.huggingface import HUGGING_FACE
from tonnage.runtime.native import NATIVE
from tonnage.runtime.runtime import Runtime

_PROFILES = (
    Runtime(
        name="megatron",
        trains_predictors=True,
        gradient_buffer="persistent",
        routing="map",
        summary="Megatron-Core with Transformer Engine",
        axes=("tp", "sp", "pp", "vpp", "cp", "ep", "etp"),
        schedules=("1f1b", "interleaved"),
        zero_stages=(0, 1),
        zero=1,
        precision="bf16-mixed",
        qkv="fused",
        loss="vocab-parallel",
        fused_loss="vocab-parallel-fused",
        vocab_multiple=128,
        sharding="distributed-optimizer",
        optimizer_step="fused",
        attention_layout="sbhd",
        ring_keys="joined",
        norm_in_linear=True,
        head_gather_buffer=True,
        attention_mask=True,
        placeholder_gradients=True,
        linear_workspaces=1,
        overlap_sends=True,
        source="Megatron-LM core_v0.12 and Transformer Engine 2.x, read in source",
    ),
    Runtime(
        name="megatron-fsdp",
        measured=False,
        trains_predictors=True,
        routing="map",
        summary="Megatron-Core with Megatron-FSDP and Transformer Engine",
        axes=("tp", "sp", "cp", "ep", "etp"),
        zero_stages=(2, 3),
        zero=3,
        precision="bf16-mixed",
        qkv="fused",
        loss="vocab-parallel",
        fused_loss="vocab-parallel-fused",
        vocab_multiple=128,
        sharding="fully-sharded",
        optimizer_step="fused",
        attention_layout="sbhd",
        ring_keys="joined",
        norm_in_linear=True,
        source="Megatron-LM core, megatron_fsdp; its memory is not held to measurements",
    ),
    Runtime(
        name="megatron-2022",
        gradient_buffer="persistent",
        summary="Megatron-LM as in arXiv 2205.05198: unfused attention, no Transformer Engine",
        axes=("tp", "sp", "pp", "vpp"),
        schedules=("1f1b", "interleaved"),
        zero_stages=(0,),
        zero=0,
        precision="fp16-mixed-fp32-grads",
        norm_statistics=False,
        qkv="fused",
        loss="vocab-parallel",
        vocab_multiple=128,
        sharding="distributed-optimizer",
        optimizer_step="fused",
        overlap_grad_reduce=False,
        overlap_param_gather=False,
        scatter_gather=True,
        source="Korthikanti et al., arXiv 2205.05198, section 4; norm statistics neglected there",
    ),
    Runtime(
        name="megatron-deepspeed",
        gradient_buffer="persistent",
        summary="Megatron-DeepSpeed: unfused attention, every collective exposed",
        axes=("tp", "sp", "pp"),
        zero_stages=(0, 1),
        zero=0,
        precision="fp16-mixed",
        qkv="fused",
        loss="vocab-parallel",
        vocab_multiple=128,
        sharding="partitioned",
        optimizer_step="fused",
        overlap_grad_reduce=False,
        overlap_param_gather=False,
        scatter_gather=True,
        source="Megatron-DeepSpeed; vTrain (arXiv 2312.12391), section 4",
    ),
    Runtime(
        name="mindspeed",
        trains_predictors=True,
        summary="MindSpeed-LLM on Ascend: Megatron-Core's local layers, NPU kernels",
        axes=("tp", "sp", "pp", "vpp", "cp", "ep", "etp"),
        schedules=("1f1b", "interleaved", "dualpipev"),
        zero_stages=(0, 1),
        zero=1,
        precision="bf16-mixed",
        qkv="fused",
        attention_statistics=16,
        routing="map",
        loss="vocab-parallel",
        fused_loss="vocab-parallel-fused",
        vocab_multiple=128,
        sharding="distributed-optimizer",
        gradient_buffer="persistent",
        optimizer_step="fused",
        matmul_workspaces=0,
        source="MindSpeed and MindSpeed-LLM, read in source",
    ),
    Runtime(
        name="nanotron",
        gradient_buffer="persistent",
        step_copies=2,
        summary="nanotron",
        axes=("tp", "sp", "pp", "cp", "ep"),
        schedules=("1f1b", "gpipe"),
        zero_stages=(0, 1),
        zero=0,
        precision="bf16-mixed-accumulate",
        activation="eager",
        qkv="fused",
        gate_up="fused",
        rotary="packed",
        embedding_mask="copy",
        loss="vocab-parallel-two-copies",
        sharding="partitioned",
        bucket_copy=True,
        reduce_bytes=25 * 2**20,
        bucket_tensors="each",
        gathered_slices=True,
        optimizer_step="fused",
        gather_buffers=2,
        pipeline_split="by-cost",
        kernels="eager",
        overlap_param_gather=False,
        tp_async=True,
        sharded_reduce="all-reduce",
        flash_attention=2,
        pipeline_host="waits",
        reserved="replay",
        source="nanotron, read in source; ultrascale playbook",
    ),
)

RUNTIMES: dict[str, Runtime] = {
    profile.name: profile for profile in (*_PROFILES, *NATIVE, *HUGGING_FACE)
}


def runtime(name: str, field: str = "runtime") -> Runtime:
    """The profile of that name.

    Raises:
        InputError: there is none.
    """
    try:
        return RUNTIMES[name.strip().lower()]
    except KeyError:
        raise InputError(
            field=field,
            value=name,
            problem="is not a runtime that is modelled",
            accepted=", ".join(RUNTIMES),
        ) from None

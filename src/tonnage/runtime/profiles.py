"""The stacks that Tonnage knows, each a row of habits."""

from __future__ import annotations

from tonnage.errors import InputError
from tonnage.runtime.runtime import Runtime

_PROFILES = (
    Runtime(
        name="megatron",
        gradient_buffer="persistent",
        routing="map",
        summary="Megatron-Core with Transformer Engine",
        axes=("tp", "sp", "pp", "vpp", "cp", "ep", "etp"),
        zero_stages=(0, 1),
        zero=1,
        precision="bf16-mixed",
        qkv="fused",
        loss="vocab-parallel",
        vocab_multiple=128,
        sharding="distributed-optimizer",
        optimizer_step="fused",
        attention_layout="sbhd",
        norm_in_linear=True,
        head_gather_buffer=True,
        attention_mask=True,
        placeholder_gradients=True,
        linear_workspaces=1,
        source="Megatron-LM core_v0.12 and Transformer Engine 2.x, read in source",
    ),
    Runtime(
        name="megatron-2022",
        gradient_buffer="persistent",
        summary="Megatron-LM as in arXiv 2205.05198: unfused attention, no Transformer Engine",
        axes=("tp", "sp", "pp", "vpp"),
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
        source="Korthikanti et al., arXiv 2205.05198, section 4; norm statistics neglected there",
    ),
    Runtime(
        name="nanotron",
        gradient_buffer="persistent",
        step_copies=2,
        summary="nanotron",
        axes=("tp", "sp", "pp", "cp", "ep"),
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
        optimizer_step="fused",
        gather_buffers=2,
        blocking_collectives="pipelines-across-nodes",
        pipeline_host="waits",
        reserved="replay",
        pipeline_split="by-cost",
        overlap_param_gather=False,
        source="nanotron, read in source; ultrascale playbook",
    ),
    Runtime(
        name="fsdp2",
        summary="PyTorch fully_shard, as torchtitan uses it",
        axes=("tp", "sp", "pp", "cp"),
        zero_stages=(2, 3),
        zero=3,
        precision="bf16-amp",
        activation="eager",
        loss="compiled",
        optimizer_step="fused",
        source="torch.distributed.fsdp.fully_shard and torchtitan, read in source",
    ),
    Runtime(
        name="ddp",
        autocast=True,
        summary="PyTorch DistributedDataParallel with Hugging Face modules",
        axes=(),
        zero_stages=(0,),
        zero=0,
        precision="bf16-amp",
        norm="eager",
        activation="eager",
        softmax="fp32",
        bucket_copy=True,
        overlap_param_gather=False,
        source="torch.nn.parallel.DistributedDataParallel; Hugging Face transformers",
    ),
    Runtime(
        name="transformers",
        autocast=True,
        shared_tensors=True,
        recompute_ends="early",
        summary="Hugging Face transformers on one device, eager modules, torch.optim",
        axes=(),
        zero_stages=(0,),
        zero=0,
        precision="bf16",
        norm="eager",
        activation="eager",
        softmax="fp32",
        overlap_grad_reduce=False,
        overlap_param_gather=False,
        source="transformers 5.24 and torch 2.13: the dry run holds these habits to the byte",
    ),
    Runtime(
        name="deepspeed",
        bucket_bytes=1_000_000_000,
        summary="DeepSpeed ZeRO with Hugging Face modules",
        axes=(),
        zero_stages=(0, 1, 2, 3),
        zero=2,
        precision="bf16-mixed-bf16-grads",
        norm="eager",
        activation="eager",
        softmax="fp32",
        sharding="partitioned",
        optimizer_step="fused",
        source="DeepSpeed ZeRO (arXiv 1910.02054); Hugging Face transformers",
    ),
)

RUNTIMES: dict[str, Runtime] = {profile.name: profile for profile in _PROFILES}


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

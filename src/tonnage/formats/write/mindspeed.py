"""MindSpeed-LLM on Ascend: Megatron-LM's script with the NPU's kernels.

https://gitee.com/ascend/MindSpeed-LLM
"""

from __future__ import annotations

from tonnage.formats.told import Told
from tonnage.formats.write.megatron import data_options, parallel_options, script, training_options
from tonnage.formats.write.megatron_constants import Options, mindspeed_scaling
from tonnage.formats.write.megatron_model import model_options

_ALGORITHMS = {"p2p": "megatron_cp_algo", "a2a": "ulysses_cp_algo"}


def write(told: Told) -> str:
    """The script."""
    kernels: Options = {"use-fused-rmsnorm": None, "use-fused-rotary-pos-emb": None}
    if told.choose("attention", flash=True, eager=False):
        kernels["use-flash-attn"] = None
    parallel = {**parallel_options(told), **_dualpipev(told)}
    exchange = parallel.pop("cp-comm-type", None)
    if exchange is not None:
        if exchange not in _ALGORITHMS:
            told.refuse("cp_comm", ", ".join(_ALGORITHMS))
        parallel["context-parallel-algo"] = _ALGORITHMS[str(exchange)]
    training = training_options(told, narrow=False)
    if training.pop("optimizer-cpu-offload", "absent") is None:
        if training.pop("optimizer-offload-fraction") != 1.0:
            told.refuse("offload_optimizer", "0 or 1")
        training["swap-optimizer"] = None
    sections = {
        "MODEL_ARGS": model_options(told, mindspeed_scaling),
        "PARALLEL_ARGS": parallel,
        "TRAINING_ARGS": {**training, **kernels},
        "DATA_ARGS": data_options(),
    }
    return script(told, sections, per_node="NPUS_PER_NODE", program="pretrain_gpt.py")


def _dualpipev(told: Told) -> Options:
    """DualPipeV, whose two chunks a stage no option of interleaving names.

    Raises:
        InputError: what MindSpeed's ``DualpipeVFeature`` does not let stand beside it.
    """
    plan = told.plan
    if plan.schedule != "dualpipev":
        return {}
    if plan.overlap_grad_reduce:
        told.refuse("overlap_grad_reduce", "false with dualpipev")
    if plan.cp > 1:
        told.refuse("cp", "1 with dualpipev")
    if told.architecture.tied_embeddings:
        told.refuse("schedule", "1f1b or interleaved: the embeddings are tied")
    if len(told.architecture.layers) % (2 * plan.pp):
        told.refuse("pp", "a number that divides half the layers, with dualpipev")
    return {"schedules-method": "dualpipev"}

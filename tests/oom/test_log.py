"""A log's first failure, its rank and its moment."""

import contextlib
import time
from pathlib import Path

import pytest

from tests.oom.test_message import HIP, MPS, PYTORCH_2_1, PYTORCH_2_5
from tonnage.errors import InputError
from tonnage.oom.log import LARGEST_LOG, failure, read_log
from tonnage.oom.message import MOST
from tonnage.quantity import GIB


def traceback(*frames: tuple[str, str, str], prefix: str = "") -> str:
    lines = ["Traceback (most recent call last):"]
    for file, name, code in frames:
        lines += [f'  File "{file}", line 12, in {name}', f"    {code}"]
    return "\n".join(f"{prefix}{line}" for line in lines)


MOMENTS = {
    "loss": ("torch/nn/functional.py", "cross_entropy", "return torch._C._nn.cross_entropy_loss("),
    "backward": ("torch/autograd/__init__.py", "backward", "_engine_run_backward("),
    "recomputation": ("torch/utils/checkpoint.py", "unpack_hook", "_run_fn_with_dynamo_disabled("),
    "optimizer step": ("torch/optim/adamw.py", "_multi_tensor_adamw", "torch._foreach_sqrt("),
    "gather of parameters": ("_fsdp/_fsdp_param_group.py", "unshard", "foreach_all_gather("),
    "load": ("transformers/modeling_utils.py", "from_pretrained", "model = cls(config)"),
    "forward": ("torch/nn/modules/linear.py", "forward", "return F.linear("),
    "setup of communication": ("c10d/__init__.py", "f", "dist.init_process_group('nccl')"),
    "start of a serving engine": ("vllm/worker.py", "determine_available_memory", "profile_run()"),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_traceback_says_the_moment(moment: str) -> None:
    text = traceback(("train.py", "main", "step()"), MOMENTS[moment]) + "\n" + PYTORCH_2_1
    assert failure(text).moment == moment


@pytest.mark.parametrize(
    ("name", "code", "moment"),
    [
        ("backward_step", "custom_backward(output_tensor[0], output_tensor_grad[0])", "backward"),
        ("forward_step", "output_tensor, loss_func = forward_step_func(...)", "forward"),
    ],
)
def test_the_schedule_of_megatron_says_the_moment(name: str, code: str, moment: str) -> None:
    text = traceback(("core/pipeline_parallel/schedules.py", name, code)) + "\n" + PYTORCH_2_1
    assert failure(text).moment == moment


def test_only_the_last_traceback_counts() -> None:
    text = "\n".join(
        (traceback(MOMENTS["optimizer step"]), "ValueError: x", traceback(MOMENTS["loss"]), HIP)
    )
    assert failure(text).moment == "loss"


def test_a_message_alone_has_no_moment() -> None:
    found = failure(PYTORCH_2_1)
    assert (found.moment, found.rank, found.times) == (None, None, 1)


def test_ranks_are_counted_and_the_first_is_told() -> None:
    lines = [f"[rank{rank}]: {PYTORCH_2_5}" for rank in (5, 1, 5)]
    found = failure("\n".join(lines))
    assert (found.rank, found.times, found.ranks) == (5, 3, 2)


def test_a_bare_message_does_not_hide_one_that_says_more() -> None:
    found = failure(f"RuntimeError: CUDA error: out of memory\n{MPS}")
    assert found.message is not None
    assert found.message.backend == "MPS"


NEEDED = (
    "ValueError: To serve at least one request with the models's max seq len (262144), (24.0 GiB "
    "KV cache is needed, which is larger than the available KV cache memory (3.18 GiB). Based on "
    "the available memory, the estimated maximum model length is 34736. Try increasing"
)
TOKENS = (
    "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that "
    "can be stored in KV cache (7344). Try increasing `gpu_memory_utilization`"
)
STARTUP = (
    "ValueError: Free memory on device (14.3/22.06 GiB) on startup is less than desired GPU memory "
    "utilization (0.9, 19.85 GiB). Decrease GPU memory utilization"
)
NOTHING = "ValueError: No available memory for the cache blocks. Try increasing"


def test_a_serving_engine_says_what_its_cache_lacks() -> None:
    shortage = failure(NEEDED).shortage
    assert shortage is not None
    assert (shortage.needed, shortage.available) == (24 * GIB, round(3.18 * GIB))
    assert (shortage.asked_tokens, shortage.possible_tokens) == (262144, 34736)
    older = failure(NEEDED.split(". Based")[0]).shortage
    assert older is not None
    assert older.possible_tokens == int(262144 * 3.18 / 24)


@pytest.mark.parametrize(
    ("text", "asked", "possible", "available"),
    [
        (TOKENS, 32768, 7344, None),
        (STARTUP, None, None, round(14.3 * GIB)),
        (NOTHING, None, None, 0),
    ],
)
def test_other_checks_of_a_serving_engine(
    text: str, asked: int | None, possible: int | None, available: int | None
) -> None:
    shortage = failure(text).shortage
    assert shortage is not None
    assert (shortage.asked_tokens, shortage.possible_tokens) == (asked, possible)
    assert shortage.available == available


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("all is well", ""),
        ("torch.distributed.elastic: exitcode: -9 (pid: 7)", "host memory"),
        ("CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate", "workspace"),
    ],
)
def test_a_log_without_a_message_is_one_error(text: str, hint: str) -> None:
    with pytest.raises(InputError, match="no out-of-memory message") as raised:
        failure(text)
    assert hint in raised.value.hint


def test_a_log_of_any_bytes_and_any_length_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"\xff\x00\n" + PYTORCH_2_1.encode() + b"\n" * LARGEST_LOG)
    found = read_log(str(log))
    assert found.truncated
    assert found.message is not None
    with pytest.raises(InputError, match="cannot be read"):
        read_log(str(tmp_path / "none"))


@pytest.mark.parametrize(
    "noise", ["CUDA out of memory. ", "Tried to allocate ", "xxxxxxxxxx\n", "Killed? -9 "]
)
def test_a_log_of_any_size_is_read_in_moments(noise: str) -> None:
    text = noise * 500_000
    begun = time.process_time()
    with contextlib.suppress(InputError):
        assert failure(text).times <= MOST
    assert time.process_time() - begun < 5


def test_messages_beyond_what_is_read_are_owned_up_to() -> None:
    assert failure("CUDA out of memory.\n" * (MOST + 1)).truncated
    assert not failure("CUDA out of memory.\n" * 3).truncated

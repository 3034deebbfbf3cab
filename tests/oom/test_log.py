"""A log's first failure, its rank and its moment."""

import contextlib
from pathlib import Path

import pytest

from tests.oom.test_message import HIP, MPS, PYTORCH_2_1, PYTORCH_2_5
from tonnage.errors import InputError
from tonnage.oom.diagnosis import diagnose
from tonnage.oom.log import NoFailureError, failure, read_log
from tonnage.oom.message import MOST
from tonnage.oom.text import CHUNK
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


SGLANG = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
TENSORRT = (
    "[RANK 1] [E] Failed to initialize executor on rank 1: Executor creation failed due to "
    "insufficient GPU memory.\n\nThe following component could not be created: KV cache\n"
    "Total GPU memory (GiB): 140.06\nFree GPU memory before component creation attempt (GiB): 9.50"
)
SAMPLER = (
    "RuntimeError: CUDA out of memory occurred when warming up sampler with 512 dummy requests."
)


@pytest.mark.parametrize(
    ("text", "engine", "first"),
    [
        (NEEDED, "vLLM", "--max-model-len 34736"),
        (STARTUP, "vLLM", "stop what holds 7.76 GiB"),
        (NOTHING, "vLLM", "raise --gpu-memory-utilization"),
        (SAMPLER, "vLLM", "--max-num-seqs 128"),
        (SGLANG, "SGLang", "raise --mem-fraction-static"),
        (TENSORRT, "TensorRT-LLM", "lower kv_cache_config.free_gpu_memory_fraction"),
    ],
)
def test_what_to_do_is_in_the_words_of_the_engine(text: str, engine: str, first: str) -> None:
    found = diagnose(failure(text))
    assert found.failure.shortage is not None
    assert found.failure.shortage.engine == engine
    assert found.advice[0].startswith(first)


def test_a_share_that_is_free_is_told_and_none_larger() -> None:
    lines = diagnose(failure(STARTUP)).advice
    assert any("--gpu-memory-utilization 0.64 " in line for line in lines)
    assert not any("raise" in line for line in lines)


def test_a_check_counts_once_though_its_line_of_code_is_shown() -> None:
    assert (
        failure(f'    raise ValueError("No available memory for the cache"\n{NOTHING}').times == 1
    )


def test_a_message_that_a_terminal_broke_is_read() -> None:
    broken = failure(NEEDED.replace("KV cache is", "KV cach\ne is")).shortage
    assert broken is not None
    assert broken.needed == 24 * GIB


def test_a_log_without_a_message_is_one_error() -> None:
    with pytest.raises(NoFailureError, match="tells of no memory that ran out") as raised:
        failure("all is well")
    assert raised.value.exit_code == 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_a_log_of_any_encoding_is_read(encoding: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(f"step 1\n{PYTORCH_2_1}\n{PYTORCH_2_1}\n".encode(encoding))
    found = read_log(str(log))
    assert found.message is not None
    assert (found.message.tried, found.times) == (3 * GIB, 2)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        bytes(range(256)) * 64,
        b"\x7fELF\x02\x01\x01" + bytes(4000),
    ],
)
def test_what_is_no_log_is_a_usage_error(content: bytes, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(content)
    with pytest.raises(InputError, match=r"is empty|is no text") as raised:
        read_log(str(log))
    assert raised.value.exit_code == 2


def test_what_cannot_be_opened_is_a_usage_error(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(InputError, match="cannot be read") as raised:
            read_log(str(path))
        assert raised.value.exit_code == 2


@pytest.mark.parametrize("before", [0, CHUNK - 200, CHUNK - 20, CHUNK, 2 * CHUNK + 7])
def test_a_message_anywhere_in_a_long_log_is_read_once(before: int, tmp_path: Path) -> None:
    log, line = tmp_path / "log", b"iteration 1 | memory (MB) 7\n"
    text = traceback(MOMENTS["loss"]).encode() + b"\n" + PYTORCH_2_1.encode()
    head = (line * (before // len(line) + 1))[:before] + b"\xff\n"
    log.write_bytes(head + text + b"\n" + line * 100_000)
    found = read_log(str(log))
    assert found.message is not None
    assert (found.message.tried, found.times, found.moment) == (3 * GIB, 1, "loss")
    assert not found.truncated


PREFIXES = {
    "[rank3]: ": 3,
    "\x1b[31m\x1b[1m[rank3]\x1b[0m: ": 3,
    "2025-01-01T00:00:00.123Z node-3 [default7]:": 7,
    "(VllmWorker rank=1 pid=2978) ERROR 03-19 07:27:53 [multiproc_executor.py:375] ": 1,
    "[2024-11-20 16:40:55 TP2] ": 2,
    "[07/08/2025-19:47:15] [TRT-LLM] [RANK 1] [E] ": 1,
    "[1,5]<stderr>:": 5,
    "3: ": 3,
    "[7]:": 7,
    '{"log":"[rank4]: ': 4,
    "[rank: 6] ": 6,
    " 12%|# | 120/1000 [02:11<15:58,  1.09s/it]\r": None,
    "(TrainActor pid=123, ip=10.0.0.2) ": None,
    "local_rank: 0 ": None,
}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_rank_is_read_from_what_a_launcher_writes_before_a_line(prefix: str) -> None:
    found = failure(f"{prefix}{PYTORCH_2_5}")
    assert found.rank == PREFIXES[prefix]
    assert found.message is not None
    assert found.message.device_index == 1


def test_ranks_that_write_into_each_other_are_told_apart() -> None:
    one = traceback(MOMENTS["backward"], prefix="[rank1]: ").split("\n")
    two = traceback(MOMENTS["optimizer step"], prefix="[rank2]: ").split("\n")
    lines = [line for pair in zip(one, two, strict=True) for line in pair]
    found = failure("\n".join([*lines, f"[rank1]: {PYTORCH_2_1}", f"[rank2]: {PYTORCH_2_1}"]))
    assert (found.rank, found.moment, found.ranks) == (1, "backward", 2)


STEP = ("lightning/trainer.py", "step", "self.optimizer.step(closure)")


@pytest.mark.parametrize(
    ("frames", "moment"),
    [
        ([STEP, MOMENTS["forward"]], "forward"),
        ([STEP, MOMENTS["backward"]], "backward"),
        ([MOMENTS["backward"], MOMENTS["recomputation"], MOMENTS["forward"]], "recomputation"),
        ([MOMENTS["forward"], MOMENTS["gather of parameters"]], "gather of parameters"),
        (
            [MOMENTS["start of a serving engine"], MOMENTS["forward"]],
            "start of a serving engine",
        ),
    ],
)
def test_the_deepest_frame_decides_unless_another_runs_a_forward_pass(
    frames: list[tuple[str, str, str]], moment: str
) -> None:
    assert failure(traceback(*frames) + "\n" + PYTORCH_2_1).moment == moment


def test_frames_as_rich_and_notebooks_print_them() -> None:
    rich = "│ C:\\venv\\lib\\torch\\optim\\adamw.py:566 in _multi_tensor_adamw    │\n"
    notebook = "File /x/torch/optim/adamw.py:606, in _multi_tensor_adamw(params, grads)\n"
    for text in (rich, notebook):
        found = failure(text + PYTORCH_2_1)
        assert found.moment == "optimizer step"
        assert found.frame.startswith("optim/adamw.py:")


def test_the_deepest_frame_is_shown_with_its_code() -> None:
    text = traceback(("train.py", "main", "step()"), MOMENTS["optimizer step"])
    assert failure(f"{text}\n{PYTORCH_2_1}").frame == (
        "optim/adamw.py:12 in _multi_tensor_adamw: torch._foreach_sqrt("
    )


@pytest.mark.parametrize(
    "noise", ["CUDA out of memory. ", "Tried to allocate ", "xxxxxxxxxx\n", "Killed? -9 "]
)
def test_a_log_of_nothing_but_noise_is_read_and_bounded(noise: str) -> None:
    with contextlib.suppress(InputError):
        assert failure(noise * 100_000).times <= MOST


def test_messages_beyond_what_is_read_are_owned_up_to() -> None:
    assert failure("CUDA out of memory.\n" * (MOST + 1)).truncated
    assert not failure("CUDA out of memory.\n" * 3).truncated

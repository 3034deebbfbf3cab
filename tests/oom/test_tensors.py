"""Known tensors of known runs are named from the figure that a message prints."""

import pytest

from tonnage import Plan, load, parse_cluster
from tonnage.ledger import stage_ledgers
from tonnage.oom.log import failure
from tonnage.oom.suspects import Suspect, suspects
from tonnage.plan import resolve

LLAMA = load("llama-3.1-8b")
NODE = parse_cluster("8xH100")


def named(plan: Plan, size: str, moment: str, text: str = "") -> tuple[Suspect, ...]:
    text = text or f"CUDA out of memory. Tried to allocate {size}. GPU 0 has a total capacity of"
    resolved = resolve(plan, LLAMA, NODE)
    ledgers = stage_ledgers(resolved.setting, resolved.stages)
    message = failure(text).message
    assert message is not None
    return suspects(resolved.setting, ledgers, message, moment)


EAGER = Plan(runtime="transformers", mbs=1, seq=4096, attention="eager")
LONG = Plan(runtime="transformers", mbs=1, seq=8192)
FSDP = Plan(runtime="fsdp2", zero=3, mbs=1, seq=8192)
MEGATRON = Plan(runtime="megatron", tp=2, mbs=1, seq=8192)


@pytest.mark.parametrize(
    ("plan", "size", "moment", "name"),
    [
        # 8,192 tokens x 128,256 words x 4 bytes
        (LONG, "3.91 GiB", "loss", "loss.logits_fp32"),
        (LONG, "3.91 GiB", "backward", "gradient of loss.logits_fp32"),
        (LONG, "1.96 GiB", "forward", "logits"),
        (MEGATRON, "1.96 GiB", "loss", "loss.softmax"),
        # 32 heads x 4,096 x 4,096, in bf16 and in fp32
        (EAGER, "1024.00 MiB", "forward", "attention.scores"),
        (EAGER, "2.00 GiB", "forward", "attention.probabilities_fp32"),
        (EAGER, "2.00 GiB", "recomputation", "attention.probabilities_fp32"),
        # AdamW's foreach temporaries: a weight in bf16, and an eighth of it in fp32
        (LONG, "112.00 MiB", "optimizer step", "moment or temporary of mlp.up.weight"),
        (LONG, "1002.00 MiB", "optimizer step", "moment or temporary of embedding.weight"),
        (FSDP, "28.00 MiB", "optimizer step", "moment or temporary of mlp.up.weight"),
        (FSDP, "252.00 MiB", "optimizer step", "moment or temporary of embedding.weight"),
        # A layer has 218,112,000 parameters
        (FSDP, "418.00 MiB", "gather of parameters", "parameters of a layer, gathered"),
        (FSDP, "834.00 MiB", "backward", "gradients of a layer, to be reduced"),
        (FSDP, "106.00 MiB", "backward", "reduced gradients of a layer"),
        (FSDP, "1002.00 MiB", "backward", "gradient of embedding.weight"),
    ],
)
def test_a_known_size_names_its_tensor(plan: Plan, size: str, moment: str, name: str) -> None:
    assert name in [each.name for each in named(plan, size, moment)]


def test_tensors_of_the_moment_come_first() -> None:
    found = named(LONG, "3.91 GiB", "backward")
    assert {each.moment for each in found} == {"loss", "backward"}
    assert found[0].moment == "backward"


@pytest.mark.parametrize("size", ["3.90 GiB", "3.92 GiB", "4.00 GiB"])
def test_a_figure_off_by_its_last_digit_names_nobody(size: str) -> None:
    assert not any("logits" in each.name for each in named(LONG, size, "loss"))


def test_a_softmax_that_is_overwritten_has_no_gradient_of_its_own() -> None:
    found = named(MEGATRON, "1.96 GiB", "backward")
    assert "gradient of loss.softmax" not in [each.name for each in found]


def test_an_allocator_without_segments_is_asked_for_the_tensor_itself() -> None:
    size = 218_112_000 * 2
    text = f"RESOURCE_EXHAUSTED: Out of memory while trying to allocate {size} bytes."
    found = named(FSDP, "", "gather of parameters", text)
    assert "parameters of a layer, gathered" in [each.name for each in found]
    assert found[0].segment == size

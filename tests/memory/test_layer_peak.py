"""The peak inside one rebuilt layer of the Hugging Face stacks, in bytes a token.

Read from measured peaks of Llama-shaped layers (f = 3.5 h, a quarter as many key heads), where
they hold to 0.01 %: the multiplication's backward, after that of the down projection.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.plan.strategies import cluster, layer, model
from tonnage.arch import MLP, Attention
from tonnage.ledger import stage_ledgers
from tonnage.memory.activations import transients
from tonnage.plan import Plan, resolve

HIDDEN, HEADS, RANK = 4096, 32, 16
STATISTICS = 4 * HEADS + 2 * 4
"""Log-sum-exps of attention and the statistics of two norms, fp32."""

LLAMA = model(
    "llama",
    *[
        layer(
            Attention(heads=HEADS, kv_heads=8, head_dim=128),
            MLP(intermediate=14336, gated=True, activation="silu"),
        )
    ],
)
QKVO = ("q_proj", "k_proj", "v_proj", "o_proj")


def peak(habits: dict[str, str], **plan: Any) -> float:
    """Bytes a token of everything alive in the layer's backward, its own input left out."""
    reentrant = {"rebuilt_output": "true", "recompute_ends": "whole", **habits}
    run = Plan(
        runtime="transformers",
        habits=tuple(reentrant.items()),
        precision="bf16",
        recompute="full",
        **plan,
    )
    wide = dataclasses.replace(LLAMA, hidden=HIDDEN)
    found = []
    for tokens in (16384, 32768):
        resolved = resolve(dataclasses.replace(run, seq=tokens), wide, cluster(1))
        (ledger,) = stage_ledgers(resolved.setting, resolved.stages)
        found.append(int(transients(resolved.setting, ledger).backward))
    return (found[1] - found[0]) / 16384


ADAPTED = {"lora_rank": RANK, "lora_targets": QKVO, "lora_dropout": 0.1}
INNER = 4 * 2 * RANK
"""What four adapters keep between their two products, in 16 bits."""


@pytest.mark.parametrize(
    ("habits", "plan", "widths", "rest"),
    [
        ({"norm": "fused"}, {}, 57, STATISTICS),
        ({"norm": "eager"}, {}, 67, STATISTICS),
        ({"norm": "fused"}, ADAPTED, 65, STATISTICS + INNER),
        ({"norm": "eager"}, ADAPTED, 71, STATISTICS + INNER),
        ({"norm": "fused", "adapter_kernel": "fused"}, ADAPTED, 63, STATISTICS + INNER),
        # Without autocast adapters keep what they read in fp32; over FSDP1 the gradient that
        # enters the first layer (2 h) counts with those that its hooks retain.
        ({"norm": "fused", "autocast": "false"}, ADAPTED, 73, STATISTICS + 2 * INNER),
        ({"norm": "eager", "autocast": "false"}, ADAPTED, 79, STATISTICS + 2 * INNER),
    ],
)
def test_bytes_a_token(
    habits: dict[str, str], plan: dict[str, Any], widths: int, rest: int
) -> None:
    assert peak(habits, **plan) == widths * HIDDEN + rest


def test_a_checkpoint_that_stops_early_lacks_the_output() -> None:
    whole = peak({"norm": "fused"})
    early = peak({"norm": "fused", "rebuilt_output": "false", "recompute_ends": "early"})
    assert whole - early == 2 * HIDDEN


def test_a_quantised_base_changes_no_activation() -> None:
    assert peak({"norm": "fused"}, **ADAPTED) == peak(
        {"norm": "fused"}, **ADAPTED, lora_base="nf4-dq"
    )

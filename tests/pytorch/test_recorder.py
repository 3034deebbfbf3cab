"""What the recorder sees of plain PyTorch, counted by hand."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from tonnage.errors import NotModelledError
from tonnage.pytorch import Trace, record


def test_an_allocation_a_view_and_a_release() -> None:
    with record() as recorder:
        first = torch.empty(1000)
        view = first.view(10, 100)
        second = view + 1
        del first, view
        third = torch.empty(500)
        trace = recorder.trace()
        del second, third
    assert [a.bytes for a in trace.allocations] == [4000, 4000, 2000]
    assert [a.died is None for a in trace.allocations] == [False, True, True]
    assert trace.peak.bytes == 8000
    assert trace.levels[-1][1] == 6000


def test_what_autograd_keeps_is_kept_by_the_module_that_reads_it() -> None:
    with record() as recorder:
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        recorder.adopt_module(model)
        batch = torch.empty(3, 4)
        recorder.adopt([batch], "input")
        model(batch).sum().backward()
        trace = recorder.trace()
    # The first linear keeps the input, which is no activation; ReLU keeps what it returns,
    # which the second linear keeps too.
    assert trace.saved_by() == {"Sequential.1": 3 * 8 * 4}
    assert trace.most_of("parameter") == trace.most_of("gradient") == 4 * (4 * 8 + 8 + 8 * 2 + 2)
    assert trace.most_of("input") == 3 * 4 * 4


def test_a_loss_outside_of_modules_keeps_what_it_keeps() -> None:
    with record() as recorder:
        logits = torch.nn.Linear(4, 10)(torch.empty(3, 4))
        labels = torch.zeros(3, dtype=torch.long)
        torch.nn.functional.cross_entropy(logits, labels).backward()
        trace = recorder.trace()
    kept = [(a.bytes, a.operator) for a in trace.saved() if "softmax" in a.operator]
    assert kept == [(4 * 3 * 10, "aten._log_softmax.default")]


def test_flops_belong_to_the_module_that_made_the_product() -> None:
    with record() as recorder:
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
        model(torch.empty(3, 4)).sum().backward()
        trace = recorder.trace()
    assert trace.flops == {
        ("Sequential.0", "forward"): 2 * 3 * 4 * 8,
        ("Sequential.1", "forward"): 2 * 3 * 8 * 2,
        ("Sequential.1", "backward"): 2 * 2 * 3 * 8 * 2,
        # The input needs no gradient.
        ("Sequential.0", "backward"): 2 * 3 * 4 * 8,
    }


def steps(optimizer: str) -> Trace:
    with record() as recorder:
        model = torch.nn.Linear(30, 40, bias=False)
        recorder.adopt_module(model)
        made = getattr(torch.optim, optimizer)(model.parameters())
        for _ in range(2):
            model(torch.empty(1, 30)).sum().backward()
            made.step()
            made.zero_grad()
        return recorder.trace()


@pytest.mark.parametrize(("optimizer", "moments"), [("SGD", 0), ("Adam", 2), ("AdamW", 2)])
def test_states_of_an_optimizer(optimizer: str, moments: int) -> None:
    trace = steps(optimizer)
    weights = 4 * 30 * 40
    assert trace.most_of("optimizer state") == moments * weights
    assert trace.most_of("parameter") == trace.most_of("gradient") == weights
    assert {"forward", "backward", "step"} <= set(trace.phases_seen)


def test_a_convolution_and_a_norm() -> None:
    with record() as recorder:
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU()
        )
        recorder.adopt_module(model)
        model(torch.empty(2, 3, 8, 8)).sum().backward()
        trace = recorder.trace()
    pixels = 4 * 2 * 16 * 8 * 8
    saved = trace.saved_by()
    assert saved["Sequential.1"] == pixels + 2 * 16 * 4  # input, mean and deviation
    assert saved["Sequential.2"] == pixels
    assert trace.total_flops(["forward"]) == 2 * 2 * 16 * 8 * 8 * 3 * 3 * 3


def test_recomputation_is_a_part_of_the_step() -> None:
    with record() as recorder:
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
        batch = torch.empty(4, 8, requires_grad=True)
        kept = torch.utils.checkpoint.checkpoint(
            model, batch, use_reentrant=False, preserve_rng_state=False
        )
        kept.sum().backward()
        trace = recorder.trace()
    assert trace.total_flops(["recompute"]) == 2 * 4 * 8 * 8  # not the last product
    assert "Sequential.1" not in trace.saved_by()


def test_a_branch_on_a_value_is_refused() -> None:
    with record(), pytest.raises(NotModelledError, match="fake tensors have none"):
        int(torch.zeros(3, dtype=torch.long).argmax())


def test_a_logged_loss_is_noted() -> None:
    with record() as recorder:
        assert torch.zeros(3).sum().item() == 0.0
        assert recorder.trace().notes == (
            "a floating-point number read from a tensor is taken as 0",
        )


def test_real_tensors_are_recorded_too() -> None:
    with record(fake=False) as recorder:
        kept = torch.ones(8) * 2
        trace = recorder.trace()
    assert kept.sum() == 16
    assert trace.peak.bytes == 2 * 32

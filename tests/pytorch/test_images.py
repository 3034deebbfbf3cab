"""Dry runs of image models: against real ones, and what layouts in memory cost them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.cli.running import run
from tests.pytorch import images
from tonnage.pytorch import dry_run_file

FILE = Path(images.__file__)
PIXELS = images.BATCH * images.SIDE**2
THROUGH = 4 * 16 * PIXELS
"""Bytes of a tensor of 16 channels."""


def really_run(model: torch.nn.Module) -> tuple[int, int, int]:
    """FLOPs of a real step, bytes saved beside model and batch, bytes of parameters."""
    kept: dict[int, int] = {}
    batch = images.images()
    others = (*model.parameters(), *model.buffers(), batch)
    apart = {tensor.untyped_storage().data_ptr() for tensor in others}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in apart:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with FlopCounterMode(display=False) as counter:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            value = images.loss(model(batch))
        saved = sum(kept.values())
        value.backward()
    return counter.get_total_flops(), saved, sum(w.nbytes for w in model.parameters())


@pytest.mark.parametrize(
    ("name", "model"), [("cnn", images.convolutional), ("vit", images.VisionTransformer)]
)
def test_a_dry_run_is_what_a_real_step_does(name: str, model: type[torch.nn.Module]) -> None:
    flops, saved, weights = really_run(model())
    trace = dry_run_file(f"{FILE}:{name}", steps=1).trace
    assert trace.total_flops() == flops
    assert trace.most_of("parameter") == trace.most_of("gradient") == weights
    # The loss itself is alive as well when backward begins.
    assert sum(a.bytes for a in trace.saved()) == saved + 4


def test_a_plain_network_in_one_layout_copies_nothing() -> None:
    for layout in ("channels_last", "contiguous", "preserve"):
        assert dry_run_file(f"{FILE}:cnn", memory_format=layout).copies == ()


def test_a_layout_that_is_lost_is_copied_back() -> None:
    """Rows of pixels are put in order; the second convolution wants the layout of its weight."""
    copies = dry_run_file(f"{FILE}:through", memory_format="channels_last").copies
    assert copies is not None
    forward = [(c.operator, c.module, c.layout, c.bytes) for c in copies if c.module]
    assert forward == [
        ("aten.clone", "Through", "contiguous", THROUGH),
        ("aten.convolution", "Through.after", "channels_last", THROUGH),
    ]
    backward = [c for c in copies if not c.module]
    assert {c.layout for c in backward} == {"channels_last"}
    assert dry_run_file(f"{FILE}:through", memory_format="contiguous").copies == ()


def test_the_report_says_what_is_copied() -> None:
    done = run("dryrun", f"{FILE}:through", "--memory-format", "channels_last")
    assert done.code == 0
    assert "Copied to change layout" in done.out
    answer = run("dryrun", f"{FILE}:cnn", "--memory-format", "preserve", "--json").json()
    assert answer["layout_copies"] == []
    assert answer["allocator"]["reserved"] >= answer["allocator"]["allocated"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("hidden", "channels_last", "1xH100"), "returns (model, batch, loss)"),
        (("cnn", "channels_last", "1xAscend-910B3"), "torch_npu takes contiguous_format"),
        (("cnn", "channels_last", "1xAscend-910B3"), "leave the model contiguous"),
    ],
)
def test_a_layout_that_cannot_be_had(words: tuple[str, str, str], said: str) -> None:
    name, layout, gpus = words
    done = run("dryrun", f"{FILE}:{name}", "--memory-format", layout, "--gpus", gpus)
    assert done.code == 2
    assert said in " ".join(done.err.split())


def test_a_language_model_has_no_images() -> None:
    done = run("dryrun", "qwen3-0.6b", "--memory-format", "contiguous")
    assert done.code == 2
    assert "has no images" in " ".join(done.err.split())

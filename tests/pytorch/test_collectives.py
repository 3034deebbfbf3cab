"""Collectives are recorded through a process group that sends nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from torch import distributed
from torch.testing._internal.distributed.fake_pg import FakeStore

from tonnage.pytorch import CollectiveCall, record

RANKS = 4


@pytest.fixture(autouse=True)
def group() -> Iterator[None]:
    distributed.init_process_group("fake", rank=0, world_size=RANKS, store=FakeStore())
    yield
    distributed.destroy_process_group()


def recorded(kind: str) -> CollectiveCall:
    with record() as recorder:
        shard, whole = torch.empty(10), torch.empty(10 * RANKS)
        if kind == "all_reduce":
            distributed.all_reduce(whole)
        elif kind == "all_gather":
            distributed.all_gather_single(whole, shard)
        elif kind == "reduce_scatter":
            distributed.reduce_scatter_single(shard, whole)
        else:
            distributed.all_to_all_single(whole, torch.empty_like(whole))
        (call,) = recorder.trace().collectives
    return call


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
def test_a_collective_states_the_full_tensor(kind: str) -> None:
    call = recorded(kind)
    assert (call.kind, call.bytes, call.group) == (kind, 4 * 10 * RANKS, RANKS)

"""Packed documents attend to themselves."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.plan.strategies import DENSE, cluster
from tonnage.ledger import saved_bytes, sequence_flops
from tonnage.ledger.layer import layer_operations
from tonnage.ledger.pairs import Sight, twice_pairs
from tonnage.plan import Plan, Setting, resolve


def setting(**plan: Any) -> Setting:
    return resolve(Plan(**plan), DENSE, cluster(1)).setting


@given(st.integers(1, 300), st.integers(1, 300), st.booleans())
def test_pairs_are_those_of_pieces(seq: int, document: int, causal: bool) -> None:
    packed = setting(seq=seq, packing=True, document=document)
    pieces = twice_pairs(setting(seq=seq), Sight(causal=causal, chunk=document))
    assert twice_pairs(packed, Sight(causal=causal)) == pieces


@given(st.integers(1, 8), st.integers(1, 64), st.sampled_from([None, 7, 32]))
def test_whole_documents_are_sequences_of_their_own(
    count: int, document: int, window: int | None
) -> None:
    sight = Sight(window=window)
    packed = setting(seq=count * document, packing=True, document=document)
    assert twice_pairs(packed, sight) == count * twice_pairs(setting(seq=document), sight)


def test_packing_saves_flops_and_keeps_the_same_tensors() -> None:
    plain = setting(seq=256)
    packed = setting(seq=256, packing=True, document=64)
    stages = resolve(Plan(seq=256), DENSE, cluster(1)).stages
    whole, short = (sequence_flops(s, stages, causal=True).model for s in (plain, packed))
    # Half squares of 256² and 4 · 64², 12 FLOPs a pair and width of the heads, 8 layers.
    assert whole - short == 8 * 12 * 8 * 16 * (256**2 - 4 * 64**2) // 2
    each = [saved_bytes(s, layer_operations(s, DENSE.layers[0])) for s in (plain, packed)]
    assert each[0] == each[1]


def test_documents_of_unknown_length_may_fill_the_sequence() -> None:
    assert twice_pairs(setting(seq=128, packing=True), Sight()) == twice_pairs(
        setting(seq=128), Sight()
    )

"""The rotary embedding, and the copies of queries, keys and values made on the way to it."""

from __future__ import annotations

from typing import TypeAlias

from tonnage.arch import Attention
from tonnage.ledger.operation import Operation, Operations, Tensor
from tonnage.plan import Setting

Heads: TypeAlias = tuple[Tensor, Tensor, Tensor]


def rotary(setting: Setting, spec: Attention, heads: Heads) -> tuple[Operations, Heads]:
    """Turn queries and keys by their positions (Su et al., arXiv 2104.09864).

    * ``out-of-place``: turned queries and keys are new tensors.
    * ``packed``: `_packed`.
    """
    if not spec.rope:
        return (), heads
    own = "q" if spec.shares_kv else "qk"
    if setting.runtime.rotary == "packed" and not spec.shares_kv and not spec.keys_as_values:
        return _packed(setting, spec, heads)
    named = dict(zip("qkv", heads, strict=True))
    before = tuple(named[letter] for letter in own)
    for letter in own:
        named[letter] = named[letter].cast(f"attention.{letter}_rotated", setting.format)
    after = tuple(named[letter] for letter in own)
    turn = Operation(name="attention.rope", kind="elementwise", inputs=before, outputs=after)
    return (turn,), (named["q"], named["k"], named["v"])


def _packed(setting: Setting, spec: Attention, heads: Heads) -> tuple[Operations, Heads]:
    """As FlashAttention's Triton kernel wants them: keys and values in one tensor.

    The projection is permuted into a copy. Keys and values are joined and made contiguous,
    and the keys turned in place; turned queries are a new tensor. A second copy of keys and
    values is kept (nanotron; seen in measured memory, its cause is not known).
    """

    def named(suffix: str, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(tensor.cast(f"{tensor.name}_{suffix}", setting.format) for tensor in tensors)

    def move(
        name: str, reads: tuple[Tensor, ...], writes: tuple[Tensor, ...], *, views: bool = True
    ) -> Operation:
        return Operation(
            name=f"attention.{name}",
            kind="elementwise",
            inputs=reads,
            outputs=writes,
            outputs_joined=views and len(writes) > 1,
            passes_gradient=name.startswith("kv"),
            moves=name.startswith("kv"),
        )

    permuted = named("permuted", heads)
    joined, packed, copies = (named(part, heads[1:]) for part in ("joined", "packed", "copy"))
    query = heads[0].cast("attention.q_rotated", setting.format)
    same_width = spec.heads == spec.kv_heads
    permute = Operation(
        name="attention.permute",
        kind="elementwise",
        inputs=heads,
        outputs=permuted,
        outputs_joined=same_width,
        gradients_joined=True,
        moves=True,
    )
    keep = Operation(
        name="attention.kv_copy",
        kind="elementwise",
        inputs=packed,
        outputs=copies,
        saves=copies,
        outputs_joined=True,
        moves=True,
    )
    operations = (
        permute,
        move("kv_join", permuted[1:], joined),
        move("kv_pack", joined, packed),
        move("rope", permuted[:1], (query,)),
        keep,
    )
    return operations, (query, packed[0], packed[1])

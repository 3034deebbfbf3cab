"""The key-value cache of a serving engine, by the model that it serves."""

from __future__ import annotations

import dataclasses

from tonnage.ledger.decode import decode_operations, decodes
from tonnage.oom.serving import CacheShortage
from tonnage.oom.suspects import Suspect
from tonnage.plan import Setting


def cache_bytes(setting: Setting, tokens: int) -> int | None:
    """Bytes of keys and values of one sequence on a rank; None where a mixer is not modelled.

    Args:
        setting: the model and how it is split.
        tokens: in the cache.
    """
    layers = setting.architecture.layers
    if not all(decodes(layer) for layer in layers):
        return None
    one = dataclasses.replace(setting, seq=tokens, mbs=1)
    held = 0
    for layer in layers:
        cores = (op for op in decode_operations(one, layer) if op.kind == "attention")
        held += sum(int(tensor.bytes) for core in cores for tensor in core.inputs[1:])
    return held


def cache_suspects(setting: Setting, shortage: CacheShortage) -> tuple[Suspect, ...]:
    """The cache of one request of full length, and of one token."""
    found = []
    for tokens in (shortage.asked_tokens, 1):
        size = cache_bytes(setting, tokens) if tokens else None
        if size is not None:
            name = f"key-value cache of {tokens:,} token{'s' if tokens != 1 else ''}"
            found.append(
                Suspect(
                    name=name,
                    moment="start of a serving engine",
                    bytes=size,
                    segment=size,
                    stages=(0,),
                )
            )
    return tuple(found)

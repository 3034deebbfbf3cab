"""What all layers of a stage read and none of them owns: rotary tables, masks, positions."""

from __future__ import annotations

from tonnage.algebra import Number
from tonnage.arch import Attention, LatentAttention
from tonnage.ledger.operation import Tensor
from tonnage.plan import Setting


def shared_tensors(setting: Setting) -> tuple[Tensor, ...]:
    """The tensors that one micro-batch keeps once, however many layers read them.

    A stack that makes them in the model's forward pass keeps cosines and sines for the
    rotary embeddings' backward. A checkpointed layer keeps its arguments, and so positions
    and, for unfused attention, the masks: one for each width of window.
    """
    if not setting.runtime.shared_tensors:
        return ()
    full = setting.plan.recompute == "full"
    architecture = setting.architecture
    mixers = [layer.mixer for layer in architecture.layers]
    kept: list[Tensor] = []
    for width in sorted({_rotary_width(mixer) for mixer in mixers} - {0}):
        kept.append(_table(f"rotary.{width}", 2 * setting.seq * width, setting.stream))
    if full or architecture.learned_positions:
        # int64: two words of four bytes.
        kept.append(_table("positions", 2 * setting.seq, "fp32"))
    if full and setting.plan.attention == "eager":
        pairs = setting.mbs * setting.seq * setting.seq
        windows = {mixer.window for mixer in mixers if isinstance(mixer, Attention)} or {None}
        kept += [_table(f"mask.{window}", pairs, setting.stream) for window in windows]
    return tuple(kept)


def _table(name: str, elements: Number, number_format: str) -> Tensor:
    return Tensor(name=f"shared.{name}", elements=elements, format=number_format)


def _rotary_width(mixer: object) -> int:
    """Elements of a head that positions turn."""
    if isinstance(mixer, LatentAttention):
        return mixer.rope_head_dim
    if isinstance(mixer, Attention) and mixer.rope:
        return int(mixer.head_dim * mixer.rope_fraction)
    return 0

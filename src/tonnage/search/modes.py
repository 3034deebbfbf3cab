"""What can be recomputed of the activations, and how deep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from tonnage.arch import MLP, Architecture, LatentAttention
from tonnage.search.question import Question

Mode: TypeAlias = dict[str, Any]
"""The fields of a plan that say what is recomputed."""

AWAY: Final = "offload_activations"
"""The field of a plan that says whether activations lie in host memory."""

NONE: Mode = {"recompute": "none"}


def modes(question: Question, longest: int) -> tuple[Mode, ...]:
    """Every mode of recomputation where the longest chunk of a stage has so many layers.

    Nothing; each set of `selections`; all layers in groups of 1 and more (``uniform``); the
    first 1 and more of each chunk (``block``; all of them is ``uniform`` again). Each with what
    is kept on the device, and where that is offered in host memory.
    """
    found = tuple(mode for mode in _offered(question, longest) if _allowed(question, mode))
    places = question.kept_away(AWAY)
    return tuple({**mode, **({AWAY: True} if away else {})} for mode in found for away in places)


def selections(architecture: Architecture) -> tuple[tuple[str, ...], ...]:
    """The sets of modules that selective recomputation is tried with.

    Of attention, the feed-forward parts, and what is cheap to do again (norms and
    activations), all that can be combined. What a recomputed feed-forward part holds is not
    named again. With latent attention also what its report recomputes: norms, activations and
    the projections up from the latents (arXiv 2412.19437, section 3.2.3).
    """
    dense = any(isinstance(layer.mlp, MLP) for layer in architecture.layers)
    names = (("mlp",) if dense else ()) + (("moe",) if architecture.is_moe else ())
    found = []
    for attention in ((), ("core_attn",)):
        found.append((*attention, "layernorm", "activation"))
        found.append((*attention, *names))
        found.append((*attention, *names, "layernorm"))
    if any(isinstance(layer.mixer, LatentAttention) for layer in architecture.layers):
        found.append(("layernorm", "activation", "mla_up_proj"))
    return (("core_attn",), *found)


def _offered(question: Question, longest: int) -> Iterator[Mode]:
    yield NONE
    given = question.choices.get("recompute_modules")
    for modules in given or selections(question.architecture):
        yield {"recompute": "selective", "recompute_modules": modules}
    lengths = question.choices.get("recompute_num_layers", range(1, longest + 1))
    for method in ("uniform", "block"):
        for count in lengths:
            # Zero stands for groups of the square root; a block of all layers is uniform.
            if (count or method == "uniform") and (count < longest or method == "uniform"):
                yield {
                    "recompute": "full",
                    "recompute_method": method,
                    "recompute_num_layers": count,
                }


def _allowed(question: Question, mode: Mode) -> bool:
    return all(question.allows(knob, value) for knob, value in mode.items())

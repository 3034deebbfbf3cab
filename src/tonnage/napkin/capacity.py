"""How large a model can be: the memory of a cluster over the bytes of a parameter."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tonnage.cluster import Cluster
from tonnage.dtype import dtype as number_format
from tonnage.errors import InputError
from tonnage.plan import PRECISIONS, bytes_per_parameter
from tonnage.plan import optimizer as find_optimizer
from tonnage.quantity import format_bytes, format_count

DEFAULT_RECIPE = "bf16-no-master"
"""The napkin's usual 12 bytes: bf16 weights and gradients, fp32 moments of Adam."""

LEAST_BYTES, MOST_BYTES = 0.01, 1024.0
"""No recipe comes near either; beyond them, bytes a parameter are a typing error."""

# Serving formats, and the number format whose storage each is.
_INFERENCE = {
    "inference-fp32": "fp32",
    "inference-bf16": "bf16",
    "inference-fp8": "fp8_e4m3",
    "inference-int8": "int8",
    "inference-int4": "int4",
}


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """How many parameters fit under one recipe.

    Attributes:
        recipe: its name; empty for a number of bytes given by hand.
        summary: what it holds of a parameter, in one line.
        bytes_per_parameter: bytes that it holds of a parameter.
        parameters: how many fit.
    """

    recipe: str
    summary: str
    bytes_per_parameter: float
    parameters: int

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {
            "recipe": self.recipe or None,
            "summary": self.summary,
            "bytes_per_parameter": self.bytes_per_parameter,
            "parameters": self.parameters,
        }


@dataclass(frozen=True, kw_only=True)
class MaxParameters:
    """How large a model's states can be on a cluster.

    Attributes:
        chosen: the answer, under the recipe asked for.
        recipes: every recipe side by side, training first.
        gpus: devices.
        memory_bytes: nominal memory of one device.
        formula: the arithmetic in symbols.
        worked: the arithmetic in numbers.
        caveats: what the arithmetic leaves out, in sentences.
    """

    chosen: Capacity
    recipes: tuple[Capacity, ...]
    gpus: int
    memory_bytes: int
    formula: str
    worked: str
    caveats: tuple[str, ...]

    @property
    def parameters(self) -> int:
        """How many parameters fit."""
        return self.chosen.parameters

    @property
    def bytes_per_parameter(self) -> float:
        """Bytes a parameter under the recipe asked for."""
        return self.chosen.bytes_per_parameter

    def to_json(self) -> dict[str, object]:
        """Plain values: the answer, and every recipe beside it."""
        return {
            **self.chosen.to_json(),
            "gpus": self.gpus,
            "memory_bytes": self.memory_bytes,
            "recipes": [capacity.to_json() for capacity in self.recipes],
            "formula": self.formula,
            "worked": self.worked,
            "caveats": list(self.caveats),
        }


def max_parameters(
    cluster: Cluster, recipe: str | float = DEFAULT_RECIPE, *, optimizer: str | None = None
) -> MaxParameters:
    """How many parameters fit into the nominal memory of a cluster, states alone.

    Args:
        cluster: the devices.
        recipe: a precision recipe of training, ``inference-`` with fp32, bf16, fp8, int8
            or int4, or the bytes a parameter themselves (``12``).
        optimizer: the optimizer, whose moments count; None: Adam's two.

    Raises:
        InputError: the recipe or the optimizer is not known, or the two do not go together.
    """
    memory = cluster.gpus * cluster.device.memory_bytes
    recipes = _recipes(memory, _moments(optimizer))
    chosen = _choose(recipes, recipe, memory)
    if optimizer is not None and chosen.recipe not in PRECISIONS:
        raise InputError(
            field="optimizer",
            value=optimizer,
            problem=f"has no say in {chosen.recipe or 'bytes given by hand'}",
            accepted="leave optimizer out, or name a training recipe",
        )
    each = cluster.device.memory_bytes
    return MaxParameters(
        chosen=chosen,
        recipes=recipes,
        gpus=cluster.gpus,
        memory_bytes=each,
        formula="parameters = GPUs · memory / bytes per parameter",
        worked=(
            f"{cluster.gpus} × {each / 1e9:g} GB / {chosen.bytes_per_parameter:g} bytes"
            f" = {format_count(chosen.parameters)} parameters"
        ),
        caveats=_caveats(chosen, cluster),
    )


def _moments(name: str | None) -> int:
    """Moments that an optimizer keeps of each parameter."""
    if name is None:
        return 2
    found = find_optimizer(name)
    if any(rule != "elementwise" for _, rule in found.states):
        raise InputError(
            field="optimizer",
            value=name,
            problem="keeps states whose size depends on the shapes of the weights",
            accepted="sgd, momentum, adagrad, rmsprop, adam, adamw or lion",
            hint="tonnage estimate counts them weight by weight",
        )
    return len(found.states)


def _recipes(memory: int, moments: int) -> tuple[Capacity, ...]:
    training = (
        _capacity(recipe.name, recipe.summary, bytes_per_parameter(recipe, moments), memory)
        for recipe in PRECISIONS.values()
    )
    serving = (
        _capacity(name, f"weights in {stored}", float(number_format(stored).bytes), memory)
        for name, stored in _INFERENCE.items()
    )
    return (*training, *serving)


def _capacity(recipe: str, summary: str, each: float, memory: int) -> Capacity:
    return Capacity(
        recipe=recipe,
        summary=summary,
        bytes_per_parameter=each,
        parameters=math.floor(memory / each),
    )


def _choose(recipes: tuple[Capacity, ...], recipe: str | float, memory: int) -> Capacity:
    """The recipe of that name, or one made of a number of bytes."""
    named = {capacity.recipe: capacity for capacity in recipes}
    key = str(recipe).strip().lower().replace("_", "-")
    if key in named:
        return named[key]
    accepted = f"bytes per parameter such as 12, or {', '.join(named)}"
    each = _number(key)
    if each is None:
        problem = "is not a recipe"
        raise InputError(field="recipe", value=recipe, problem=problem, accepted=accepted)
    if not LEAST_BYTES <= each <= MOST_BYTES:  # a NaN compares false
        problem = f"is not from {LEAST_BYTES:g} to {MOST_BYTES:g} bytes a parameter"
        raise InputError(field="recipe", value=recipe, problem=problem, accepted=accepted)
    same = [capacity.recipe for capacity in recipes if capacity.bytes_per_parameter == each]
    summary = f"as {', '.join(same)}" if same else "given by hand"
    return _capacity("", summary, each, memory)


def _number(text: str) -> float | None:
    """A plain number; None for any other text (``float`` takes the digits of every script)."""
    try:
        return float(text) if text.isascii() else None
    except ValueError:
        return None


def _caveats(chosen: Capacity, cluster: Cluster) -> tuple[str, ...]:
    device = cluster.device
    memory = (
        f"Memory is the nominal figure of {device.name}; its driver reports "
        f"{format_bytes(device.usable_bytes)}."
    )
    if chosen.recipe in _INFERENCE:
        return ("Weights alone: no KV cache, no activations, no scales of a quantiser.", memory)
    states = "States alone: activations, logits, buffers and the context need room as well."
    sharded = f"Every state is taken to be sharded evenly over all {cluster.gpus} GPUs."
    recipe = PRECISIONS.get(chosen.recipe)
    if recipe is None or recipe.quantized is None:
        return (states, sharded, memory)
    copies = f"Copies of the weights in {recipe.quantized} are not counted."
    return (states, sharded, copies, memory)

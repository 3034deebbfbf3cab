"""What a dry run cannot do, refused by name."""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.arch import MLP, Architecture, Attention, Layer
from tonnage.errors import NotModelledError
from tonnage.plan import Resolved, Setting
from tonnage.pytorch.build import ModelCode
from tonnage.pytorch.formats import FORMATS

RUNTIMES = ("transformers", "ddp", "fsdp2")
"""The profiles of the code that is dry-run."""

SELECTIVE = ("core_attn", "mlp", "outputs", "every-second-layer")
"""Parts of a layer that the reference transformer recomputes."""

WRITTEN: dict[str, tuple[object, ...]] = {
    "norm": ("eager",),
    "activation": ("eager",),
    "qkv": ("separate",),
    "gate_up": ("separate",),
    "rotary": ("out-of-place",),
    "attention_layout": ("bshd",),
    "repeat_kv": (False,),
    "values": ("own",),
    "regathers": (False,),
    "routing": ("index",),
    "experts": ("grouped",),
}
"""Habits that the code has, and no other value of them."""


def check_plan(resolved: Resolved, code: ModelCode) -> None:
    """Refuse a plan that the dry run would not follow.

    Raises:
        NotModelledError: it asks for something that is not run; the error names it.
    """
    plan = resolved.plan
    reference = code == "reference"
    for field, allowed in (
        ("runtime", RUNTIMES),
        *((axis, (1,)) for axis in ("pp", "cp", "ep", "vpp")),
        ("optimizer", ("adamw",)),
        ("optimizer_in_backward", (False,)),
        ("recompute", ("none", "selective", "full") if reference else ("none", "full")),
        ("recompute_method", ("uniform", "block") if reference else ("uniform",)),
        ("loss", ("eager",)),
        ("lora_rank", (None,)),
        ("freeze", ((),)),
        ("mtp", (0,)),
        *((flag, (False,)) for flag in ("compile", "cuda_graphs", "packing", "reference_model")),
        ("offload_optimizer", (0.0,)),
        *((flag, (False,)) for flag in ("offload_parameters", "offload_activations")),
    ):
        only(field, getattr(plan, field), allowed)
    if plan.recompute_method == "uniform":
        only("recompute_num_layers", plan.recompute_num_layers, (1,))
    if plan.recompute == "selective":
        for module in plan.recompute_modules:
            only("recompute_modules", module, SELECTIVE)
    for habit, written in WRITTEN.items():
        # DTensor keeps gathered inputs; without it there is nothing to keep.
        if habit != "regathers" or plan.tp > 1:
            only(f"habit {habit}", getattr(resolved.setting.runtime, habit), written)
    _check_tensor_ranks(resolved, code)
    _check_formats(resolved.setting)
    _check_units(resolved.setting)
    if reference:
        check_reference(resolved.setting.architecture)


def only(field: str, value: object, allowed: Iterable[object]) -> None:
    """Refuse a value that is not among those that are run."""
    if value not in allowed:
        raise NotModelledError(
            field=field,
            value=value,
            problem="is not something that a dry run can do yet",
            accepted=" or ".join(str(each) for each in allowed),
            hint="tonnage estimate answers it from the ledger",
        )


def _check_tensor_ranks(resolved: Resolved, code: ModelCode) -> None:
    if resolved.plan.tp == 1:
        return
    only("model_code", code, ("reference",))
    only("sp", resolved.setting.sp, (True,))
    only("learned positions with tp > 1", resolved.setting.architecture.learned_positions, (0,))
    for layer in resolved.setting.architecture.layers:
        only("parallel layers with tp > 1", layer.parallel, (False,))


def _check_formats(setting: Setting) -> None:
    """A recipe must be plain formats that PyTorch itself gives gradients and moments."""
    recipe = setting.precision
    plain = {recipe.weights, recipe.compute, recipe.reduction} <= FORMATS.keys() and not (
        recipe.master or recipe.accumulation or recipe.quantized
    )
    if not plain or {recipe.gradients, recipe.moments} != {recipe.weights}:
        raise NotModelledError(
            field="precision",
            value=recipe.name,
            problem="is not a recipe that a dry run can follow",
            accepted="fp32, tf32, bf16, bf16-amp or fp16-amp",
        )


def _check_units(setting: Setting) -> None:
    """A unit of `fully_shard` has one format, and some classes keep their routers in fp32."""
    kept = any(getattr(layer.mlp, "router_fp32", False) for layer in setting.architecture.layers)
    if setting.gathers and kept and setting.precision.weights != "fp32":
        raise NotModelledError(
            field="precision",
            value=setting.precision.name,
            problem="has a router in fp32 beside narrow weights: a unit of FSDP2 has one format",
            accepted="fp32 or bf16-amp",
        )


def check_reference(architecture: Architecture) -> None:
    """Refuse an architecture that the reference transformer does not have the parts for.

    Raises:
        NotModelledError: the error names the first such part.
    """
    for layer in architecture.kinds():
        _check_layer(layer)
    plain = Architecture(
        name="",
        family="",
        hidden=0,
        vocab=0,
        layers=(),
        final_norm=None,
        tied_embeddings=False,
        max_positions=None,
    )
    for field in (
        "embedding_width",
        "embedding_norm",
        "logits_softcap",
        "streams",
        "per_layer_vocab",
        "token_types",
        "head_transform",
        "patches",
        "encoder",
        "vision",
    ):
        _plain(architecture, plain, field)


def _check_layer(layer: Layer) -> None:
    for part, kind in ((layer.mixer, Attention), (layer.mlp, MLP)):
        if not isinstance(part, kind):
            _refuse_part(type(part).__name__, kind.__name__)
    plain = Layer(mixer=None, mlp=None, mixer_norm=None, mlp_norm=None)
    for field in ("norm_after_sum", "cross", "layer_scale", "streams", "per_layer_input"):
        _plain(layer, plain, field)
    assert isinstance(layer.mixer, Attention)
    bare = Attention(heads=1, kv_heads=1, head_dim=1)
    for field in (
        "value_head_dim",
        "value_norm",
        "causal",
        "chunk",
        "top_k",
        "indexer",
        "clip",
        "softcap",
        "one_projection",
        "sinks",
        "gate",
        "keys_as_values",
        "shares_kv",
        "cross",
        "relative_buckets",
    ):
        _plain(layer.mixer, bare, field)
    if layer.mixer.qk_norm is not None and layer.mixer.qk_norm_over != "head":
        _refuse_part(f"a norm of queries and keys over {layer.mixer.qk_norm_over}", "one a head")


def _plain(found: object, plain: object, name: str) -> None:
    if getattr(found, name) != getattr(plain, name):
        _refuse_part(f"{name} {getattr(found, name)}", f"{name} {getattr(plain, name)}")


def _refuse_part(what: str, accepted: str) -> None:
    raise NotModelledError(
        field="MODEL",
        value=what,
        problem="is not a part of the reference transformer",
        accepted=accepted,
        hint="--model-code transformers runs the model's own class",
    )

"""Names of optimizers in Hugging Face's world -> optimizers of `tonnage.plan.optimizer`.

Names: `transformers.training_args.OptimizerNames`, axolotl's ``CustomSupportedOptimizers``,
DeepSpeed's ``optimizer.type`` and classes of torch, bitsandbytes and torchao by their last part.
"""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.plan.plan import OptimizerStep


@dataclass(frozen=True, kw_only=True)
class Found:
    """An optimizer by another tool's name.

    Attributes:
        name: what `tonnage.plan.optimizer` calls it.
        step: its implementation, where the name says it.
        note: how what is weighed differs from what was asked for; empty where it does not.
    """

    name: str
    step: OptimizerStep | None = None
    note: str = ""


_SMALLER_BLOCKS = "weighed as bitsandbytes' 8-bit states: its blocks of scales are smaller"
_THREE = "keeps a third state, which is not counted"
_LOW_RANK = "its low-rank states are weighed as whole ones: an upper bound"
_PLAIN = ("adamw", "stable_adamw", "optimi_adamw", "adopt_adamw", "adamc", "adamw_hf")
_FUSED = (
    *("adamw_torch_fused", "adamw_torch_npu_fused", "adamw_apex_fused", "fusedadam"),
    *("fusedadamw", "cpuadam", "deepspeedcpuadam", "adamw_torch_xla"),
)

_TABLE: dict[str, Found] = {
    **{name: Found(name="adamw") for name in _PLAIN},
    **{name: Found(name="adamw", step="fused") for name in _FUSED},
    "adam": Found(name="adam"),
    "adamw_torch": Found(name="adamw", step="foreach"),
    "schedule_free_adamw": Found(name="adamw"),
    "schedule_free_radam": Found(name="adamw"),
    "radam": Found(name="adamw"),
    "nadam": Found(name="adamw"),
    "schedule_free_sgd": Found(name="momentum"),
    "sgd": Found(name="sgd"),
    "adagrad": Found(name="adagrad"),
    "rmsprop": Found(name="rmsprop"),
    "rmsprop_bnb": Found(name="rmsprop"),
    "rmsprop_bnb_32bit": Found(name="rmsprop"),
    "adafactor": Found(name="adafactor"),
    "lion": Found(name="lion"),
    "lion_32bit": Found(name="lion"),
    "lion_pytorch": Found(name="lion"),
    "fusedlion": Found(name="lion", step="fused"),
    "muon": Found(name="muon"),
    "adamw_bnb_8bit": Found(name="adam8bit"),
    "adamw_8bit": Found(name="adam8bit"),
    "adamw8bit": Found(name="adam8bit"),
    "adam8bit": Found(name="adam8bit"),
    "paged_adamw_8bit": Found(name="pagedadam8bit"),
    "pagedadamw8bit": Found(name="pagedadam8bit"),
    "pagedadam8bit": Found(name="pagedadam8bit"),
    "paged_adamw": Found(name="pagedadamw"),
    "paged_adamw_32bit": Found(name="pagedadamw"),
    "pagedadamw": Found(name="pagedadamw"),
    "pagedadamw32bit": Found(name="pagedadamw"),
    "adamw_torch_8bit": Found(name="adam8bit", note=_SMALLER_BLOCKS),
    "ao_adamw_8bit": Found(name="adam8bit", note=_SMALLER_BLOCKS),
    "ao_adamw_fp8": Found(name="adam8bit", note=_SMALLER_BLOCKS),
    "adamwfp8": Found(name="adam8bit", note=_SMALLER_BLOCKS),
    "adamw_torch_4bit": Found(
        name="adam8bit", note="its 4-bit states are weighed as 8-bit ones: an upper bound"
    ),
    "ao_adamw_4bit": Found(
        name="adam8bit", note="its 4-bit states are weighed as 8-bit ones: an upper bound"
    ),
    "adamw4bit": Found(
        name="adam8bit", note="its 4-bit states are weighed as 8-bit ones: an upper bound"
    ),
    "adamw_anyprecision": Found(
        name="adamw", note="the formats of its states and its compensation are not read"
    ),
    "lion_8bit": Found(name="lion", note="its 8-bit state is weighed as a whole one"),
    "paged_lion_8bit": Found(name="lion", note="its paged 8-bit state is weighed as a whole one"),
    "paged_lion_32bit": Found(name="lion", note="its paged state is weighed on the device"),
    "rmsprop_bnb_8bit": Found(name="rmsprop", note="its 8-bit state is weighed as a whole one"),
    "ademamix": Found(name="adamw", note=_THREE),
    "ademamix_8bit": Found(name="adam8bit", note=_THREE),
    "paged_ademamix_32bit": Found(name="pagedadamw", note=_THREE),
    "paged_ademamix_8bit": Found(name="pagedadam8bit", note=_THREE),
    "grokadamw": Found(name="adamw", note=_THREE),
    "lamb": Found(name="adamw"),
    "fusedlamb": Found(name="adamw", step="fused"),
    "onebitadam": Found(name="adamw", note="its compression of gradients is not counted"),
    "zerooneadam": Found(name="adamw", note="its compression of gradients is not counted"),
    "onebitlamb": Found(name="adamw", note="its compression of gradients is not counted"),
    "came_pytorch": Found(name="adafactor", note="its momentum and second factors are not counted"),
    "lomo": Found(name="sgd", note="that each weight is stepped as its gradient comes is not read"),
    "adalomo": Found(
        name="adafactor", note="that each weight is stepped as its gradient comes is not read"
    ),
    "dion": Found(name="muon", note="its low-rank factor is not counted"),
}


def find_optimizer(name: str) -> Found | None:
    """The optimizer of another tool's name; None: nothing that is modelled stands for it.

    Args:
        name: as a file writes it; of a class path (``torch.optim.AdamW``), the last part counts.
    """
    key = name.strip().rsplit(".", 1)[-1].lower()
    found = _TABLE.get(key) or _TABLE.get(key.replace("_", ""))
    if found is None and key.startswith(("galore_", "apollo_", "q_galore_")):
        eight = "8bit" in key
        base = "adafactor" if "adafactor" in key else "adam8bit" if eight else "adamw"
        return Found(name=base, note=_LOW_RANK)
    return found

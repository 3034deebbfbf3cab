"""Tonnage weighs a training run before it is launched.

>>> import tonnage
>>> llama = tonnage.load("llama-3.1-8b")
>>> cluster = tonnage.parse_cluster("8xH100")
>>> answer = tonnage.estimate(llama, tonnage.Plan(seq=4096), cluster)
>>> answer.fits
True
"""

from __future__ import annotations

from typing import Any

from tonnage.version import __version__

# What is public, and the module that defines it: imported when first asked for, so that
# `import tonnage` costs next to nothing.
_PUBLIC = {
    "Architecture": "tonnage.arch",
    "load": "tonnage.arch",
    "read_config": "tonnage.arch",
    "Cluster": "tonnage.cluster",
    "Device": "tonnage.cluster",
    "Link": "tonnage.cluster",
    "find_device": "tonnage.cluster",
    "parse_cluster": "tonnage.cluster",
    "Runtime": "tonnage.runtime",
    "Plan": "tonnage.plan",
    "Estimate": "tonnage.estimation",
    "Limits": "tonnage.estimation",
    "estimate": "tonnage.estimation",
    "Launch": "tonnage.formats",
    "export": "tonnage.formats",
    "read_launch": "tonnage.formats",
    "Question": "tonnage.search",
    "SearchAnswer": "tonnage.search",
    "find_plans": "tonnage.search",
    "InputError": "tonnage.errors",
    "NotModelledError": "tonnage.errors",
    "TonnageError": "tonnage.errors",
}

__all__ = ["__version__", *sorted(_PUBLIC)]


def __dir__() -> list[str]:
    """What is public."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tonnage' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value

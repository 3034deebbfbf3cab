"""The error of a file that is understood and starts no training."""

from __future__ import annotations

from tonnage.errors import InputError
from tonnage.formats.document import Document


def not_a_launch(document: Document, why: str) -> InputError:
    """The error of a file that is understood and starts no training.

    Args:
        document: the file.
        why: in a clause.
    """
    return InputError(field="config", value=document.name, problem=f"is no training launch: {why}")

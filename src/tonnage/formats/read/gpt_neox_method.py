"""What GPT-NeoX trains for: next tokens, pairs of answers (DPO), or what is not modelled.

Source: ``megatron/training.py`` and ``megatron/neox_arguments/neox_args.py``, ``train_impl``.
"""

from __future__ import annotations

from tonnage.formats.draft import Draft
from tonnage.formats.hugging_face.model import refuse_method
from tonnage.formats.megatron_names import Names

IGNORED = tuple(
    """
    allow-chopped dataset-impl dpo-* kto-* pos-*-data-* neg-*-data-* pos-*-label-* neg-*-label-*
    pos-*-data-paths neg-*-data-paths pack-impl reward-* rm-* precompute-* train-label-*
    valid-label-* test-label-* fp32-*
    """.split()
)
"""Where pairs lie, and constants of their losses."""


def read_method(draft: Draft, names: Names) -> None:
    """Read the method; a pair of answers is two sequences of each micro-batch.

    Args:
        draft: the launch, whose batch has been read.
        names: where the file keeps its options.

    Raises:
        NotModelledError: it trains a reward model, or asks a server for answers.
    """
    method = (names.word("train-impl") or "normal").lower()
    paths = names("train-impl")
    if method in ("rm", "reinforce"):
        refuse_method(paths[0], method)
    if method not in ("dpo", "kto"):
        return
    alone = names.flag("dpo-reference-free") or names.word("precompute-model-name") is not None
    if not alone:
        draft.put("reference_model", True, *paths)
    if method == "dpo":
        for field in ("mbs", "gbs"):
            if field in draft.plan:
                draft.put(field, 2 * draft.plan[field], *paths)
        draft.fields.note("train_impl dpo: a pair of answers is two sequences of a micro-batch")

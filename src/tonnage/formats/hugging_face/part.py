"""One file of a run: what it says, what its tool takes for granted, and an account of its keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tonnage.formats.document import Document
from tonnage.formats.draft import unmodelled
from tonnage.formats.hugging_face.run import Run, overlay
from tonnage.formats.hugging_face.settle import settle
from tonnage.formats.keys import Fields
from tonnage.formats.launch import Launch


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one file says of a run.

    Attributes:
        kind: whose file it is.
        name: the file's name.
        given: what it says.
        defaults: what its tool does where nothing is said.
        account: its keys by what became of them.
        origins: keys that a field of the plan comes from.
        notes: what was assumed in reading, in sentences.
    """

    kind: str
    name: str
    given: Run
    defaults: Run
    account: Mapping[str, tuple[str, ...]]
    origins: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...]


def part(
    kind: str, document: Document, fields: Fields, given: Run, defaults: Run | None = None
) -> Part:
    """A file once its keys are read."""
    return Part(
        kind=kind,
        name=document.name,
        given=given,
        defaults=defaults or Run(),
        account=fields.account(),
        origins=fields.origins,
        notes=(*document.notes, *fields.notes),
    )


def join(parts: Sequence[Part], gpus: int | None) -> Launch:
    """Several files of one run as one launch; a later file's word stands over an earlier's.

    Args:
        parts: the files in the order in which they are given.
        gpus: devices that are given beside the files.
    """
    run, said, notes = Run(), Run(), []
    for one in parts:
        notes += [note for note in one.notes if note not in notes]
        said, _ = overlay(said, one.defaults)
        run, conflicts = overlay(run, one.given)
        notes += conflicts
    whole, _ = overlay(said, run)
    if whole.processes and gpus and whole.processes not in (1, gpus):
        notes.append(f"{whole.processes} processes are started: weighed over {gpus} devices")
    settled = settle(whole, gpus)
    plan, parts, left = _without_unmodelled(settled.plan, parts)
    named = _labels(parts)

    def fate(name: str) -> tuple[str, ...]:
        return tuple(f"{label}{path}" for label, one in named for path in one.account[name])

    return Launch(
        kind=" + ".join(dict.fromkeys(one.kind for _, one in named)) or parts[0].kind,
        model=whole.model,
        plan=plan,
        gpus=whole.processes,
        steps=whole.steps,
        notes=(*notes, *settled.notes, *left),
        lacks=settled.lacks,
        by_width={} if whole.bucket_by_width is None else {"bucket_bytes": whole.bucket_by_width},
        used=fate("used"),
        ignored=fate("ignored"),
        not_understood=fate("not_understood"),
    )


def _labels(parts: Sequence[Part]) -> list[tuple[str, Part]]:
    """What stands before each part's keys: the file's name, where there are several."""
    told = [one for one in parts if any(one.account.values())]
    if len(told) < 2:
        return [("", one) for one in told]
    names = [one.name for one in told]
    kinds = [f" ({one.kind})" if names.count(one.name) > 1 else "" for one in told]
    return [(f"{one.name}{kind}: ", one) for one, kind in zip(told, kinds, strict=True)]


def _without_unmodelled(
    plan: dict[str, object], parts: Sequence[Part]
) -> tuple[dict[str, object], tuple[Part, ...], tuple[str, ...]]:
    """A plan without what is not modelled; the keys that ask for it are not understood."""
    kept, notes, out = dict(plan), list[str](), set[str]()
    for field in plan:
        origins = tuple(path for one in parts for path in one.origins.get(field, ()))
        why = unmodelled(plan, field, origins)
        if why:
            del kept[field]
            out.update(origins)
            named = ", ".join(dict.fromkeys(origins)) or field
            notes.append(f"{named}: {why}; left out{_MEANING.get(field, '')}")
    return kept, tuple(_moved(one, out) for one in parts), tuple(notes)


_MEANING = {
    "packing": ": a packed sequence is weighed as one document",
    "offload_optimizer": ": weighed on the device, an upper bound of its memory",
    "offload_parameters": ": weighed on the device, an upper bound of its memory",
    "offload_activations": ": weighed on the device, an upper bound of its memory",
    "freeze": ": weighed as if every weight trains, an upper bound",
}
"""What an estimate is without a field."""


def _moved(one: Part, out: set[str]) -> Part:
    """A part in which some keys are not understood."""
    gone = out & {path for paths in one.origins.values() for path in paths}
    account = {
        fate: tuple(path for path in paths if path not in gone or fate == "not_understood")
        for fate, paths in one.account.items()
    }
    more = [path for paths in one.account.values() for path in paths if path in gone]
    account["not_understood"] = tuple(dict.fromkeys((*account["not_understood"], *more)))
    return dataclasses.replace(one, account=account)

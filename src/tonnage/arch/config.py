"""config.json -> `Architecture`: the door that hostile files come through."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tonnage.arch.architecture import Architecture
from tonnage.arch.constants import read_constants
from tonnage.arch.families import ENCODER_DECODERS, FAMILIES
from tonnage.arch.keys import Keys, printable
from tonnage.errors import InputError, NotModelledError
from tonnage.files import UnreadableError, parse_json

LARGEST_FILE: Final = 8 * 2**20
"""Bytes of a config.json that are read at most; real ones have a few thousand."""

_OTHER_HEADS: Final = (
    "DoubleHeadsModel",
    "ForMultipleChoice",
    "ForQuestionAnswering",
    "ForSequenceClassification",
    "ForTokenClassification",
)
"""Ends of the names of classes whose head is not a language model's."""


def read_config(config: Mapping[str, object], *, name: str, source: str = "") -> Architecture:
    """Read the facts of a config.json. Code that it points to (``auto_map``) is never run.

    Args:
        config: the parsed file.
        name: what people call the model.
        source: where the file came from.

    Raises:
        InputError: a key is missing, makes no sense or contradicts another.
        NotModelledError: the family, or this variant of it, is not modelled.
    """
    if not isinstance(config, Mapping):
        raise InputError(
            field="config",
            value=printable(config),
            problem="is not a JSON object",
            accepted="the object of a config.json",
        )
    keys = Keys(values=config)
    family = _family(keys)
    _refuse_other_models(keys, family)
    found = FAMILIES[family](keys)
    constants = read_constants(config, family, routed=found.is_moe)
    return replace(found, name=name, family=family, source=source, constants=constants)


def parse_config(data: bytes, *, model: str) -> Mapping[str, object]:
    """Parse the bytes of a config.json.

    Args:
        data: the file, read up to one byte past `LARGEST_FILE`.
        model: what the person asked for, for the error.

    Raises:
        InputError: the bytes are too many, or no JSON object.
    """
    if len(data) > LARGEST_FILE:
        raise _unreadable(model, f"is larger than the {LARGEST_FILE >> 20} MiB that are read")
    try:
        config = parse_json(data.decode("utf-8-sig"))
    except RecursionError:
        raise _unreadable(model, "is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise _unreadable(model, f"is not UTF-8 text at byte {error.start}") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _unreadable(model, f"is not JSON: {error.msg} at {where}") from None
    except UnreadableError as error:
        raise _unreadable(model, str(error)) from None
    except ValueError:  # an integer of more digits than Python converts
        raise _unreadable(model, "holds a number of too many digits") from None
    if not isinstance(config, dict):
        raise _unreadable(model, f"holds {printable(config)!r} and not a JSON object")
    return config


def _family(keys: Keys) -> str:
    if not keys.has("model_type"):
        raise InputError(
            field="config.model_type",
            value="nothing",
            problem="is given, so the family is unknown",
            accepted=_nearest("llama"),
            hint="give the config.json of a model (not its quantization or generation config)",
        )
    family = keys.word("model_type")
    if family not in FAMILIES:
        raise NotModelledError(
            field="config.model_type",
            value=family,
            problem="is a family that is not modelled",
            accepted=_nearest(family),
        )
    return family


def _nearest(family: str) -> str:
    """The families whose names look most alike; all of them are too many for a sentence."""
    from difflib import get_close_matches

    near = get_close_matches(family[:100], FAMILIES, n=5, cutoff=0.0)
    return f"one of {len(FAMILIES)} families, such as {', '.join(near)}"


def _refuse_other_models(keys: Keys, family: str) -> None:
    """A family's key can also head a model that is not a causal language model."""
    if keys.flag("is_encoder_decoder", default=False) and family not in ENCODER_DECODERS:
        keys.refuse("is_encoder_decoder", problem="is not modelled", accepted="false")
    classes = keys.values.get("architectures")
    for cls in classes if isinstance(classes, list | tuple) else ():
        if isinstance(cls, str) and cls.endswith(_OTHER_HEADS):
            raise NotModelledError(
                field="config.architectures",
                value=cls,
                problem="has a head that is not modelled",
                accepted="a causal language model",
            )


def _unreadable(model: str, problem: str) -> InputError:
    return InputError(
        field="MODEL", value=model, problem=problem, accepted="the config.json of a model"
    )

"""Scripts and commands that start a Hugging Face trainer.

accelerate launch, torchrun, deepspeed, python, ``trl sft``, ``swift sft``, ``llamafactory-cli
train`` and ``axolotl train``, with the files that they name where those lie beside the script.
The options of each are the keys of its YAML.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Literal

from tonnage.formats.detect_error import not_a_launch
from tonnage.formats.document import Document
from tonnage.formats.hugging_face.part import Part
from tonnage.formats.hugging_face.run import Run
from tonnage.formats.hugging_face.words import Started, beside, read_words
from tonnage.formats.read import accelerate, axolotl, llama_factory, ms_swift, transformers, trl
from tonnage.formats.shell import Script, read_script
from tonnage.formats.shell_documents import written_files

KIND = "command"

_READERS = {
    "axolotl": axolotl,
    "llama-factory": llama_factory,
    "ms-swift": ms_swift,
    "trl": trl,
    "transformers": transformers,
}
_BY_NAME = re.compile("(fsdp2?)|zero_?(?:stage)?_?([0-3])")
_COUNTS = ("nproc_per_node", "num_gpus", "gpus_per_node")
_NODES = ("nnodes", "num_nodes", "nodes")


def detect(document: Document) -> bool:
    """Whether a script starts a trainer that is known."""
    return document.syntax == "shell" and _find(document) is not None


def _find(document: Document) -> tuple[Script, Started] | None:
    """The command with the most options among those that start a trainer."""
    try:
        script = read_script(document.text)
    except (ValueError, RecursionError):
        return None
    found = [one for words in script.commands if (one := read_words(words)) is not None]
    return (script, max(found, key=lambda one: len(one.options))) if found else None


def parts(document: Document) -> tuple[Part, ...]:
    """The launcher's part, those of the files that are named, and that of the options.

    Raises:
        InputError: it starts no trainer, or an option has no value of its type.
        NotModelledError: a trainer that generates, or trains a reward model.
    """
    found = _find(document)
    if found is None:
        raise not_a_launch(document, "it starts no trainer that is known")
    script, started = found
    written = written_files(document.text, script.values)
    document = dataclasses.replace(document, written=written)
    read: list[Part] = list(_launcher(document, started))
    for name in started.files:
        file = beside(document, name)
        if file is not None:
            reader = _READERS[_tool(started, file)]
            read += reader.parts(file)
        else:
            read.append(_missing(document, name))
    if started.options or not started.files:
        options = _document(document, started.options)
        read += _READERS[_tool(started, options)].parts(options)
    count = _processes(script, started)
    if count is not None:
        read.append(_part(document, Run(processes=count)))
    read.append(_part(document, Run(), *script.notes))
    return tuple(read)


def _tool(started: Started, document: Document) -> str:
    """The tool that a program is, else the one whose keys are there."""
    if started.tool:
        return started.tool
    for name, reader in _READERS.items():
        if name != "transformers" and reader.detect(document):
            return name
    return "transformers"


def _document(document: Document, options: Mapping[str, object]) -> Document:
    return dataclasses.replace(document, syntax="yaml", text="", values=dict(options))


def _launcher(document: Document, started: Started) -> tuple[Part, ...]:
    """What ``accelerate launch`` is told, and the configuration that it names."""
    if started.starter != "accelerate":
        return ()
    options = {key: v for key, v in started.launcher.items() if key not in ("m", "module")}
    name = options.pop("config_file", None)
    parts: tuple[Part, ...] = ()
    if isinstance(name, str):
        file = beside(document, name)
        parts = accelerate.parts(file) if file else (_named(document, name),)
    engine = {"use_fsdp": "FSDP", "use_deepspeed": "DEEPSPEED", "use_megatron_lm": "MEGATRON_LM"}
    kinds = [kind for flag, kind in engine.items() if options.pop(flag, None)]
    if options.pop("multi_gpu", None):
        kinds.append("MULTI_GPU")
    sections = {"fsdp_": "fsdp_config", "megatron_lm_": "megatron_lm_config"}
    values: dict[str, object] = {}
    for key, value in options.items():
        prefix = next((prefix for prefix in sections if key.startswith(prefix)), None)
        if prefix is not None:
            values.setdefault(sections[prefix], {})[key] = value  # type: ignore[index]
        elif key in _DEEPSPEED:
            values.setdefault("deepspeed_config", {})[key] = value  # type: ignore[index]
        elif key.startswith("parallelism_config_"):
            values.setdefault("parallelism_config", {})[key] = value  # type: ignore[index]
        else:
            values[key] = value
    if kinds:
        values["distributed_type"] = kinds[0]
    elif values and not parts:
        alone = str(values.get("num_processes")) == "1"
        values["distributed_type"] = "NO" if alone else "MULTI_GPU"
    if not values:
        return parts
    return (*parts, *accelerate.parts(_document(document, values)))


_DEEPSPEED = frozenset(
    """
    deepspeed_config_file zero_stage offload_optimizer_device offload_param_device
    gradient_accumulation_steps gradient_clipping zero3_init_flag zero3_save_16bit_model
    deepspeed_hostfile deepspeed_multinode_launcher
    """.split()
)


def _missing(document: Document, name: str) -> Part:
    note = f"{name} is not beside this script: give it as a further --config"
    return _part(document, Run(), note)


def _named(document: Document, name: str) -> Part:
    """A configuration of accelerate of which only the name is known: what it says is taken."""
    given = _BY_NAME.search(name.rsplit("/", 1)[-1].lower())
    if given is None:
        return _missing(document, name)
    whole = given[0].startswith("fsdp")
    stage = 3 if whole else int(given[2])
    plan: dict[str, object] = {"zero": stage}
    if "offload" in name.lower():
        if not whole:
            plan["offload_optimizer"] = 1.0
        if stage == 3:
            plan["offload_parameters"] = True
    run = Run(engine=_engine(given[0]), plan=plan)
    what = given[0].upper() if whole else f"DeepSpeed at stage {stage}"
    note = f"{name} is not beside this script: {what} by its name; give it as a further --config"
    return _part(document, run, note)


def _engine(word: str) -> Literal["fsdp1", "fsdp2", "deepspeed"]:
    if word == "fsdp2":
        return "fsdp2"
    return "fsdp1" if word == "fsdp" else "deepspeed"


def _part(document: Document, run: Run, *notes: str) -> Part:
    """A part without keys."""
    empty: dict[str, tuple[str, ...]] = {"used": (), "ignored": (), "not_understood": ()}
    return Part(
        kind=KIND,
        name=document.name,
        given=run,
        defaults=Run(),
        account=empty,
        origins={},
        notes=notes,
    )


def _processes(script: Script, started: Started) -> int | None:
    """Processes in all, by the launcher, the environment or the visible devices."""
    if started.starter == "accelerate":
        return None
    each = _first(started.launcher, _COUNTS) or _first(script.values, ("NPROC_PER_NODE",))
    nodes = _first(started.launcher, _NODES) or _first(script.values, ("NNODES",)) or 1
    if each is not None:
        return each * nodes
    visible = str(script.values.get("CUDA_VISIBLE_DEVICES", ""))
    devices = [part for part in visible.split(",") if part.strip().isdigit()]
    distributed = started.starter in ("deepspeed", "torchrun")
    return len(devices) if devices and (distributed or len(devices) == 1) else None


def _first(values: Mapping[str, object], names: tuple[str, ...]) -> int | None:
    for name in names:
        text = str(values.get(name, ""))
        if text.isascii() and text.isdigit() and 0 < int(text[:7]) < 10**6:
            return int(text)
    return None

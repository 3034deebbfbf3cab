"""The verbs, and what happens to what they raise.

A verb is named by the path of its function and imported when it is asked for: `tonnage
--help` pays for none of them.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

from cyclopts import App

from tonnage.cli.help import PlainHelp
from tonnage.cli.output import make_readable
from tonnage.cli.stdin import hide_hyphens
from tonnage.version import __version__

_ABOUT = """Weighs a training run before it is launched: memory, FLOPs, communication and time.

For example: tonnage estimate llama-3.1-8b --gpus 8xH100 --seq 8192
"""

_EPILOGUE = (
    "Exit codes: 0 ok, 1 failed, 2 usage, 3 does not fit, 4 an optional part missing,\n"
    "130 interrupted. With --debug anywhere, an error shows its traceback."
)

VERBS = {
    "estimate": (
        "tonnage.cli.estimate:estimate",
        "Weigh a run: does it fit, where do the bytes and seconds go, how long is it.\n\n"
        "Every blank of the plan is filled in, and the answer says with what. Exit code 3 means "
        "that the run does not fit; the answer is printed all the same.",
    ),
    "scale": (
        "tonnage.cli.scale:scale",
        "One plan on clusters of several sizes: strong scaling, or weak with --weak.\n\n"
        "For example: tonnage scale llama-3.1-70b --gpus 64..512xH100 --tp 8 --gbs 512.",
    ),
    "batch": (
        "tonnage.cli.batch:batch",
        "Step time and throughput against the batch: the knee, and the limit of memory.",
    ),
    "plan": (
        "tonnage.cli.plan:plan",
        "Find the plan to launch: the fastest, the cheapest, on the fewest GPUs.\n\n"
        "Every legal plan is weighed, or excluded by a bound that proves it worse. A knob that is "
        "given is kept to, as a value or a list (--tp 1,2,4,8). Exit code 3 means that nothing "
        "fits; the nearest plan is printed all the same.",
    ),
    "dryrun": (
        "tonnage.cli.dryrun:dryrun",
        "Run one training step on fake tensors with PyTorch, and hold the ledger to it.\n\n"
        "Needs the torch extra and no accelerator. One rank of transformers' own class, or "
        "path/to/file.py:function for a step of your own.",
    ),
    "score": (
        "tonnage.cli.score:score",
        "Hold the predictor to measured runs: errors by family, fits, and choice of plan.",
    ),
    "calibrate": (
        "tonnage.cli.calibrate:calibrate",
        "Fit the time model's constants to a device: measured here, or from measured steps.\n\n"
        "Measuring needs the torch extra; under torchrun collectives are measured too. --from "
        "rows.csv needs neither. --out writes a device file, which --device-file takes.",
    ),
    "fit": (
        "tonnage.cli.fit:fit",
        "Find the largest batch, sequence or model that fits, or the fewest devices.\n\n"
        "For example: tonnage fit llama-3.1-8b --gpus 8xH100 --max seq. What stops the next "
        "value is said. Exit code 3 means that not even the smallest fits.",
    ),
    "compare": (
        "tonnage.cli.compare:compare",
        "Set two or more plans, models or clusters side by side.\n\n"
        "Each SIDE is a MODEL, flags over those of all, or the output of estimate --json, in "
        "quotes where it is several words. Differences are from the first.",
    ),
    "oom": (
        "tonnage.cli.oom:oom",
        "Say what ran out of memory, when, why, and what to change.\n\n"
        "Reads a CUDA, HIP, XPU, MPS or NPU out-of-memory message, one of a serving engine or of "
        "a kernel that kills, or a whole log of any length. With MODEL and a plan, the tensor that "
        "was asked for is named and each change is weighed. Exit code 1 means that the log tells "
        "of no memory that ran out.",
    ),
    "napkin": (
        "tonnage.cli.napkin:napkin",
        "The back of the envelope: how long a run takes, how large a model can be.",
    ),
    "models": ("tonnage.cli.models:models", "List the catalog of models."),
    "hardware": (
        "tonnage.cli.hardware:hardware",
        "List devices with their dense peaks and ridge points, or all that is known of one.",
    ),
    "ranks": (
        "tonnage.cli.ranks:ranks",
        "Print where every rank sits: node, coordinates, groups, and the links they cross.\n\n"
        "Ranks are numbered as torchrun numbers them, and laid out as Megatron lays them out: "
        "tp is the fastest axis, then cp, dp and pp.",
    ),
    "op": (
        "tonnage.cli.op:op",
        "Weigh one operation: FLOPs, bytes, intensity, what bounds it, and its least time.\n\n"
        "For example: tonnage op matmul n=1024, or "
        "tonnage op 'b q d, b k d -> b q k' b=8 q=1024 k=1024 d=128.",
    ),
    "dtypes": (
        "tonnage.cli.dtypes:dtypes",
        "List number formats: bits, range and resolution; or what values become in each.\n\n"
        "For example: tonnage dtypes --cast 1e-8 448.1. Several values are one block of the "
        "block formats, and share its scale.",
    ),
    "roofline": (
        "tonnage.cli.roofline:roofline",
        "Draw the roofline of devices, with a model's operations on it.\n\n"
        "Each operation of training, prefill and decode at its arithmetic intensity, on the "
        "screen or as an HTML, SVG or PNG file.",
    ),
}
"""Each verb: where its function is, and its help, of which the first paragraph is listed."""


def make_app() -> App:
    """The parser, with every verb registered and none imported."""
    app = App(
        name="tonnage",
        help=_ABOUT,
        help_epilogue=_EPILOGUE,
        help_format="plaintext",
        help_formatter=PlainHelp(),
        version=__version__,
        suppress_keyboard_interrupt=False,
        print_error=False,
        exit_on_error=False,
        result_action="return_value",
    )
    for order, (name, (path, text)) in enumerate(VERBS.items()):
        app.command(path, name=name, help=text, sort_key=order)
    app.register_install_completion_command(help="Install completion for your shell.")
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: the words after ``tonnage``; None: those of this process.

    Returns:
        The exit code.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    options = words[: words.index("--")] if "--" in words else words
    debug = "--debug" in options
    if debug:
        words.remove("--debug")
    closed = _open_outputs()
    make_readable(sys.stdout)
    make_readable(sys.stderr)
    try:
        if closed:
            raise OSError(errno.EBADF, "it is closed")
        code = _run(words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _reader_left()
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if debug:
            raise
        from tonnage.cli.failure import report

        return report(error, as_json="--json" in options)


def _open_outputs() -> bool:
    """Put a sink where the process was started without an output; whether stdout was."""
    closed = sys.stdout is None
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            sink = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
            setattr(sys, name, sink)
    return closed


def _run(words: list[str]) -> int:
    try:
        result = make_app()(hide_hyphens(words))
    except SystemExit as stop:  # the installer of completions exits by itself
        return stop.code if isinstance(stop.code, int) else 1
    return result if isinstance(result, int) else 0


def _reader_left() -> int:
    """Whoever read stdout has closed it: not an error worth a word."""
    # The interpreter flushes stdout once more when it ends, and would complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1

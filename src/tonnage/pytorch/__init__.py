"""All that imports PyTorch: the dry run, and what `tonnage calibrate` measures.

Importing this room without PyTorch raises `MissingPartError`, which names the extra.
"""

from tonnage.errors import MissingPartError

try:
    import torch as _torch  # noqa: F401
    import transformers as _transformers  # noqa: F401
except ImportError as error:
    raise MissingPartError(
        part=error.name or "torch", extra="torch", purpose="a dry run or a calibration"
    ) from None

from tonnage.pytorch.compare import Comparison, compare
from tonnage.pytorch.dryrun import DryRun, dry_run
from tonnage.pytorch.memory_format import LayoutCopy, LayoutWatch, check_layout
from tonnage.pytorch.recorder import Recorder, record
from tonnage.pytorch.replay import Replayed, alive_at_peak, replay, timeline
from tonnage.pytorch.trace import Allocation, CollectiveCall, Moment, Trace
from tonnage.pytorch.user import FileRun, dry_run_file

__all__ = [
    "Allocation",
    "CollectiveCall",
    "Comparison",
    "DryRun",
    "FileRun",
    "LayoutCopy",
    "LayoutWatch",
    "Moment",
    "Recorder",
    "Replayed",
    "Trace",
    "alive_at_peak",
    "check_layout",
    "compare",
    "dry_run",
    "dry_run_file",
    "record",
    "replay",
    "timeline",
]

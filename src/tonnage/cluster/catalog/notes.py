"""Words about sources that several entries of the catalog share."""

from __future__ import annotations

CONTEXT = (
    "approximate: what nvidia-smi commonly shows of a process that holds one small tensor; "
    "moves by tens of MiB with the driver and by more with the libraries loaded"
)
CONTEXT_UNKNOWN = "assumed to be like that of other devices; no figure found"
TOTAL_MEMORY = "total_memory of torch.cuda.get_device_properties, as commonly reported"
TOTAL_MEMORY_IN_MESSAGE = "total capacity in PyTorch's out-of-memory messages (two decimals)"

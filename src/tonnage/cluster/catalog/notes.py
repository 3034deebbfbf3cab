"""Words about sources that several entries of the catalog share.

A source that ends in "recalled" names the document that has the figure; it was written down
from memory of it or from those who repeat it, and not read again. One that begins with
"weak:" has no such document; one that begins with "assumed:" stands in for what nobody says.
"""

from __future__ import annotations

CONTEXT = (
    "approximate: what nvidia-smi commonly shows of a process that holds one small tensor; "
    "moves by tens of MiB with the driver and by more with the libraries loaded"
)
CONTEXT_UNKNOWN = "assumed to be like that of other devices; no figure found"
TOTAL_MEMORY = "total_memory of torch.cuda.get_device_properties, as commonly reported"
TOTAL_MEMORY_IN_MESSAGE = "total capacity in PyTorch's out-of-memory messages (two decimals)"
TOTAL_MEMORY_RECALLED = "weak: total capacity in PyTorch's out-of-memory messages, recalled"
PCIE_ONLY = "PCIe to the host; a bridge between two cards is not modelled"
USUAL_8 = "assumed: the most that a common server holds"
USUAL_NETWORK = "assumed: nothing is usual"
ONE = "assumed: one in a machine"
FP32_ACCUMULATION = (
    "dense, with accumulation in FP32: GeForce cards do this at half the rate of "
    "accumulation in FP16, which is quoted elsewhere and which training cannot use"
)

"""PyTorch's names of number formats."""

from __future__ import annotations

from typing import Final

import torch

FORMATS: Final = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}
"""The formats that a recipe stores weights in, or multiplies in."""

"""A convolutional network and a vision transformer, small, in plain PyTorch."""

from __future__ import annotations

import torch
from torch import nn

BATCH, SIDE, CLASSES = 8, 32, 10


class Residual(nn.Module):  # type: ignore[misc]
    """Two convolutions around a shortcut (He et al., arXiv 1512.03385)."""

    def __init__(self, wide: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(wide, out, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(out)
        self.short = nn.Conv2d(wide, out, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.short(x) + self.norm2(self.conv2(y)))


class VisionTransformer(nn.Module):  # type: ignore[misc]
    """Patches through encoder layers (Dosovitskiy et al., arXiv 2010.11929)."""

    def __init__(self, width: int = 32, depth: int = 2) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, 8, 8)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True
            )
            for _ in range(depth)
        )
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.patch(x).flatten(2).transpose(1, 2)
        for layer in self.layers:
            tokens = layer(tokens)
        return self.head(tokens.mean(1))


class Through(nn.Module):  # type: ignore[misc]
    """Rows of pixels between two convolutions, as attention wants them: the layout is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Conv2d(3, 16, 3, 1, 1)
        self.after = nn.Conv2d(16, 16, 3, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.before(x)
        return self.after(y.flatten(2).contiguous().reshape(y.shape))


def convolutional() -> nn.Module:
    return nn.Sequential(
        Residual(3, 16, 1),
        Residual(16, 32, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, CLASSES),
    )


def loss(output: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(output, torch.zeros(BATCH, dtype=torch.long))


def images() -> torch.Tensor:
    return torch.zeros(BATCH, 3, SIDE, SIDE)


def cnn() -> object:
    return convolutional(), images(), loss


def vit() -> object:
    return VisionTransformer(), images(), loss


def through() -> object:
    return Through(), images(), lambda output: output.square().mean()


def hidden() -> object:
    model = convolutional()
    return lambda: loss(model(images())).backward()

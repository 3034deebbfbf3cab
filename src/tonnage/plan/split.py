"""Pipeline stages of equal cost rather than of equally many layers."""

from __future__ import annotations

from tonnage.arch import MLP, Architecture, Attention, Layer, MoE


def split_by_cost(architecture: Architecture, stages: int) -> list[int]:
    """Layers of each stage when blocks are placed in order and a full stage is closed.

    A stage is closed when the cost so far reaches its share of the total. A layer costs the
    elements of its products, the head V·h, embedding and norms nothing (nanotron,
    ``get_block_compute_costs``). So the last stages have the fewest layers, and may have none
    beside the head.
    """
    costs = [_layer_cost(architecture, layer) for layer in architecture.layers]
    total = sum(costs) + architecture.vocab * architecture.hidden
    counts = [0] * stages
    stage = done = 0
    for cost in costs:
        counts[stage] += 1
        done += cost
        if stage < stages - 1 and done * stages >= total * (stage + 1):
            stage += 1
    return counts


def _layer_cost(architecture: Architecture, layer: Layer) -> int:
    """Elements of the matrices that one token is multiplied by."""
    hidden = architecture.hidden
    cost = 0
    if isinstance(layer.mixer, Attention):
        cost += 4 * layer.mixer.heads * layer.mixer.head_dim * hidden
    elif layer.mixer is not None:
        cost += 4 * hidden * hidden
    if isinstance(layer.mlp, MLP):
        cost += _block_cost(layer.mlp, hidden)
    elif isinstance(layer.mlp, MoE):
        cost += layer.mlp.top_k * _block_cost(layer.mlp.expert, hidden)
        cost += _block_cost(layer.mlp.shared, hidden) if layer.mlp.shared else 0
    return cost


def _block_cost(block: MLP, hidden: int) -> int:
    return (3 if block.gated else 2) * block.intermediate * hidden

"""Parameters of an architecture: the sum over the weights of the ledger's operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tonnage.algebra import total
from tonnage.arch import Architecture, MoE
from tonnage.ledger.layer import layer_operations
from tonnage.ledger.model import stage_ledgers, whole, whole_stage
from tonnage.ledger.operation import Weight, weights_of
from tonnage.ledger.parts import part_of
from tonnage.plan import Setting


@dataclass(frozen=True, kw_only=True)
class ParameterCount:
    """Parameters of an architecture, by part.

    A norm inside a mixer (of queries and keys, of a latent) is the mixer's.

    Attributes:
        total: all, tied weights once, vision tower included, further-token predictors not.
        active: those that one token meets: all but the experts it is not routed to.
        embedding: token embeddings, learnt positions, and what joins them.
        attention: attention and other mixers, an indexer included.
        mlp: dense feed-forward parts and shared experts.
        experts: routed experts.
        router: routers.
        norms: norms of the layers.
        connections: what joins parts to the residual: hyper-connections, layer scales, the
            projections of a layer's own input.
        head: final norm and, where not tied, the output projection.
        vision: image encoder and projector.
        mtp: further-token predictors (multi-token prediction), apart from the total; None
            where the config counts them and their layer is not known.
    """

    total: int
    active: int
    embedding: int
    attention: int
    mlp: int
    experts: int
    router: int
    norms: int
    connections: int
    head: int
    vision: int
    mtp: int | None

    @property
    def layers(self) -> int:
        """All parts of all decoder layers."""
        feed_forward = self.mlp + self.experts + self.router
        return self.attention + feed_forward + self.norms + self.connections


def parameters(architecture: Architecture) -> ParameterCount:
    """Count parameters: the sum over the weights of the ledger's operations."""
    setting = whole(architecture)
    (ledger,) = stage_ledgers(setting, (whole_stage(architecture),))
    counts = architecture.kinds()
    parts: Counter[str] = Counter()
    idle = 0
    for layer, operations in ledger.layers.items():
        weights = weights_of(operations)
        for weight in weights:
            parts[part_of(weight)] += counts[layer] * int(weight.numel)
        if isinstance(layer.mlp, MoE):
            routed = _numel(weight for weight in weights if weight.group == "expert")
            unused = layer.mlp.experts - layer.mlp.top_k
            idle += counts[layer] * (routed // layer.mlp.experts) * unused
    for layer, often in Counter(architecture.encoder).items():
        for weight in weights_of(layer_operations(setting, layer)):
            parts[part_of(weight)] += often * int(weight.numel)
    if architecture.encoder_norm is not None:
        rule = architecture.encoder_norm
        parts["norms"] += architecture.hidden * (rule.weight + rule.bias)
    parts["embedding"] = _numel(weights_of(ledger.embedding))
    parts["head"] = _numel(weights_of(ledger.head))
    parts["vision"] = _numel(weights_of(ledger.vision))
    names = ("embedding", "attention", "mlp", "experts", "router", "norms", "connections")
    return ParameterCount(
        total=parts.total(),
        active=parts.total() - idle,
        mtp=_predictors(setting),
        **{name: parts[name] for name in (*names, "head", "vision")},
    )


def _predictors(setting: Setting) -> int | None:
    """Predictors of further tokens: each joins two normed streams and has a layer and a norm.

    The embedding and the head are the model's own (DeepSeek-V3, arXiv 2412.19437, section
    2.2): ``2·h² + 3·h`` beside the layer.
    """
    architecture = setting.architecture
    if not architecture.mtp_layers:
        return 0
    if architecture.mtp is None:
        return None
    hidden = architecture.hidden
    layer = _numel(weights_of(layer_operations(setting, architecture.mtp)))
    return architecture.mtp_layers * (layer + 2 * hidden**2 + 3 * hidden)


def _numel(weights: Iterable[Weight]) -> int:
    return int(total(weight.numel for weight in weights))

"""Every fitted number of the time model, with its meaning, its unit and what it was fitted to.

None belongs to a row, a table of rows, a model family or a runtime. A number holds for all
devices, for a generation and a format, or for a kind of link. docs/derivations/time.md has
the forms, and docs/scoreboard.md what they reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# --- what a device sustains inside a step ---

SUSTAINED_SHARE: Final = 0.814
"""Share of dense peak that the inner loop of a product reaches at most. Unit: 1. Steps on
A100, where power is no limit: 0.81 to 0.83."""

PICOJOULE_PER_FLOP: Final[dict[str, dict[str, float]]] = {
    "sm90": {"bf16": 1.11, "fp8": 0.625},
    "sm100": {"bf16": 1.03, "fp8": 0.46, "fp4": 0.24},
}
"""Board energy of one FLOP of a product, by generation and format: a device that would need
more than its power limit lowers its clock. Unit: 1e-12 J. Read off steps on H100, H200 and
B200 to GB300; nobody has published clocks or power of those runs, so this is the reading that
fits, and not a measurement."""

GENERATIONS: Final[dict[str, str]] = {"sm103": "sm100", "sm120": "sm100", "sm121": "sm100"}
"""Generations that take another's energies."""

# --- matrix products ---

PRODUCT_START: Final = 2.9e-6
"""Seconds of a kernel beside its tiles. gemm rows on six devices: 0.5 to 3.1 µs."""

PRODUCT_MEMORY: Final = 0.862
"""Share of memory bandwidth that a product's operands and result reach. 0.79 to 0.91."""

PRODUCT_WAVE: Final = 0.95e-6
"""Seconds of one tile beside its multiply-adds. Data-centre devices: 0.6 to 1.1 µs."""

PRODUCT_FEED: Final = 0.0151
"""Bytes of operands that reach a multiprocessor for each FLOP of its dense 16-bit peak."""

PRODUCT_SPLIT: Final = 2.1e-6
"""Seconds to sum the pieces of a split depth. 1.0 to 4.1 µs on data-centre devices."""

EXPERT_START: Final = 5.0e-6
"""Seconds that each further expert adds to a grouped product, whose kernels are launched one
by one on a few streams; nothing where a graph replays them. Single-node steps of cut
DeepSeek models on B200: 4 to 8 µs."""

# --- attention ---

FLASH_FORWARD: Final[dict[str, tuple[float, float, float]]] = {
    "sm80": (0.36, 0.62, 0.62),
    "sm90": (0.19, 0.38, 0.60),
    "sm100": (0.19, 0.35, 0.60),
}
"""Share of dense peak that flash attention's forward kernel reaches with heads of 128, by
generation of the device; the first, second and third generation of the kernel (cuDNN's counts
as third). Published on H100: 0.37, 0.61 and 0.65 of FA2, cuDNN and FA3 at 8k to 16k tokens
(arXiv 2407.08608, figure 5)."""

FLASH_BACKWARD: Final[dict[str, tuple[float, float, float]]] = {
    "sm80": (0.30, 0.52, 0.52),
    "sm90": (0.17, 0.32, 0.47),
    "sm100": (0.17, 0.28, 0.42),
}
"""The same of the backward kernel, whose FLOPs are 2.5 times the forward's."""

FLASH_WATTS: Final[dict[str, float]] = {"sm90": 700 / 989.4, "sm100": 1000 / 2250}
"""Watts of board power for each dense bf16 TFLOP/s of the device that the shares above belong
to (H100 SXM, B200). One with fewer watts runs its attention slower in that ratio."""

FLASH_HEAD: Final = 29.0
"""Width of a head whose products take as long as its softmax: the share of peak goes with
``d / (d + 29)``. Playbook sweep: 330 against 400 TFLOP/s with heads of 64 and 128."""

# --- memory-bound operations ---------------------------------------------------------------------

ELEMENTWISE_MEMORY: Final = 0.90
"""Share of memory bandwidth of norms, activations, sums and the optimizer."""

SCATTERED_MEMORY: Final = 0.25
"""The same of kernels that move rows in the order of an index (a mixture's tokens on their
way to the experts), and of the passes over probabilities and maps beside them."""

SOFTMAX_MEMORY: Final = 0.52
"""The same of the softmax and dropout of unfused attention. Steps of Megatron in 2021."""

ELEMENTWISE_START: Final = 2.2e-6
"""Seconds of a memory-bound kernel beside its bytes."""

EAGER_TRAFFIC: Final = 2.7
"""Traffic of memory-bound operations where nothing fuses them (no compiler, no fused
kernels), over what the ledger names: views that are copied, casts, sums apart from their
neighbours. Badly determined: 2.6 to 3.6."""

LOSS_TRAFFIC: Final[dict[str, float]] = {
    "eager": 50.0,
    "eager-held": 50.0,
    "eager-narrow": 50.0,
    "eager-narrow-held": 50.0,
    "upcast-in-chunks": 50.0,
    "upcast-in-place": 40.0,
    "upcast-in-place-held": 40.0,
    "narrow-in-place": 40.0,
    "narrow-in-place-held": 40.0,
    "chunked-compiled": 40.0,
    "vocab-parallel": 107.0,
    "vocab-parallel-fused": 40.0,
    "vocab-parallel-two-copies": 60.0,
    "in-place": 40.0,
    "compiled": 40.0,
    "chunked": 60.0,
    "linear": 40.0,
}
"""Bytes of memory traffic of the cross-entropy, forward and backward, for each logit.

Three kinds were seen in timed rows (kernels apart, one kernel, old Megatron); every other rule
of the loss is taken to be like the one whose kernels it has."""

CAST_TRAFFIC: Final = 2.0
"""Bytes to cast one element of a product's operand to 8 or 4 bits: the kernel before it has it
at hand, and writes it along rows and along columns. Badly determined: 1.8 to 3."""

# --- the host ---

HOST_PASS: Final = 1.1e-3
"""Seconds in which an eager stack issues one layer's pass, forward or backward, however small
the layer. Single-node steps of Megatron-DeepSpeed."""

HOST_COLLECTIVE: Final = 200e-6
"""Seconds in which the host issues one collective into a new tensor, with the autograd
function around it. Playbook sweep: a layer takes at least 4.3 ms, ten collectives among it."""

HOST_REDUCE: Final = 35e-6
"""The same of an all-reduce in place, which asks for neither."""

HOST_SLICE: Final = 11e-6
"""Seconds in which the host issues the copy of one rank's slice of one gathered parameter, and
cuts the two tensors that it lies in. Playbook sweep: ZeRO-1 on 256 GPUs over ZeRO-0; 11 to 15 by
model."""

COMPILED_HOST: Final = 0.5
"""Host time of a compiled layer over that of an eager one."""

VERIFY_NEAR: Final = 0.2e-3
"""Seconds that checking a collective over the hosts takes for each rank of its group in the
same node (TORCH_DISTRIBUTED_DEBUG=DETAIL: a barrier that asks the ranks one by one). Playbook
sweep: layers of groups of 4 and 8."""

VERIFY_FAR: Final = 0.3e-3
"""The same for each rank in another node. Layers of groups of 16, and collectives of all ranks."""

# --- links ---


@dataclass(frozen=True, kw_only=True)
class LinkRates:
    """What collectives reach inside a scale-up domain.

    Attributes:
        start: seconds of a launch, low-latency protocol.
        hop: seconds of a step of the ring, low-latency protocol.
        low_share: share of bandwidth, low-latency protocol, whose data carry flags.
        fill: seconds more that the bandwidth protocol takes to fill its buffers.
        simple_hop: seconds of a step of the ring, bandwidth protocol.
        share: share of bandwidth, bandwidth protocol.
        exchange: share of bandwidth of an all-to-all.
    """

    start: float
    hop: float
    low_share: float
    fill: float
    simple_hop: float
    share: float
    exchange: float


LINK_RATES: Final[dict[str, LinkRates]] = {
    "NVLink 3": LinkRates(
        start=12.6e-6,
        hop=0.24e-6,
        low_share=0.223,
        fill=27e-6,
        simple_hop=0.27e-6,
        share=0.63,
        exchange=0.64,
    ),
    "NVLink 4": LinkRates(
        start=5.8e-6,
        hop=0.5e-6,
        low_share=0.257,
        fill=13e-6,
        simple_hop=0.4e-6,
        share=0.645,
        exchange=0.61,
    ),
    "NVLink 5": LinkRates(
        start=9.8e-6,
        hop=0.78e-6,
        low_share=0.249,
        fill=21e-6,
        simple_hop=0.32e-6,
        share=0.65,
        exchange=0.56,
    ),
}
"""By name of the link. NCCL 2.27 to 2.29 within a node."""

OTHER_LINK: Final = LinkRates(
    start=9e-6,
    hop=0.5e-6,
    low_share=0.25,
    fill=20e-6,
    simple_hop=0.35e-6,
    share=0.64,
    exchange=0.6,
)
"""Any other link inside a domain: the mean of the three. PCIe rows are 35 % off with it."""

SWITCH_START: Final = 40e-6
"""Seconds of an all-reduce that the switch sums (NVLS), beside its bytes."""

SWITCH_SHARE: Final = 1.0
"""Bus bandwidth of the same, over the link's: from 4 ranks on, Hopper and later."""

SWITCH_RANKS: Final = 4
"""Fewest ranks for which NCCL lets the switch sum."""

NETWORK_SHARE: Final = 0.9
"""Share of a network port's bandwidth that collectives and sends reach. 0.87 to 0.93."""

NETWORK_HOP: Final = 8e-6
"""Seconds of one hop of a tree across nodes. Assumed: NCCL's own model has 4 to 14."""

NETWORK_STEP: Final = 5e-6
"""Seconds of one step of a ring across nodes, whichever of its ranks it lies between. NCCL's own
model (``tuning.cc``): 14 between nodes, 3 to 6 for the network's overhead in every other step,
which are seven of eight."""

FABRIC_HOPS: Final[dict[str, float]] = {"EFA": 45e-6}
"""Both of networks whose messages take longer, by the start of the link's name. Playbook sweep:
tensor-parallel groups of 16 and 32 over nodes with EFA; the all-gathers over all of 64 to 512
ranks that its jobs timed have 43 to 50."""

# --- the memory of the host ---

HOST_LINK_SHARE: Final = 0.8
"""Share of a link's bandwidth, and of the host's memory, that copies of pinned memory reach.
PCI Express: 12 of 15.75 GB/s (arXiv 2104.07857, figure 2b), 25 of 31.5 and 52 of 63; NVLink-C2C:
375 of 450 GB/s to the GPU and 297 from it (arXiv 2407.07850). Recalled."""

HOST_STEP_SHARE: Final = 0.46
"""Share of the host's memory bandwidth that an Adam step of its processors reaches. ZeRO-Offload
(arXiv 2101.06840, table 4; recalled): 0.22, 0.51, 1.03, 2.41 and 2.57 s for 1, 2, 4, 8 and 10
billion parameters on a DGX-2 of 256 GB/s, with 30 bytes read and written for each: 0.39 to
0.53."""

# --- overlap ---

TENSOR_HIDDEN: Final = 0.9
"""Share of tensor-parallel communication hidden where products and collectives are cut into
pieces that run beside each other (userbuffers, AsyncTP). Steps of NeMo: 0.80 to 0.97."""

SENDS_HIDDEN: Final = 0.8
"""Share of a pipeline's sends hidden where chunks are interleaved and a chunk's sends run
beside the next one's compute. Assumed; steps of NeMo do not tell 0.5 from 0.9."""

EXPERT_HIDDEN: Final = 0.7
"""Share of the experts' exchange hidden where a forward pass runs beside another's backward.
Assumed."""

OVERLAP_LEAK: Final = 0.10
"""Share of hidden data-parallel traffic by which its compute takes longer all the same: both
want the same multiprocessors and the same memory. Assumed; steps of NeMo ask for no more."""

PREFETCH_LEAK: Final = 0.35
"""The same where parameters are gathered layer by layer in every micro-batch, one layer ahead
at most (FSDP). Steps of llm-foundry and torchtitan: 0.3 to 0.4."""

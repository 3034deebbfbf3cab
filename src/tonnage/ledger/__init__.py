"""The ledger: every formula of a layer, written once and read three ways."""

from tonnage.ledger.count import ParameterCount, parameters
from tonnage.ledger.decode import decode_operations, decodes
from tonnage.ledger.flops import ModelFlops, sequence_flops
from tonnage.ledger.layer import layer_operations, saved_bytes, saved_tensors
from tonnage.ledger.loss_copies import (
    head_in_pieces,
    logits_in_backward,
    logits_in_product,
    loss_bytes,
    stranded_logits,
)
from tonnage.ledger.model import (
    StageLedger,
    stage_ledgers,
    whole,
    whole_stage,
)
from tonnage.ledger.operation import Collective, Operation, Operations, Tensor, Weight, weights_of

__all__ = [
    "Collective",
    "ModelFlops",
    "Operation",
    "Operations",
    "ParameterCount",
    "StageLedger",
    "Tensor",
    "Weight",
    "decode_operations",
    "decodes",
    "head_in_pieces",
    "layer_operations",
    "logits_in_backward",
    "logits_in_product",
    "loss_bytes",
    "parameters",
    "saved_bytes",
    "saved_tensors",
    "sequence_flops",
    "stage_ledgers",
    "stranded_logits",
    "weights_of",
    "whole",
    "whole_stage",
]

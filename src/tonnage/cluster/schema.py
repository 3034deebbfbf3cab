"""What a cluster file and a device file may hold, as models of pydantic.

Only `tonnage.cluster.files` imports this, when it has a file to read: pydantic costs more
to import than most commands take.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_MOST_TEXT = 200
_MOST_DEVICES = 10_000_000

Text = Annotated[str, Field(min_length=1, max_length=_MOST_TEXT)]
Measured = Annotated[dict[Text, float], Field(max_length=32)]
"""Constants by name; `tonnage.cluster.measured` knows which there are."""
Count = Annotated[int, Field(ge=1, le=_MOST_DEVICES)]


class _File(BaseModel):
    """No unknown keys, and no value of another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class LinkFile(_File):
    """A link that is not in the catalog: ``{bandwidth = "50GB/s", latency = "5us"}``."""

    bandwidth: Text
    latency: Text
    name: Text = "a link of the file"
    measured: Measured = Field(default_factory=dict)


class ClusterFile(_File):
    """The keys of a cluster file."""

    device: Text
    gpus: Count | Text
    gpus_per_node: Count | None = None
    scale_up_domain: Count | None = None
    scale_up: Text | LinkFile | None = None
    scale_up_bandwidth: Text | None = None
    scale_up_latency: Text | None = None
    network: Text | LinkFile | None = None
    network_bandwidth: Text | None = None
    network_latency: Text | None = None
    host: Text | LinkFile | None = None
    host_bandwidth: Text | None = None
    host_memory_bandwidth: Text | None = None
    host_sharing: Count | None = None
    host_devices: Count | None = None


class DeviceFile(_File):
    """The keys of a device file."""

    name: Text
    memory: Text
    bandwidth: Text
    peak: Annotated[dict[Text, Text | float], Field(min_length=1, max_length=16)]
    usable_memory: Text | None = None
    vendor: Text = "unknown"
    architecture: Annotated[str, Field(max_length=_MOST_TEXT)] = ""
    tdp_watts: Annotated[int, Field(ge=1, le=100_000)] | None = None
    multiprocessors: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    scale_up: Text | LinkFile = "PCIe 4"
    scale_up_domain: Count | None = None
    gpus_per_node: Count = 8
    network: Text | LinkFile = "100 GbE, an eighth"
    host: Text | LinkFile | None = None
    host_memory_bandwidth: Text | None = None
    host_sharing: Count | None = None
    host_devices: Count | None = None
    context: Text | None = None
    measured: Annotated[dict[Text, float | Measured], Field(max_length=32)] = Field(
        default_factory=dict
    )
    source: Annotated[str, Field(max_length=1000)] = ""

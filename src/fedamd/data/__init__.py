"""Data sets, and which client owns which samples."""

from fedamd.data.base import Clients, ClientTests, Constants, Dataset, Partition
from fedamd.data.fetch import fetch
from fedamd.data.partition import PARTITIONERS, Partitioner, partitioner
from fedamd.data.sources import SOURCES, Source, load, where
from fedamd.data.virtual import VirtualPartition

__all__ = [
    "PARTITIONERS",
    "SOURCES",
    "ClientTests",
    "Clients",
    "Constants",
    "Dataset",
    "Partition",
    "Partitioner",
    "Source",
    "VirtualPartition",
    "fetch",
    "load",
    "partitioner",
    "where",
]

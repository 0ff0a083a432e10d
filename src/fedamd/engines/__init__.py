"""Engines: where and how the exchanges of an algorithm are executed."""

from fedamd.engines.base import Engine
from fedamd.engines.factory import ENGINES, ResolvedEngine, choose_engine, make_engine
from fedamd.engines.loop import LoopEngine
from fedamd.engines.vector import VectorEngine

__all__ = ["ENGINES", "Engine", "LoopEngine", "ResolvedEngine", "VectorEngine", "choose_engine", "make_engine"]

"""A thread in foreign code, for scripts that end under it."""

from __future__ import annotations

DECODE = """
import numpy as np
from pcodec import ChunkConfig, standalone

data = standalone.simple_compress(np.arange(100_000.0), ChunkConfig())

def decode():
    while True:
        standalone.simple_decompress(data)
"""
"""Defines a function that decodes for ever, in Rust."""

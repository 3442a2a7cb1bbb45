"""How far, and in which steps, the values of a variable are read ahead."""

from __future__ import annotations

from contextlib import closing

import numpy as np

from nczfs.engine.dataset import Engine
from nczfs.engine.options import EngineOptions
from nczfs.testing.datasets import put_array, put_group
from nczfs.views.elements import STEP_CHUNKS, WINDOW_BYTES, ArrayElements
from tests.support.counted import CountedStore, opened, variable


def test_a_step_of_a_window_has_few_chunks() -> None:
    store = CountedStore(near=True)
    put_group(store, "")
    put_array(store, "tiny", np.zeros(8, "<i4"), (1,))
    put_array(store, "large", np.zeros(1 << 20, "<i4"), (1 << 20,))
    with closing(Engine(EngineOptions())) as engine:
        dataset = opened(store, engine)

        def step_bytes(name: str) -> int:
            node = variable(dataset, name)
            elements = ArrayElements(dataset.array(node), node)
            return elements.ahead(4, 4 * WINDOW_BYTES, uncopied=False).step_bytes

        assert step_bytes("tiny") == STEP_CHUNKS * 4
        assert step_bytes("large") == WINDOW_BYTES

"""Requests to an S3 server, counted on their way."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

from tests.support.servers import Faults


def requests_of(faults: Faults, act: Callable[[], object]) -> Counter[str]:
    """What is asked of the server during a call: "LIST", or a method and the key."""
    faults.set("delay:1")  # which is logged
    act()
    asked = [json.loads(line) for line in faults.log()]
    faults.set()
    return Counter(
        "LIST"
        if "list-type" in line["path"]
        else f"{line['method']} {line['path'].partition('?')[0].split('/', 2)[2]}"
        for line in asked
    )

"""The models again, for 100,000 steps each, in parts that can be run one by one.

The number of a part is its seed: what fails in ``[test_journal:KilledMounts-7]`` fails there again.
"""

from __future__ import annotations

import logging
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

PARTS = 20
STEPS_OF_A_PART = 5_000
STEPS_OF_AN_EXAMPLE = 50
MACHINE = re.compile(r"^Test\w+ = (\w+)\.TestCase$", re.MULTILINE)


def machines() -> list[str]:
    """The state machines of the files beside this one, without importing them."""
    return [
        f"{path.stem}:{name}"
        for path in sorted(Path(__file__).parent.glob("test_*.py"))
        for name in MACHINE.findall(path.read_text("utf-8"))
    ]


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("machine", machines())
def test_a_model_holds_for_long(machine: str, part: int, caplog: pytest.LogCaptureFixture) -> None:
    # What is logged is not looked at here, and what a record holds would stay for the whole part.
    caplog.set_level(logging.CRITICAL + 1, "nczfs")
    module, _, name = machine.partition(":")
    found = getattr(import_module(f"tests.model.{module}"), name)
    steps = 0

    def check_invariants(self: RuleBasedStateMachine, *arguments: Any) -> None:
        nonlocal steps
        steps += 1
        found.check_invariants(self, *arguments)

    turn = 0
    while (missing := STEPS_OF_A_PART - steps) > 0:
        counted = type(name, (found,), {"check_invariants": check_invariants})
        run_state_machine_as_test(
            seed(part + turn * PARTS)(counted),
            settings=settings(
                max_examples=-(-missing // STEPS_OF_AN_EXAMPLE),
                stateful_step_count=STEPS_OF_AN_EXAMPLE,
                deadline=None,
                database=None,  # or all parts fail after one
                suppress_health_check=[HealthCheck.too_slow],
            ),
        )
        turn += 1

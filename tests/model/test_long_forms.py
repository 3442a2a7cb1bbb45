"""The models again, for 100,000 steps each."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.conftest import ExpectedWarnings

STEPS = 100_000
STEPS_OF_AN_EXAMPLE = 50
BASES = "RuleBasedStateMachine|ObjectsTree|TwoClients"
MACHINE = re.compile(rf"^class (\w+)\((?:{BASES})\):", re.MULTILINE)


def machines() -> list[str]:
    """The state machines of the files beside this one, without importing them."""
    return [
        f"{path.stem}:{name}"
        for path in sorted(Path(__file__).parent.glob("test_*.py"))
        for name in MACHINE.findall(path.read_text("utf-8"))
    ]


@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("machine", machines())
def test_a_model_holds_for_long(machine: str, expected_warnings: ExpectedWarnings) -> None:
    expected_warnings.add("")  # each file has its own; what is logged is not looked at here
    module, _, name = machine.partition(":")
    found = getattr(import_module(f"tests.model.{module}"), name)
    assert issubclass(found, RuleBasedStateMachine)
    run_state_machine_as_test(
        found,
        settings=settings(
            max_examples=STEPS // STEPS_OF_AN_EXAMPLE,
            stateful_step_count=STEPS_OF_AN_EXAMPLE,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )

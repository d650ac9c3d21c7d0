"""Lets the tests here import `mutants` and the generic checks; prints the bounds with -v."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "contract")]

SEEN: list[str] = []


@pytest.fixture
def note():
    """Keeps a line for the end of the run."""
    return SEEN.append


def pytest_terminal_summary(terminalreporter, config):
    if SEEN and config.get_verbosity() >= 0:
        terminalreporter.section("planted bugs, and the bound or the number that catches each")
        for line in SEEN:
            terminalreporter.write_line(line)

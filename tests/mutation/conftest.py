"""Lets the tests here import the package `mutants` beside them; prints the bounds with -v."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

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

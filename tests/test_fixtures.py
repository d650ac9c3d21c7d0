"""What a refactoring must not change is as tests/fixtures/record.py recorded it."""

import importlib.util
import json
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parent / "fixtures"
_spec = importlib.util.spec_from_file_location("record", FIXTURES / "record.py")
record = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(record)


def recorded(name):
    return json.loads((FIXTURES / "actions.json").read_text())[name]


@pytest.mark.parametrize("name", record.LINEAR)
def test_linear_bandit__plays_as_recorded(name):
    assert record.linear_actions(name) == recorded(name)


def test_sparse_bandit__plays_as_recorded():
    assert record.sparse_actions() == recorded("sparse")

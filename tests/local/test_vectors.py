"""The same words give the same report: here in Python, in clients/js in Node and in Chromium."""

import json

import pytest

pytest.importorskip("msgspec")

from tests.local.vectors import FILE, made


def test_vectors__python_makes_them_again_bit_by_bit():
    assert json.loads(json.dumps(made())) == json.loads(FILE.read_text())

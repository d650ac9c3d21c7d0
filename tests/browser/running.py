"""Tests in Node and in a real Chromium, run by pytest: `node --test` on a file, with variables."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def needs_browser() -> str:
    """The program `node`; skips the test where Node or the packages are missing."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("browser tests need Node 20.11 or later")
    if not (HERE / "node_modules").is_dir():
        pytest.skip("browser tests need their packages: make test, or npm ci in tests/browser")
    return node


def run_node(file: Path, *, seconds: float = 120, **variables: str) -> None:
    """Run the tests of a JavaScript file; its report is the message if one fails."""
    command = [needs_browser(), "--test-reporter=spec", str(file)]
    done = subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, done.stdout + done.stderr

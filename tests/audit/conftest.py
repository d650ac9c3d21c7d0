"""Lets the tests here read the table of open bugs, tests/contract/known.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "contract"))

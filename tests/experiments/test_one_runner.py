"""Papers, benchmarks and experiments: one runner, one interval function, one loop."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path
    for folder in ("papers", "benchmarks", "src/discreet/experiments", "src/discreet/cli",
                   "src/discreet/audit", "src/discreet")
    for path in (ROOT / folder).glob("*.py")
)  # fmt: skip
HOMES = {  # what is done in one file only, and where
    r"ProcessPoolExecutor|multiprocessing": "src/discreet/audit/pool.py",
    r"\bstdtrit\b": "src/discreet/experiments/statistics.py",
}


@pytest.mark.parametrize("pattern", HOMES)
def test_one_way__pools_and_intervals_have_one_home(pattern):
    users = {str(path.relative_to(ROOT)) for path in FILES
             if re.search(pattern, path.read_text(encoding="utf-8"))}  # fmt: skip
    assert users <= {HOMES[pattern]}


def test_one_way__only_speed_benchmarks_and_play_call_decide_many():
    call = re.compile(r"(?<!def )\bdecide_many\(")
    users = {path.name for path in FILES if call.search(path.read_text(encoding="utf-8"))}
    assert users <= {
        "bandits.py",
        "bandits_clicks.py",
        "calibration.py",
        "growth.py",
        "scale.py",
    }  # they time it, or look inside

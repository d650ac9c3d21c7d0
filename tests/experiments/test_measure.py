"""Measurements: named by all that decides their numbers, run once, asked for by parameters."""

import importlib
import linecache
import math
import subprocess
import sys

import numpy as np
import pytest

from discreet.experiments.measure import Found, Measurement, grid, measured, run_measurement

FACTOR = 2.0


def _times(side):
    return FACTOR * side


def doubled(*, side, seed):
    return {"value": _times(side) + seed, "many": [side, seed]}


def broken(*, seed):
    return {"value": math.nan}


def test_measurement__its_key_depends_on_function_parameters_and_seed_alone():
    cells = grid(doubled, seeds=2, side=(1, 2))
    assert len({cell.key for cell in cells}) == 4
    again = Measurement(doubled, (("side", 1),), cells[0].seed)
    assert again.key == cells[0].key
    assert Measurement(broken, (("side", 1),), cells[0].seed).key != again.key


def test_measurement__what_is_not_finite_is_refused_and_leaves_no_file(tmp_path):
    with pytest.raises(ValueError, match="not finite"):
        run_measurement(grid(broken, seeds=1)[0], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_found__values_are_in_the_order_of_seeds_and_cells_asked_for_twice_count_once(tmp_path):
    cells = grid(doubled, seeds=3, side=(1, 2))
    pairs = [(cell, run_measurement(cell, tmp_path)) for cell in reversed(cells)]
    found = Found([*pairs, *pairs])
    assert found.cells == 6
    np.testing.assert_array_equal(found.over(doubled, side=2), [3004, 3005, 3006])
    assert found.over(doubled, "many", side=1).shape == (3, 2)


def test_measurement__its_key_changes_with_its_module_and_those_beside_it(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    main, helper = tmp_path / "measure_main.py", tmp_path / "measure_helper.py"
    texts = {
        main: "import math\nfrom measure_helper import times\n\n"
        "def measure(*, seed):\n    return {'value': times(seed)}\n",
        helper: "WORLDS = {'one': 1.0}\n\ndef times(seed):\n    return WORLDS['one'] * seed\n",
    }

    def key():
        for path, text in texts.items():
            path.write_text(text)
            sys.modules.pop(path.stem, None)
        linecache.clearcache()
        importlib.invalidate_caches()
        return grid(importlib.import_module(main.stem).measure, seeds=1)[0].key

    keys = [key(), key()]
    texts[helper] = texts[helper].replace("1.0", "2.0")
    keys.append(key())
    texts[main] = texts[main].replace("times(seed)", "times(seed + 1)")
    keys.append(key())
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


def test_measured__runs_what_is_new_and_gives_the_same_numbers_on_two_processes(tmp_path):
    seen = []
    one = measured(grid(doubled, seeds=(5, 3), side=(1, 2)), tmp_path / "one", workers=1)
    cells = grid(doubled, seeds=(5, 3), side=(1, 2))
    two = measured(cells, tmp_path / "two", workers=2, watch=lambda *far: seen.append(far))
    for side in (1, 2):
        np.testing.assert_array_equal(one.over(doubled, side=side), two.over(doubled, side=side))
    assert one.over(doubled, side=1).tolist() == [5.0, 7.0]  # in the order of the seeds
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert one.mean(doubled, side=2) == 8.0


SCRIPT = """
from pathlib import Path
from discreet.experiments.measure import grid, records

def found(*, side, seed):
    return {"value": side + seed}

if __name__ == "__main__":
    cells = grid(found, seeds=2, side=(1, 2))
    records(cells, Path("out"), workers=2)
    print(all(Path("out", f"{cell.key}.json").exists() for cell in cells))
"""


def test_measurement__of_a_script_has_the_same_key_in_processes_that_run_it(tmp_path):
    """There `__main__` has another name: a script that was stopped began again."""
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"

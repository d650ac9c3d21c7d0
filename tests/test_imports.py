"""What importing a room costs."""

import subprocess
import sys

import pytest

SLOW = {
    "dp_accounting",
    "opendp",
    "pandas",
    "scipy.optimize",
    "scipy.special",
    "scipy.stats",
    "sklearn",
}


@pytest.mark.parametrize("room", ["bandits", "features", "local", "online", "privacy"])
def test_import__a_room_loads_nothing_slow_before_it_is_used(room):
    """scipy.special alone takes twice as long to load as numpy."""
    code = f"import sys, discreet.{room}; print(*({SLOW!r} & set(sys.modules)))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == []

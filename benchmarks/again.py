"""Measure again what other code made: `make bench`.

    python benchmarks/again.py                 all that is stale, cheapest first
    python benchmarks/again.py regression      of scripts with this in their name
    python benchmarks/again.py --probe         only what probes can tell; nothing is measured
    python benchmarks/again.py --list          what is stale, and the minutes that it took

A table whose probe (probes.py) finds today what it found then gets the digests of today's code. A
script with a table that is left runs whole; tables that it prints no more are taken out. Stop it
when you like: the same command goes on, with the cells that are finished. What fails is named at
the end, and the status is 1.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import figures_check
import probes
from rich.console import Console

from discreet.experiments.writing import write_atomically

FIGURES = figures_check.ROOT / "docs" / "figures"
CONSOLE = Console()


class Results:
    """The results file of a script."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tables: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))

    @property
    def minutes(self) -> float:
        """Of one processor, for all tables; those that do not say come last."""
        return sum(table.get("seconds", 1e6) for table in self.tables.values()) / 60

    def stale(self) -> list[str]:
        """Tables that other code made."""
        return [title for title, table in self.tables.items() if figures_check.changed(table)]

    def probed(self) -> list[str]:
        """Tables that are left when probes have told what they can; the others are of this code."""
        left = []
        for title in self.stale():
            table = self.tables[title]
            if probes.agrees(table.get("probe", {"runs": []})):
                table["code"] = figures_check.code(sys.modules, self.path.stem)
            else:
                left.append(title)
        self._write()
        return left

    def forget(self) -> list[str]:
        """Take out the tables that a whole run has not printed, hence are stale still."""
        gone = self.stale()
        for title in gone:
            del self.tables[title]
        self._write()
        return gone

    def _write(self) -> None:
        text = json.dumps(self.tables, indent=1, sort_keys=True, ensure_ascii=False)
        write_atomically(self.path, text + "\n")


def wanted(parts: list[str]) -> Iterator[Results]:
    """Results with a stale table, cheapest first."""
    files = [path for path in FIGURES.glob("*.json") if any(part in path.stem for part in parts)]
    for results in sorted(map(Results, files), key=lambda each: each.minutes):
        if results.stale():
            yield results


def apart(name: str, *arguments: str) -> int:
    """Run a script by itself; its status."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    script = Path(__file__).parent / f"{name}.py"
    return subprocess.run([sys.executable, str(script), *arguments], env=environment).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=[""])
    parser.add_argument("--probe", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--one", type=Path, help="probe one file, in this process")
    options = parser.parse_args()
    if options.one:
        return len(Results(options.one).probed())
    failed = []
    for results in list(wanted(options.parts)):
        name = results.path.stem
        stale = len(results.stale())
        about = f"{name}: {stale} of {len(results.tables)} tables, {results.minutes:,.1f} minutes"
        if options.list:
            CONSOLE.print(about)
        elif apart("again", "--one", str(results.path)) == 0:
            CONSOLE.print(f"{name}: its probes find the same")
        elif options.probe:
            CONSOLE.print(f"{about}: to be measured again")
        else:
            CONSOLE.print(about)
            if apart(name):
                failed.append(name)
            elif gone := Results(results.path).forget():
                CONSOLE.print(f"{name} prints no more: {'; '.join(gone)}")
    if failed:
        CONSOLE.print(f"failed: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())

"""`discreet report`: the page of a run, once more."""

import os
import sys
from pathlib import Path
from typing import Annotated

from typer import Argument

from discreet.cli.options import Show


def report(
    folder: Annotated[Path, Argument(help="Where a run wrote its results.")],
    show: Show = True,
) -> None:
    """Write the report of a run again, from what is finished; also of one that was stopped."""
    from discreet.experiments.report import write_report
    from discreet.experiments.runner import load

    show_page(write_report(load(folder), folder), show)


def show_page(path: Path, show: bool) -> None:
    """Open a page where there is a display; print its path in any case."""
    print(f"Report: {path}")
    display = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    if show and display and sys.stdout.isatty():
        import webbrowser

        webbrowser.open(path.resolve().as_uri())

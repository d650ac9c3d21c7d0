"""Plans as TOML files; a mistake is reported with its line."""

import re
import tomllib
from pathlib import Path

from discreet.experiments.experiment import Experiment, ExperimentError, Keys, place
from discreet.experiments.tasks import check
from discreet.objects import look_in

_HEADER = re.compile(r"\s*(\[\[?)\s*([\w.\"-]+)\s*\]\]?")
_KEY = re.compile(r"\s*[\"']?([\w-]+)[\"']?\s*=")


def read_experiment(path: Path) -> Experiment:
    """The experiment of a TOML file, checked: every environment and learner in it can be made.

    A mistake is a ExperimentError that names the line, the key and what to do.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ExperimentError((), f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ExperimentError((), f"{path} is not text; an experiment is a TOML file") from None
    look_in(path.parent)  # learners and worlds of one's own stand beside the file
    try:
        experiment = Experiment.from_dict(tomllib.loads(text))
        check(experiment)
    except tomllib.TOMLDecodeError as error:
        raise ExperimentError((), f"{path} is not valid TOML: {error}") from None
    except ExperimentError as error:
        line = line_of(text, error.path)
        where = f", line {line}" if line else ""
        what = f" ({place(error.path)})" if error.path else ""
        raise ExperimentError((), f"{path}{where}{what}: {error.message}") from None
    return experiment


def line_of(text: str, path: Keys) -> int | None:
    """The line of a value in TOML text, or that of its table; None for no value in particular.

    >>> text = 'rounds = 10\\n[[learners]]\\nname = "a"\\n[[learners]]\\nname = "b"'
    >>> line_of(text, ("rounds",)), line_of(text, ("learners", 1, "name"))
    (1, 5)
    >>> line_of(text, ("learners", 1, "absent")), line_of(text, ())
    (4, None)
    """
    keys = [str(part) for part in path if not isinstance(part, int)]
    index = path[1] if len(path) > 1 and isinstance(path[1], int) else None
    table: list[str] = []
    count = -1
    best = 0
    found = None
    for number, line in enumerate(text.splitlines(), start=1):
        here = table
        if header := _HEADER.match(line):
            here = table = header[2].replace('"', "").split(".")
            count += header[1] == "[[" and table == keys[:1]
        elif key := _KEY.match(line):
            here = [*table, key[1]]
        else:
            continue
        right = not table or index is None or count == index  # of several tables of this name
        if right and best < len(here) <= len(keys) and here == keys[: len(here)]:
            best, found = len(here), number
    return found

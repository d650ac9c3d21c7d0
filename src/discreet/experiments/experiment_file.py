"""Experiments as TOML files; a mistake is told with the key that it is in."""

import tomllib
from pathlib import Path

from discreet.experiments.experiment import Experiment, ExperimentError
from discreet.experiments.own import look_in
from discreet.experiments.tasks import check


def read_experiment(path: Path) -> Experiment:
    """The experiment of a TOML file, checked: every environment and learner in it can be made.

    A mistake is an ExperimentError that names the key (`learners[2].policy`) and what to do.
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
        raise ExperimentError((), f"{path}: {error}") from None
    return experiment

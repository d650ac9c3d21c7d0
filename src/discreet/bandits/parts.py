"""Parts of a bandit's promise and of its world, stated publicly: `People` and `Model`."""

from dataclasses import dataclass, fields

import numpy as np

from discreet.arrays import integer, one_of, positive
from discreet.least_squares.blocks import SHARED
from discreet.links import LINKS
from discreet.state import value


def assert_part(name: str, given: object, kind: type, like: str) -> None:
    """Refuse a plain value where a part is declared: people="first", holdout=0.05."""
    if given is not None and not isinstance(given, kind):
        got = type(given).__name__
        raise ValueError(f"{name} must be a {kind.__name__}, as in {name}={like}; got {got}")


@value
@dataclass(frozen=True)
class People:
    """What of a person is protected: everything they ever do, or so many rounds.

    visits   everything: `learn` is told whose reward it is. Of a person's rewards the "first"
             counts, with the whole budget; or "all" do, one in each window, and windows share the
             budget
    rounds   only so many rounds of one person, in which they may take part; the caller enforces
             that limit, for instance with `ContributionLimiter`

    >>> People(visits="first"), People(rounds=3).contributions
    (People(visits='first', rounds=None), 3)
    """

    visits: str | None = None
    rounds: int | None = None

    def __post_init__(self) -> None:
        if (self.visits is None) == (self.rounds is None):
            raise ValueError(
                "People protects everything that a person does, visits='first' or 'all', or so "
                "many rounds of a person, rounds=k: say one of them"
            )
        if self.rounds is None:
            one_of("visits", self.visits, ("first", "all"))
        else:
            object.__setattr__(self, "rounds", integer("rounds", self.rounds))

    @property
    def contributions(self) -> int:
        """Rows of one person in the windows that share no budget."""
        return self.rounds or 1

    @property
    def shares(self) -> bool:
        """Whether a person may have a row in every window, so that windows share the budget."""
        return self.visits == "all"

    def assert_fits(self, trust: str) -> None:
        """Refuse what only a server that knows people can do."""
        if self.visits is not None and trust != "joint":
            raise ValueError(
                f"trust={trust!r} protects reports: say how many one device may send, "
                "people=People(rounds=k)"
            )


@value
@dataclass(frozen=True)
class Model:
    """How rewards depend on features: what is assumed, publicly, before anything is learnt.

    link             nu of the expected reward nu(<phi, theta> + intercept): "identity", "logistic",
                     "probit" or "poisson". Others than the identity learn more slowly, 0/1 rewards
                     too, and pay where means come near 0 and 1 and rounds are many
    blocks           a label for each feature, where no row has features of two blocks, such as
                     weights for every action; -1 for features beside any. What must be 0 is then
                     not estimated: less noise for the same promise. Left out, 4 actions gain .86 of
                     what there is instead of .90, rare rewards .71 instead of .76, and 2 of 100
                     runs stay with a wrong action. A FeatureMap in place of `dim` brings them
    half_life        decisions after which a reward counts half; windows are at most half as long.
                     "auto" forgets only when releases show that theta has moved, and has short
                     windows then; None: never
    typical_reward   about how large expected rewards are, and what features change in them, in
                     units of the rewards, from what is publicly known: .03 for clicks of 3%. It is
                     expected before anything is known; the smaller, the longer the first window.
                     Wrong by 3 costs less than saying nothing. None: half of the reward range

    >>> Model(blocks=[0, 0, 1])
    Model(link='identity', blocks=(0, 0, 1), half_life=None, typical_reward=None)
    """

    link: str = "identity"
    blocks: tuple[int, ...] | None = None
    half_life: float | str | None = None
    typical_reward: float | None = None

    def __post_init__(self) -> None:
        one_of("link", self.link, tuple(LINKS))
        if self.blocks is not None:
            labels = tuple(integer("blocks", each, least=SHARED) for each in self.blocks)
            object.__setattr__(self, "blocks", labels)
        if isinstance(self.half_life, str):
            one_of("half_life", self.half_life, ("auto",))
        elif self.half_life is not None:
            if not 2 <= float(self.half_life) < np.inf:
                raise ValueError(
                    f"half_life must be 'auto' or at least 2 decisions, got {self.half_life!r}; "
                    "leave it out to forget nothing"
                )
            object.__setattr__(self, "half_life", float(self.half_life))
        if self.typical_reward is not None:
            typical = positive("typical_reward", self.typical_reward)
            object.__setattr__(self, "typical_reward", typical)
            if self.link != "identity":
                raise ValueError(
                    f"typical_reward is a size of <phi, theta>, which link={self.link!r} does not "
                    "measure in rewards: leave it out, or the link"
                )

    def assert_fits(self, dim: int, largest: float) -> None:
        """Refuse labels of another number of features, and rewards larger than the largest."""
        if self.typical_reward is not None and self.typical_reward > largest:
            raise ValueError(
                f"typical_reward must be at most the largest reward, {largest:g}, got "
                f"{self.typical_reward:g}"
            )
        if self.blocks is not None and len(self.blocks) != dim:
            raise ValueError(
                f"blocks must have a label for each of the {dim} features, got "
                f"{len(self.blocks)}; a FeatureMap in place of `dim` brings them"
            )

    def assert_plain(self, where: str) -> None:
        """Refuse all that only joint trust with weighted least squares can use."""
        for each in fields(self):
            if getattr(self, each.name) != each.default:
                raise ValueError(f"{where} takes no Model({each.name}=)")

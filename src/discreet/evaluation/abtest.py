"""`ABTest`: which arm is better, with intervals that hold whenever you look.

People are split by a public function of their id. A person's values are scaled to a range of
length 1 in which "no value" is 0: y = (value - zero) / (high - low), zero the number in
[low, high] that is closest to 0. With public weights h, one for each metric, |h| = 1, the term

    (h_1 y_1, ..., h_M y_M; SPREAD h_1 q_1, ..., SPREAD h_M q_M)    in the place of the person's arm

enters the totals of the batch in which the person is added. q says how far values are from both
ends of their range, as coins never are: with x = y - y_low in [0, 1], q = x (1 - x), less that of
"no value". Replaced, a person stays in the same arm and batch, which follow from public things
alone: the id, and when they were added. So their term moves within its place, and for each metric
y and q together move by h at most (`intervals.py`): sqrt(sum h^2) = 1 in all.
"""

import copy
import itertools
import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Array, finite_range, integer, number, one_of
from discreet.evaluation.assignment import arm_number, sample_ratio_evidence
from discreet.evaluation.columns import column, ids_in, numbers_alone, tables
from discreet.evaluation.intervals import SPREAD, confident
from discreet.evaluation.looks import Look, Metric, Reader, Released, counts
from discreet.evaluation.totals import MOST, BatchTotals, ExperimentTotals, RunningTotals
from discreet.privacy import Budget, Guarantee
from discreet.privacy.noise import Noise, source
from discreet.privacy.people import ContributionLimiter
from discreet.state import Stateful, damaged

MECHANISMS = ("auto", "batches", "running")
MAIN = 0.5  # of the squared weights that the main metric has, beside guardrails
UNPROTECTED = (
    "who takes part, in which arm, and between which looks they are added",
    "the public bounds",
)
OPEN = "anything, against whoever sees a stolen state"
STOLEN = "more than one stolen state, or one beside what is published later"


@dataclass
class _Read:
    """What the releases so far say."""

    readers: list[Reader]  # of each metric
    people: NDArray[Any]  # in each arm
    evidence: float = 0.0  # the most so far against the split
    looks: tuple[Look, ...] = ()  # one for each release


class ABTest(Stateful):
    """An experiment on people, of whom nobody can tell what any one of them did.

    Requires   people are told apart by an id. They are added at times that do not depend on what
               they did: a week after they came, say, and also those who did nothing.
    Guarantee  (epsilon, delta) for each person, with all of their values, for all looks together:
               Gaussian releases of disjoint batches, or running sums of them.

    Look when you like: with probability `confidence` all intervals of a metric, of all looks, hold
    together. Means are over everybody who was added; a missing value counts as the number in the
    metric's range that is closest to 0.

    Parameters
        arms             their names; the first is the control in reports
        metrics          public range (low, high) of each, by name: the first decides, the others
                         are guardrails. Values beyond are clipped
        epsilon          privacy loss, for all looks together; inf switches privacy off
        delta            probability of a larger loss; above 0
        salt             of the split, public: another experiment, another salt. Drawn if left out
        split            the fraction of people for each arm; even if left out
        lower_is_better  metrics that should be low
        looks            the most looks; matters for running sums alone
        mechanism        "running" sums, less noise after many looks; "batches", any number of
                         looks, narrower at once; "auto": running where epsilon <= 1
        confidence       that what is shown of a metric holds
        noise            SecureNoise() for release, SeededNoise(seed) for simulations; None for
                         float noise from the operating system

    >>> from discreet.privacy import SeededNoise
    >>> test = ABTest(("A", "B"), {"converted": (0, 1)}, 1.0, salt="s", noise=SeededNoise(0))
    >>> people, rng = np.arange(20_000), np.random.default_rng(0)
    >>> arms = test.assign(people)
    >>> chances = np.where(arms == "B", 0.14, 0.1)
    >>> test.add_many(people, {"converted": rng.random(20_000) < chances}).all()
    np.True_
    >>> look = test.look()
    >>> print(look, look["converted"].difference("B", "A"))
    look 1: B beats A 0.024 (0.00416 to 0.0438)
    """

    _state = ("noise", "_salt", "_people", "_totals", "_sizes", "_released")

    def __init__(
        self,
        arms: Sequence[str],
        metrics: Mapping[str, tuple[float, float]],
        epsilon: float,
        delta: float = 1e-6,
        *,
        salt: str | None = None,
        split: Sequence[float] | None = None,
        lower_is_better: Sequence[str] = (),
        looks: int = 50,
        mechanism: str = "auto",
        confidence: float = 0.95,
        noise: Noise | None = None,
    ) -> None:
        self.arms = tuple(str(each) for each in arms)
        if len(set(self.arms)) != len(self.arms) or len(self.arms) < 2:
            raise ValueError(f"arms must be two or more different names, got {arms!r}")
        if not metrics:
            raise ValueError("metrics must name at least one metric with its public range")
        self.metrics = {str(n): finite_range(f"the range of {n!r}", r) for n, r in metrics.items()}
        budget = Budget(epsilon, delta)
        if budget.pure and not budget.off:
            raise ValueError("delta must be above 0: the noise is Gaussian; 1e-6 is usual")
        self.epsilon, self.delta = budget.epsilon, budget.delta
        self.salt = None if salt is None else str(salt)
        self.split = self._fractions(split)
        self.lower_is_better = tuple(str(each) for each in lower_is_better)
        for each in self.lower_is_better:
            one_of("lower_is_better", each, tuple(self.metrics))
        self.looks = integer("looks", looks)
        self.mechanism = one_of("mechanism", mechanism, MECHANISMS)
        self.confidence = confident(confidence)
        self.noise = source(noise)
        self._salt = secrets.token_hex(8) if self.salt is None else self.salt
        # Who takes part is public; the table is keyed with the salt that everybody knows.
        self._people = ContributionLimiter(1, salt=b"people of " + self._salt.encode())
        self._totals: ExperimentTotals = self._begun(budget)
        self._sizes = np.zeros(len(self.arms), dtype=np.int64)  # people since the last look
        self._released: tuple[Released, ...] = ()
        # What the releases say: computed from them alone, once for each.
        bounds = (self.looks if self.running else 0, 1 - self.confidence, len(self.arms))
        readers = [Reader(*bounds) for _ in self.metrics]
        self._read = _Read(readers, np.zeros(len(self.arms), dtype=np.int64))

    def _fractions(self, split: Sequence[float] | None) -> tuple[float, ...]:
        if split is None:
            return (1 / len(self.arms),) * len(self.arms)
        fractions = tuple(number("split", each) for each in split)
        if len(fractions) != len(self.arms) or min(fractions) <= 0:
            raise ValueError(f"split must be {len(self.arms)} positive fractions, got {split!r}")
        if not math.isclose(sum(fractions), 1, abs_tol=1e-9):
            raise ValueError(f"split must sum to 1, got {sum(fractions):g}")
        return fractions

    def _begun(self, budget: Budget) -> ExperimentTotals:
        dim = 2 * len(self.arms) * len(self.metrics)
        if self.running:
            return RunningTotals(dim, budget, self.looks, self.noise)
        return BatchTotals(dim, budget, self.noise)

    @property
    def running(self) -> bool:
        """Whether looks show running sums: at epsilon <= 1, where noise is most of the width."""
        if self.mechanism == "auto":
            return self.epsilon <= 1
        return self.mechanism == "running"

    @property
    def weights(self) -> Array:
        """h, one for each metric: of its squared length 1 the main metric has MAIN."""
        guards = len(self.metrics) - 1
        if not guards:
            return np.ones(1)
        return np.sqrt([MAIN, *[(1 - MAIN) / guards] * guards])

    # -- people -----------------------------------------------------------------------------------

    def arm(self, person: Any) -> str:
        """The arm of a person: always the same, and nothing is remembered."""
        return self.arms[arm_number(self._salt, person, np.cumsum(self.split))]

    def assign(self, people: Iterable[Any]) -> NDArray[np.str_]:
        """The arms of people, by their ids."""
        cumulative = np.cumsum(self.split)
        names = np.array(self.arms)
        return names[[arm_number(self._salt, each, cumulative) for each in ids_in(people)]]

    def add(self, person: Any, values: Mapping[str, Any]) -> bool:
        """`add_many` for one person; False for someone who was added before."""
        return bool(self.add_many([person], {n: [each] for n, each in values.items()})[0])

    def add_many(self, people: Any, values: Any = None) -> NDArray[np.bool_]:
        """Add people with their values; says whose count.

        `people` are ids and `values` columns by name: arrays, or a data frame, Arrow table or batch
        with such columns. Or `people` is such a table, with a column "person" too, a stream of
        Arrow batches, or files: .csv, .parquet or .arrow, by name, pattern or folder. Of files and
        streams ids and these columns alone are kept in memory. NaN: no value; so is a cell that is
        no number, alone. Text is read as the number it spells.

        A person with several rows in one call counts once, with the mean of each metric; one who
        was added by an earlier call does not count again. So the answer depends on ids alone.
        """
        cumulative = np.cumsum(self.split)
        keys: list[str] = []
        arms: list[int] = []
        rows = [np.zeros((0, len(self.metrics)))]
        for table in tables(people) if values is None else (values,):
            ids = ids_in(column(table, "person") if values is None else people)
            scaled = [self._scaled(name, table, len(ids)) for name in self.metrics]
            rows.append(np.column_stack(scaled))
            keys += map(self._people._key, ids)
            arms += [arm_number(self._salt, each, cumulative) for each in ids]
        with self._live:
            self._finish_look()
            return self._added(keys, np.array(arms, dtype=np.intp), np.concatenate(rows))

    def _added(self, keys: list[str], arms: NDArray[np.intp], rows: Array) -> NDArray[np.bool_]:
        first: dict[str, int] = {}
        places = np.array([first.setdefault(key, at) for at, key in enumerate(keys)], dtype=np.intp)
        known = self._people._seen
        fresh = np.array([key not in known for key in keys], dtype=bool)
        # The mean of a person's rows is in the range of one row, so a term stays as long.
        counts = np.bincount(places, minlength=len(keys))
        shares = np.where(fresh, 1 / np.maximum(counts[places], 1), 0.0)
        means = np.zeros_like(rows)  # each in the place of the person's first row
        np.add.at(means, places, shares[:, None] * rows)
        terms = np.stack([means, SPREAD * means * (1 - 2 * self._zeros - means)], axis=1)
        sums = np.zeros((len(self.arms), *terms.shape[1:]))
        np.add.at(sums, arms, terms * self.weights)
        sizes = np.bincount(
            arms[fresh & (places == np.arange(len(keys)))], minlength=len(self.arms)
        )
        self._assert_room(int(sizes.sum()))
        # People and sizes first: who is lost in an interruption counts without values, never twice.
        known.update(dict.fromkeys((k for k, new in zip(keys, fresh, strict=True) if new), 1))
        self._commit(_sizes=self._sizes + sizes)
        self._totals.add(sums.ravel())
        return fresh

    def _scaled(self, name: str, values: Any, count: int) -> Array:
        """y of everybody: total, because whether a value is odd is private."""
        found = numbers_alone(column(values, name))
        if found.shape != (count,):
            raise ValueError(f"metric {name!r} must have a value for each of {count} people")
        low, high = self.metrics[name]
        zero = self._zero(name)
        return (np.clip(np.where(np.isnan(found), zero, found), low, high) - zero) / (high - low)

    def _zero(self, name: str) -> float:
        low, high = self.metrics[name]
        return min(max(0.0, low), high)

    @property
    def _zeros(self) -> Array:
        return np.array(
            [(self._zero(name) - low) / (high - low) for name, (low, high) in self.metrics.items()]
        )

    def _assert_room(self, new: int) -> None:
        counted = self._released[-1:] if self.running else self._released  # sums of all batches
        people = int(self._sizes.sum()) + sum(sum(each.sizes) for each in counted)
        if people + new > MOST:
            raise ValueError(f"an experiment has at most {MOST:,} people")

    # -- looks ------------------------------------------------------------------------------------

    def look(self) -> Look:
        """Release what was added since the last look, and say what is known; None was added: the
        last look again.

        Independent batches wait until the smaller arm has enough people to speak above the noise.
        """
        with self._live:
            self._finish_look()
            if self._is_due():
                if self.running and len(self._released) == self.looks:
                    raise ValueError(
                        f"all {self.looks} looks are used up; what is known is in `history`. "
                        "Another time state more looks"
                    )
                self._close()
        found = self.history
        return found[-1] if found else self._shown(self._read, 0)

    def _is_due(self) -> bool:
        if self.running:
            return bool(self._sizes.sum())
        smallest = int(self._sizes.min())
        return bool(smallest and counts(smallest, float(self._stds().max())))

    def _finish_look(self) -> None:
        if self._totals.is_out:
            self._close()

    def _close(self) -> None:
        stds = self._stds()
        value, following = self._totals.closed()
        sizes = self._sizes
        if self.running and self._released:
            sizes = sizes + np.array(self._released[-1].sizes)
        terms = value.reshape(len(self.arms), 2, -1) / self.weights
        everybody, zeros = sizes[:, None], self._zeros
        sums = terms[:, 0] + everybody * zeros
        spreads = terms[:, 1] / SPREAD + everybody * zeros * (1 - zeros)
        found = Released(tuple(sizes.tolist()), sums, tuple(stds.tolist()), spreads)
        self._commit(
            _totals=following,
            _sizes=np.zeros_like(self._sizes),
            _released=(*self._released, found),
        )

    def _stds(self) -> Array:
        return np.asarray(self._totals.std / self.weights)

    @property
    def released(self) -> tuple[Released, ...]:
        """The noisy sums themselves, look by look: safe to publish."""
        return self._released

    @property
    def history(self) -> tuple[Look, ...]:
        """All looks so far, from what was released."""
        read = replace(self._read, readers=copy.deepcopy(self._read.readers))
        for each in self._released[len(read.looks) :]:
            read.people = np.array(each.sizes) + (0 if self.running else read.people)
            evidence = sample_ratio_evidence(read.people.tolist(), np.array(self.split))
            read.evidence = max(read.evidence, evidence)
            for m, reader in enumerate(read.readers):
                sums, spreads = each.sums[:, m].tolist(), each.spreads[:, m].tolist()
                reader.take(each.sizes, sums, [each.stds[m]] * len(self.arms), spreads)
            read.looks += (self._shown(read, len(read.looks) + 1),)
        self._read = read  # at once: an interrupt, or another thread, sees all of it or nothing
        return read.looks

    def _shown(self, read: _Read, number: int) -> Look:
        metrics = {}
        pairs = list(itertools.combinations(self.arms, 2))
        for (name, (low, high)), reader in zip(self.metrics.items(), read.readers, strict=True):
            span = high - low
            means = [found.scaled(span, low) for found in reader.shown]
            differences = [found.scaled(span) for found in reader.differences().values()]
            metrics[name] = Metric(
                dict(zip(self.arms, means, strict=True)),
                dict(zip(pairs, differences, strict=True)),
                dict(zip(pairs, reader.p_values.values(), strict=True)),
                name not in self.lower_is_better,
            )
        people = dict(zip(self.arms, read.people.tolist(), strict=True))
        return Look(number, people, metrics, math.exp(-read.evidence), self.confidence)

    @property
    def guarantee(self) -> Guarantee:
        """The computed promise, from the looks so far."""
        return self._totals.ledger.guarantee(
            unprotected=(*UNPROTECTED, OPEN if self.running else STOLEN),
            reference="Gaussian sums of disjoint batches"
            if not self.running
            else "running sums; Denisov, McMahan, Rush, Smith, Thakurta (2022)",
            record="person",
        )

    def _validate(self) -> None:
        kind = RunningTotals if self.running else BatchTotals
        if type(self._totals) is not kind or not all(type(r) is Released for r in self._released):
            raise damaged("totals")
        if self._sizes.shape != (len(self.arms),) or self._sizes.min() < 0:
            raise damaged("sizes")

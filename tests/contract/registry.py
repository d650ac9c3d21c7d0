"""Every public learner, estimator, baseline and running sum, in one table: `REGISTRY`.

An `Entry` makes one (always with the same seeds), feeds it a data set step by step, and reads all
that it shows. The generic tests of this folder run on every entry, and `test_registry.py` fails if
a public class is missing, so that a new one cannot forget them. To add one, write a line here.

A data set is a list of rounds. `data(0)` and `data(1)` lie inside the public bounds and have
nothing in common but their shapes; `neighbour(t)` is `data(0)` with round t replaced, or all rounds
of its person where a person is protected.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from discreet import domains
from discreet.bandits import Device, Holdout, LinearBandit, LocalServer, SparseBandit
from discreet.bandits.baselines import ContinualLinUCB, LinUCB, LocalLinUCB, LocalSGDBandit
from discreet.bandits.policies import POLICIES
from discreet.links import LINKS
from discreet.online import (
    FTPL,
    FTRL,
    AdversarialBandit,
    BarrierBandit,
    Doubling,
    PrivateReduction,
    ProjectionFreeBandit,
)
from discreet.online.adversarial import Exp2
from discreet.optimization import StreamingFrankWolfe
from discreet.optimization.baselines import LocalMD, NoisySFW, NoisySGD
from discreet.optimization.generalized import GeneralizedGaussianSum
from discreet.privacy import Budget, Crowd, PrefixSum, SeededNoise, Tree
from discreet.regression import (
    OLS,
    SSP,
    AdaSSP,
    DPGradientDescent,
    PrivateGLM,
    PrivateLogisticRegression,
    PrivateSearchCV,
)
from discreet.regression import PrivateLinearRegression as Linear
from discreet.state import encode

EPSILON, DELTA, DIM, ACTIONS = 8.0, 1e-6, 2, 3


class Session:
    """A learner at work: what it decided, by round, and what everybody has seen of it."""

    def __init__(self, subject: Any) -> None:
        self.subject = subject
        self.decisions: dict[int, Any] = {}
        self.shown: list[Any] = []
        self.end: dict[str, Any] = {}  # what is shown at the end
        self.state: dict[str, Any] = {}


Step = tuple[str, int, Callable[[Session], None]]  # what is called, for which round, the call


@dataclass(frozen=True)
class Entry:
    """One configuration of one public class."""

    name: str
    of: type
    make: Callable[[], Any]
    family: "Family"
    rounds: int
    # Names of state entries that hold people's data in the clear, and which words of the guarantee
    # say so. Everything else in a state must be a function of what was released.
    clear: tuple[str, ...] = ()
    private: bool = True
    probe: Any = field(default=None, compare=False)  # the domain, where data depends on it

    def data(self, which: int) -> list[Any]:
        """One of two data sets, or a third one (2) that nobody compares."""
        return self.family.data(self, which)

    def neighbour(self, t: int) -> list[Any]:
        """The first data set with another person in round t."""
        rounds = self.data(0)
        for each in self.family.replaced(rounds, t):
            rounds[each] = self.data(1)[each]
        return rounds

    def steps(self, data: list[Any], delay: int = 0) -> list[Step]:
        """What is called, in order; feedback comes `delay` rounds late where it may."""
        return self.family.steps(data, delay)

    def shown(self, session: Session) -> dict[str, Any]:
        """All that others see, after the steps."""
        seen = {"decisions": session.shown, **self.family.shown(session)}
        promise = getattr(session.subject, "guarantee", None) or session.subject.guarantee_
        return {**seen, "guarantee": str(promise), "releases": list(promise.releases)}

    def state(self, session: Session) -> dict[str, Any]:
        """What a saved state holds, by dotted names, without random ones."""
        save = getattr(session.subject, "state_dict", None)
        state = flat(save()["state"]) if save else {}
        return {k: v for k, v in state.items() if not k.startswith(("_earlier", "_maker"))}

    def promise(self, session: Session) -> Any:
        """The computed guarantee."""
        subject = session.subject
        return subject.guarantee_ if hasattr(subject, "guarantee_") else subject.guarantee


def flat(state: Any, name: str = "") -> dict[str, Any]:
    """A tree of values as one dict: `_window.theta`, `_each.0.theta`, ..."""
    if isinstance(state, dict) and "@" in state:
        return flat(state["of"], name)
    if not isinstance(state, (dict, list)):
        return {name: state}
    parts = state.items() if isinstance(state, dict) else enumerate(state)
    found: dict[str, Any] = {}
    for key, value in parts:
        found |= flat(value, f"{name}.{key}".lstrip("."))
    return found


class Family:
    """How learners of one interface are fed and read."""

    late = False  # whether feedback may come late

    def contexts(self) -> list[Any]:
        """Contexts of one size for which a decision must use as many coins."""
        return []

    def replaced(self, data: list[Any], t: int) -> list[int]:
        """The rounds that neighbours do not share, if round t is one of them."""
        return [t]

    def quiet(self, entry: "Entry") -> tuple[list[Any], list[Any]] | None:
        """Neighbours that differ in the first round as far as they can; nobody else says a word."""
        return None

    def data(self, entry: Entry, which: int) -> list[Any]:
        """Rounds of a data set."""
        raise NotImplementedError

    def steps(self, data: list[Any], delay: int) -> list[Step]:
        """The calls that feed it."""
        raise NotImplementedError

    def shown(self, session: Session) -> dict[str, Any]:
        """What can be read at the end."""
        raise NotImplementedError


def interleaved(decides: list[Step], learns: list[Step], delay: int) -> list[Step]:
    """Every decision at its time, its feedback `delay` rounds later."""
    out: list[Step] = []
    for t, step in enumerate(decides):
        out.append(step)
        if t >= delay:
            out.append(learns[t - delay])
    return out + learns[len(decides) - delay :]


def unit(rng: Any, *shape: int) -> Any:
    """Rows of l2 norm at most 1, some of them exactly 1."""
    z = rng.standard_normal(shape)
    z /= np.linalg.norm(z, axis=-1, keepdims=True)
    return z * np.where(rng.random((*shape[:-1], 1)) < 0.5, 1.0, rng.random((*shape[:-1], 1)))


class Contextual(Family):
    """decide(features), learn(decision, reward): others see the policy, not one's own action."""

    late = True

    def contexts(self) -> list[Any]:
        e = np.eye(DIM)
        return [np.zeros((3, DIM)), np.tile(e[0], (3, 1)), np.array([e[0], -e[0], e[1]]),
                np.array([e[0], e[0], -e[1]])]  # fmt: skip

    def __init__(self, low: float = 0.0, high: float = 1.0) -> None:
        self.low, self.high = low, high

    def data(self, entry: Entry, which: int) -> list[Any]:
        rng = np.random.default_rng(which + 1)
        contexts = unit(rng, entry.rounds, ACTIONS, DIM)
        if which == 1:  # the other people want the opposite, and more of it
            contexts = np.sign(contexts) / np.sqrt(DIM)
        rewards = rng.choice([self.low, self.high], entry.rounds)
        return [(contexts[t], float(rewards[t])) for t in range(entry.rounds)]

    def quiet(self, entry: Entry) -> tuple[list[Any], list[Any]]:
        nobody = (np.zeros((1, DIM)), 0.0)
        first, second = ((np.eye(DIM)[:1], reward) for reward in (self.low, self.high))
        rest = [nobody] * (entry.rounds - 1)
        return [first, *rest], [second, *rest]

    def steps(self, data: list[Any], delay: int) -> list[Step]:
        def decide(t: int, session: Session) -> None:
            session.decisions[t] = session.subject.decide(data[t][0])

        def learn(t: int, session: Session) -> None:
            self.learn(session.subject, session.decisions[t], data[t])

        n = len(data)
        return interleaved(
            [("decide", t, partial(decide, t)) for t in range(n)],
            [("learn", t, partial(learn, t)) for t in range(n)],
            delay,
        )

    def learn(self, learner: Any, decision: Any, record: Any) -> None:
        """The reward of a round."""
        learner.learn(decision, record[1])

    def shown(self, session: Session) -> dict[str, Any]:
        learner, rng = session.subject, np.random.default_rng(0)
        others = unit(rng, 40, ACTIONS, DIM)
        made = [learner.decide(x) for x in others]
        return {
            "others' actions": [each.action for each in made],
            "others' probabilities": np.array([each.probabilities for each in made]),
            "theta": getattr(learner, "theta", None),
            "value": str(getattr(learner, "value", None)),
            "rounds until release": learner.rounds_until_release,
            "rounds": learner.rounds,
        }


class Visiting(Contextual):
    """learn(decision, reward, person): the same few people come again and again.

    The people of two data sets have different names and come at the same times.
    """

    people = 7

    def data(self, entry: Entry, which: int) -> list[Any]:
        rounds = super().data(entry, which)
        return [(*each, f"{which}-{t % self.people}") for t, each in enumerate(rounds)]

    def replaced(self, data: list[Any], t: int) -> list[int]:
        return [i for i, each in enumerate(data) if each[2] == data[t][2]]

    def quiet(self, entry: Entry) -> tuple[list[Any], list[Any]]:
        """The person of the first round comes in every other one, with the same reward."""
        sides = []
        for (features, reward, *_), *rest in super().quiet(entry):
            mine = (features, reward, "canary")
            sides.append(
                [mine, *((*each, "nobody") if t % 2 else mine for t, each in enumerate(rest))]
            )
        return sides[0], sides[1]

    def learn(self, learner: Any, decision: Any, record: Any) -> None:
        learner.learn(decision, record[1], person=record[2])


class Sparse(Family):
    """decide(x), learn(decision, reward)."""

    dim, late = 4, True

    def contexts(self) -> list[Any]:
        return [np.zeros(self.dim), np.ones(self.dim), -np.ones(self.dim), np.eye(self.dim)[0]]

    def data(self, entry: Entry, which: int) -> list[Any]:
        rng = np.random.default_rng(which + 1)
        low, high = entry.make().reward_range
        X = rng.uniform(-1, 1, (entry.rounds, self.dim))
        X = np.sign(X) if which == 1 else X
        return [(x, float(rng.choice([low, high]))) for x in X]

    steps = Contextual.steps
    learn = Contextual.learn

    def shown(self, session: Session) -> dict[str, Any]:
        learner, rng = session.subject, np.random.default_rng(0)
        made = [learner.decide(x) for x in rng.uniform(-1, 1, (40, self.dim))]
        return {
            "others' actions": [each.action for each in made],
            "others' probabilities": [each.probability for each in made],
            "theta": learner.theta,
        }


class Leader(Family):
    """decide(), learn(loss): everybody sees every decision."""

    def data(self, entry: Entry, which: int) -> list[Any]:
        rng, domain = np.random.default_rng(which + 1), entry.probe
        n = domain.dim
        if domain.loss_set == "box":
            if which == 1:
                return list(np.round(rng.random((entry.rounds, n))))
            return list(np.eye(n)[rng.integers(n, size=entry.rounds)])
        sign = -1.0 if which == 1 else 1.0
        return list(sign * np.eye(n)[rng.integers(n, size=entry.rounds)])

    def steps(self, data: list[Any], delay: int) -> list[Step]:
        def decide(session: Session) -> None:
            session.shown.append(np.array(session.subject.decide()))

        def learn(t: int, session: Session) -> None:
            session.subject.learn(data[t])

        out: list[Step] = []
        for t in range(len(data)):
            out += [("decide", t, decide), ("learn", t, partial(learn, t))]
        return out

    def shown(self, session: Session) -> dict[str, Any]:
        learner = session.subject
        if learner.rounds == learner.horizon:
            return {"rounds": learner.rounds}
        return {"last": learner.decide(), "rounds": learner.rounds}


class Losses(Family):
    """decide(), learn(decision, loss), one number: everybody sees every decision."""

    late = True

    def __init__(self, low: float = 0.0, high: float = 1.0) -> None:
        self.low, self.high = low, high

    def data(self, entry: Entry, which: int) -> list[Any]:
        rng = np.random.default_rng(which + 1)
        return [float(x) for x in rng.choice([self.low, self.high], entry.rounds)]

    def steps(self, data: list[Any], delay: int) -> list[Step]:
        def decide(t: int, session: Session) -> None:
            made = session.decisions[t] = session.subject.decide()
            session.shown.append(flat(encode(made.choice)))

        def learn(t: int, session: Session) -> None:
            session.subject.learn(session.decisions[t], data[t])

        n = len(data)
        return interleaved(
            [("decide", t, partial(decide, t)) for t in range(n)],
            [("learn", t, partial(learn, t)) for t in range(n)],
            delay,
        )

    def shown(self, session: Session) -> dict[str, Any]:
        return {"rounds": session.subject.rounds}


class Rows(Family):
    """learn(x, y), one row at a time; theta after every row."""

    dim = 3

    def data(self, entry: Entry, which: int) -> list[Any]:
        rng = np.random.default_rng(which + 1)
        X = rng.uniform(-1, 1, (entry.rounds, self.dim))
        X /= np.abs(X).sum(axis=1, keepdims=True)  # of l1 norm 1, hence inside every l_q ball
        X = np.sign(X[:, :1]) * np.eye(self.dim)[-1] if which == 1 else X
        return [(x, float(rng.choice([0.0, 1.0]))) for x in X]

    def steps(self, data: list[Any], delay: int) -> list[Step]:
        def learn(t: int, session: Session) -> None:
            session.subject.learn(*data[t])

        def read(session: Session) -> None:
            session.shown.append(np.array(session.subject.theta))

        out: list[Step] = []
        for t in range(len(data)):
            out += [("learn", t, partial(learn, t)), ("read", t, read)]
        return out

    def shown(self, session: Session) -> dict[str, Any]:
        return {"theta": session.subject.theta, "rounds": session.subject.rounds}


class Sums(Family):
    """add(x): a private sum after every row."""

    dim = 2

    def data(self, entry: Entry, which: int) -> list[Any]:
        rng = np.random.default_rng(which + 1)
        rows = unit(rng, entry.rounds, self.dim) / 2
        return list(np.sign(rows) / 4 if which == 1 else rows / 2)

    def steps(self, data: list[Any], delay: int) -> list[Step]:
        def add(t: int, session: Session) -> None:
            session.shown.append(np.array(session.subject.add(data[t])))

        def add_many(session: Session) -> None:
            session.shown.append(np.array(session.subject.add_many(np.array(data[half:]))))

        half = len(data) // 2
        if not entry_has(self, "add_many"):
            half = len(data)
        out: list[Step] = [("learn", t, partial(add, t)) for t in range(half)]
        return out + ([("learn", half, add_many)] if half < len(data) else [])

    def shown(self, session: Session) -> dict[str, Any]:
        return {"rounds": session.subject.rounds, "last": session.shown[-1]}


class OneByOne(Sums):
    """A running sum without `add_many`."""


def entry_has(family: Family, method: str) -> bool:
    """Whether learners of a family have a method that not all do."""
    return not (method == "add_many" and isinstance(family, OneByOne))


class Fitted(Family):
    """fit(X, y): the estimate, its predictions and widths."""

    def __init__(self, labels: tuple[float, ...] = (-1.0, 1.0), dim: int = DIM) -> None:
        self.labels, self.dim = labels, dim

    def data(self, entry: Entry, which: int) -> list[Any]:
        rng = np.random.default_rng(which + 1)
        X = unit(rng, entry.rounds, self.dim)
        if which == 1:  # labels that a plane separates: fits without noise never come to an end
            X = np.sign(X) / np.sqrt(self.dim)
            return [(x, float(self.labels[int(x[0] > 0)])) for x in X]
        return [(x, float(rng.choice(self.labels))) for x in X]

    def steps(self, data: list[Any], delay: int) -> list[Step]:
        def fit(session: Session) -> None:
            session.subject.fit(np.array([x for x, _ in data]), np.array([y for _, y in data]))

        return [("fit", 0, fit)]

    def shown(self, session: Session) -> dict[str, Any]:
        model = session.subject
        if not hasattr(model, "coef_"):
            return {"theta": model.theta}
        probes = np.random.default_rng(0).uniform(-0.5, 0.5, (5, self.dim))
        seen = {
            "coef": model.coef_,
            "intercept": model.intercept_,
            "predict": model.predict(probes),
        }
        for name in ("confidence_width", "predict_interval", "predict_proba_interval"):
            with suppress(ValueError):  # a method without
                seen[name] = getattr(model, name, repr)(probes)
        return seen


class Devices(Family):
    """Devices and a server apart: what is shown is what the server publishes."""

    def data(self, entry: Entry, which: int) -> list[Any]:
        return Contextual(-1.0, 1.0).data(entry, which)

    def steps(self, data: list[Any], delay: int) -> list[Step]:
        def report(t: int, session: Session) -> None:
            pair = session.subject
            device = Device(
                pair.policy, epsilon=pair.epsilon, delta=pair.delta, seed=t, noise=pair.noise
            )
            decision = device.decide(data[t][0])
            pair.take(device.report(decision, data[t][1]))

        def close(session: Session) -> None:
            session.shown.append(json.dumps(session.subject.close().to_dict()))

        out: list[Step] = []
        for t in range(len(data)):
            out.append(("learn", t, partial(report, t)))
            if t % 20 == 19:
                out.append(("close", t, close))
        return out

    def shown(self, session: Session) -> dict[str, Any]:
        return {"policy": json.dumps(session.subject.policy.to_dict())}


class Batches(Devices):
    """The same with a relay between them: reports wait, and come in another order at the end."""

    def steps(self, data: list[Any], delay: int) -> list[Step]:
        def report(t: int, session: Session) -> None:
            pair = session.subject
            device = Device(
                pair.policy, epsilon=pair.epsilon, delta=pair.delta, seed=t, noise=pair.noise
            )
            waiting = session.decisions.setdefault(t // 20, {})
            waiting[t] = device.report(device.decide(data[t][0]), data[t][1])

        def close(t: int, session: Session) -> None:
            pair = session.subject
            batch = list(session.decisions[t // 20].values())
            if not pair.holds_batch:
                pair.aggregate(batch[i] for i in np.random.default_rng(t).permutation(len(batch)))
            session.shown.append(json.dumps(pair.close().to_dict()))

        out: list[Step] = []
        for t in range(len(data)):
            out.append(("learn", t, partial(report, t)))
            if t % 20 == 19:
                out.append(("close", t, partial(close, t)))
        return out


class Served(LocalServer):
    """A server, and the noise of the devices that report to it."""

    def __init__(self) -> None:
        super().__init__(DIM, EPSILON, seed=1)
        self.noise = SeededNoise(2)

    @property
    def guarantee(self) -> Any:
        """What each device promises its owner."""
        from discreet.bandits.local import local_guarantee

        return local_guarantee(self.policy, self.noise, sent=self.taken > 0)


class Relayed(Served):
    """The same with reports that are shuffled."""

    def __init__(self) -> None:
        LocalServer.__init__(self, DIM, EPSILON, delta=DELTA, crowd=Crowd(), seed=1)
        self.noise = SeededNoise(2)

    @property
    def guarantee(self) -> Any:
        """What each device promises its owner."""
        from discreet.bandits.local import local_guarantee

        return local_guarantee(self.policy, self.noise, batches=self.batches, crowd=self.crowd)


# -- the table ------------------------------------------------------------------------------------

STOLEN = ("_window.theta", "_window.average")  # the open window of gradient steps
HASHES = ("visitors._key", "visitors._seen")  # of people whose reward has counted


def _linear(**more: Any) -> Callable[[], Any]:
    fixed: dict[str, Any] = {"dim": DIM, "epsilon": EPSILON, "seed": 1, "reward_range": (0.0, 1.0)}
    return lambda: LinearBandit(**{**fixed, **more, "noise": SeededNoise(2)})


def _bandits() -> list[Entry]:
    joint, out = Contextual(), []

    def entry(name: str, of: type, make: Callable[[], Any], rounds: int, **more: Any) -> None:
        out.append(Entry(name, of, make, more.pop("family", joint), rounds, **more))

    for policy in POLICIES:
        entry(f"LinearBandit {policy}", LinearBandit, _linear(policy=policy), 40)
    for name in LINKS:
        if name == "identity":
            continue
        make = _linear(link=name, horizon=200)
        entry(f"LinearBandit link {name}", LinearBandit, make, 40)
    entry("LinearBandit 2 contributions", LinearBandit, _linear(contributions=2), 40)
    for half_life in (20, "auto"):
        name = f"LinearBandit half-life {half_life}"
        entry(name, LinearBandit, _linear(half_life=half_life), 40)
    for baseline in (0, "uniform"):
        make = _linear(holdout=Holdout(0.25, baseline))
        entry(f"LinearBandit holdout {baseline}", LinearBandit, make, 40)
    make = _linear(holdout=Holdout(0.25), unit="person", visits="all")
    entry(
        "LinearBandit holdout, all visits", LinearBandit, make, 40, clear=HASHES, family=Visiting()
    )
    for visits in ("first", "all"):
        for horizon in (None, 60):
            make = _linear(unit="person", visits=visits, horizon=horizon)
            name = f"LinearBandit {visits} visits, horizon {horizon}"
            entry(name, LinearBandit, make, 40, clear=HASHES, family=Visiting())
    make = _linear(unit="person", visits="all", estimator="sgd", policy="greedy", horizon=193)
    clear = (*HASHES, *STOLEN)
    entry("LinearBandit all visits, sgd", LinearBandit, make, 193, clear=clear, family=Visiting())
    for policy in ("squarecb", "greedy"):
        # The last of four windows has one decision: late rewards are far more than that.
        make = _linear(estimator="sgd", policy=policy, reward_range=(-1.0, 1.0), horizon=193)
        wide = Contextual(-1.0, 1.0)
        entry(f"LinearBandit sgd {policy}", LinearBandit, make, 193, clear=STOLEN, family=wide)
    for policy in ("ucb", "thompson", "greedy"):
        make = _linear(trust="local", policy=policy)
        entry(f"LinearBandit local {policy}", LinearBandit, make, 80)
        make = _linear(trust="shuffled", policy=policy)
        entry(f"LinearBandit shuffled {policy}", LinearBandit, make, 80)
    make = _linear(trust="shuffled", contributions=2)
    entry("LinearBandit shuffled, 2 contributions", LinearBandit, make, 80)
    entry("LinUCB", LinUCB, lambda: LinUCB(DIM, seed=1), 20, private=False)
    for mechanism in ("blt", "toeplitz", "tree"):

        def continual(mechanism: str = mechanism) -> Any:
            return ContinualLinUCB(
                DIM, 100, EPSILON, mechanism=mechanism, seed=1, noise=SeededNoise(2)
            )

        entry(f"ContinualLinUCB {mechanism}", ContinualLinUCB, continual, 40)
    for local in (LocalLinUCB, LocalSGDBandit):

        def baseline(local: Any = local) -> Any:
            return local(DIM, 400, EPSILON, seed=1, noise=SeededNoise(2))

        entry(local.__name__, local, baseline, 120)
    entry("Device and LocalServer", LocalServer, Served, 60, family=Devices())
    entry("Device and LocalServer shuffled", LocalServer, Relayed, 60, family=Batches())
    return out


def _sparse() -> list[Entry]:
    window = ("_arms._sums",)
    arms = tuple(
        f"_arms._each.{i}.{part}"
        for i in (0, 1)
        for part in ("direction._total", "_new.step", "_new.total")
    )
    out = []
    for method, clear in (("windows", window), ("every-round", arms)):
        for link in ("identity", "logistic"):

            def make(method: str = method, link: str = link) -> Any:
                return SparseBandit(
                    2,
                    Sparse.dim,
                    60,
                    EPSILON,
                    forced=6,
                    method=method,
                    link=link,
                    seed=1,
                    noise=SeededNoise(2),
                )

            name = f"SparseBandit {method} {link}"
            out.append(Entry(name, SparseBandit, make, Sparse(), 40, clear=clear))
    return out


def _leaders() -> list[Entry]:
    simplex, ball, cube = domains.Simplex(3), domains.Ball(3), domains.Cube(3)
    paper = Tree(branching=2, balanced=False, padded=True)
    cases: list[tuple[str, type, Any, dict[str, Any]]] = [
        ("FTRL simplex", FTRL, simplex, {"delta": DELTA}),
        ("FTRL simplex, pure", FTRL, simplex, {"rate": "fixed"}),
        ("FTRL ball", FTRL, ball, {"delta": DELTA}),
        ("FTRL cube, pure", FTRL, cube, {}),
        ("FTRL padded tree", FTRL, simplex, {"delta": DELTA, "mechanism": paper}),
        ("FTPL simplex", FTPL, simplex, {"delta": DELTA}),
        ("FTPL cube, pure", FTPL, cube, {}),
    ]
    out = []
    for name, of, domain, more in cases:

        def make(of: Any = of, domain: Any = domain, more: Any = more) -> Any:
            return of(domain, 20, EPSILON, seed=1, noise=SeededNoise(2), **more)

        out.append(Entry(name, of, make, Leader(), 16, probe=domain))

    def doubling() -> Any:
        noises = iter(SeededNoise(2).spawn(9))
        return Doubling(lambda T: FTRL(simplex, T, EPSILON, noise=next(noises)), first=4)

    out.append(Entry("Doubling FTRL", Doubling, doubling, Leader(), 16, probe=simplex))
    return out


def _losses() -> list[Entry]:
    ball, tree = domains.Ball(2), domains.MatroidPolytope.graphic([(0, 1), (1, 2), (2, 0)])
    box = domains.Polytope(np.vstack([np.eye(2), -np.eye(2)]), np.ones(4))
    out = []

    def entry(name: str, of: Any, family: Family, *args: Any, **more: Any) -> None:
        clear = more.pop("clear", ())

        def make() -> Any:
            return of(*args, **{"seed": 1, "noise": SeededNoise(2), **more})

        out.append(Entry(name, of, make, family, 36, clear=clear))

    one, signed = Losses(), Losses(-1.0, 1.0)
    for trust in ("local", "central"):
        epsilon = EPSILON if trust == "local" else 2.0
        entry(f"AdversarialBandit {trust}", AdversarialBandit, one, 3, 60, epsilon, trust=trust)
        entry(f"BarrierBandit ball {trust}", BarrierBandit, signed, ball, 60, epsilon, trust=trust)
    hidden = {"trust": "shuffled", "seed": None}  # its noise draws the arms
    entry("AdversarialBandit shuffled", AdversarialBandit, one, 3, 60, 2.0, **hidden)
    entry("AdversarialBandit local, response", AdversarialBandit, one, 3, 60, 1.0)
    entry("BarrierBandit polytope", BarrierBandit, signed, box, 60, EPSILON, trust="local")
    open_batch = ("_feedback._terms.gradient", "_feedback._terms.level")
    for name, delta in (("", DELTA), (", pure", 0.0)):
        args = (ProjectionFreeBandit, one, tree, 60, EPSILON, delta)
        entry(f"ProjectionFreeBandit{name}", *args, clear=open_batch)
    frames = (ProjectionFreeBandit, one, domains.Cube(2), 60, EPSILON, DELTA)
    entry("ProjectionFreeBandit frames", *frames, directions="frames", clear=open_batch)

    def reduction() -> Any:
        plain = Exp2(3, rate=0.1, explore=0.2, seed=1)
        return PrivateReduction(plain, EPSILON, noise=SeededNoise(2))

    out.append(Entry("PrivateReduction", PrivateReduction, reduction, one, 36))
    return out


def _streams() -> list[Entry]:
    d, out = Rows.dim, []
    cases: list[tuple[str, Any, dict[str, Any]]] = [
        ("p = 2", domains.LpBall(2, d), {}),
        ("p = 2 tree", domains.LpBall(2, d), {"mechanism": "tree"}),
        ("p = inf", domains.Cube(d), {"mechanism": "toeplitz"}),
        ("p = 4", domains.LpBall(4, d), {"loss": "logistic"}),
        ("p = 1.1 generalized", domains.LpBall(1.1, d), {"mechanism": "generalized-gaussian"}),
        ("p = 1", domains.LpBall(1, d), {}),
        ("p = 2 sums", domains.LpBall(2, d), {"mechanism": "blt"}),
        ("p = 1 vertices", domains.LpBall(1, d), {"mechanism": "vertices"}),
        ("p = 1 every-round", domains.LpBall(1, d), {"mechanism": "every-round"}),
        ("simplex", domains.Simplex(d), {"loss": "huber"}),
        ("polytope", domains.Polytope(np.vstack([np.eye(d), -np.eye(d)]), np.ones(2 * d)), {}),
    ]
    for name, domain, more in cases:

        def make(domain: Any = domain, more: Any = more) -> Any:
            return StreamingFrankWolfe(domain, 24, EPSILON, DELTA, noise=SeededNoise(2), **more)

        clear = {
            "p = 2": ("_direction._sums",),
            "p = 4": ("_direction._sums",),
            "polytope": ("_direction._sums",),
            "p = 1": ("_direction._arms._sums",),
            "p = 1 vertices": ("_direction._total",),
            "p = 1 every-round": ("_direction._total",),
            "simplex": ("_direction._total",),
        }.get(name, ())
        label = f"StreamingFrankWolfe {name}"
        out.append(Entry(label, StreamingFrankWolfe, make, Rows(), 20, clear=clear))
    ball = domains.LpBall(2, d)
    for name, of in (("NoisySFW", NoisySFW), ("NoisySGD", NoisySGD)):

        def fit(of: Any = of) -> Any:
            return of(ball, EPSILON, DELTA, noise=SeededNoise(2))

        out.append(Entry(name, of, fit, Fitted(dim=d), 40))
    for name, domain in (("p = 2", ball), ("p = 1.5", domains.LpBall(1.5, d))):

        def mirror(domain: Any = domain) -> Any:
            return LocalMD(domain, 24, EPSILON, noise=SeededNoise(2))

        out.append(Entry(f"LocalMD {name}", LocalMD, mirror, Rows(), 20))
    return out


def _sums() -> list[Entry]:
    out = []
    cases = [
        ("blt", "l2", DELTA, "blt"),
        ("toeplitz", "l2", DELTA, "toeplitz"),
        ("tree", "l2", DELTA, "tree"),
        ("tree pure l1", "l1", 0.0, "tree"),
        ("tree pure l2", "l2", 0.0, "tree"),
        ("tree pure linf", "linf", 0.0, Tree(branching=3)),
        ("tree binary", "l2", DELTA, Tree(branching=2, balanced=False)),
        ("tree padded", "l2", DELTA, Tree(branching=2, balanced=False, padded=True)),
    ]
    for name, norm, delta, mechanism in cases:

        def make(norm: Any = norm, delta: Any = delta, mechanism: Any = mechanism) -> Any:
            return PrefixSum(
                12,
                Sums.dim,
                Budget(EPSILON, delta),
                sensitivity=2.0,
                norm=norm,
                mechanism=mechanism,
                noise=SeededNoise(2),
            )

        out.append(Entry(f"PrefixSum {name}", PrefixSum, make, Sums(), 12))

    def generalized() -> Any:
        budget = Budget(EPSILON, DELTA)
        return GeneralizedGaussianSum(12, 2, budget, bound=1.0, q=3.0, noise=SeededNoise(2))

    of = GeneralizedGaussianSum
    out.append(Entry("GeneralizedGaussianSum", of, generalized, OneByOne(), 12))
    return out


def _regression() -> list[Entry]:
    out = []
    public = unit(np.random.default_rng(9), 50, DIM)

    def entry(name: str, of: Any, family: Family, rounds: int = 60, **more: Any) -> None:
        private = more.pop("private", True)

        def make() -> Any:
            seeds = {"noise": SeededNoise(2), "random_state": 1} if of is not OLS else {}
            return of(**more, **seeds)

        out.append(Entry(name, of, make, family, rounds, private=private))

    for trust in ("central", "local", "shuffled"):
        known = {"public_X": public}
        methods = Linear(trust=trust, public_X=public)._methods()
        for method in methods:
            of_people = {"epsilon": EPSILON, "trust": trust, "method": method}
            shape = Fitted(dim=1) if method == "one-dimensional" else Fitted()
            more = known if method in ("public-covariates", "known-covariates") else {}
            entry(f"PrivateLinearRegression {trust} {method}", Linear, shape, **of_people, **more)
    intercept = {"epsilon": EPSILON, "fit_intercept": True}
    entry("PrivateLinearRegression intercept", Linear, Fitted(), **intercept)
    for link in LINKS:
        labels = (-1.0, 1.0) if link == "identity" else (0.0, 1.0)
        for trust in ("central", "local"):
            for method in PrivateGLM(link=link, trust=trust)._methods():
                enough = 50 * EPSILON if method == "erm" else EPSILON  # else it gives up
                options = {"epsilon": enough, "link": link, "trust": trust, "method": method}
                name = f"PrivateGLM {link} {trust} {method}"
                entry(name, PrivateGLM, Fitted(labels), coef_bound=1.0, **options)
                if trust == "central":
                    known = {"public_X": public, **options}
                    entry(f"{name} public", PrivateGLM, Fitted(labels), coef_bound=1.0, **known)
    for known, classes in (({}, 2), ({}, 4), ({"public_X": public}, 3)):
        labels = tuple(map(float, range(classes)))
        name = f"PrivateLogisticRegression {classes} classes"
        options = {"epsilon": EPSILON, "classes": labels, "coef_bound": 1.0, **known}
        entry(name, PrivateLogisticRegression, Fitted(labels), **options)

    def search() -> Any:
        options = {"noise": SeededNoise(2), "random_state": 1, "label_bound": 1.0}
        model = Linear(EPSILON, norm_bound=1.0, fit_intercept=False, **options)
        return PrivateSearchCV(model, {"norm_bound": [0.5, 1.0]}, blocks=4)

    out.append(Entry("PrivateSearchCV", PrivateSearchCV, search, Fitted(), 60))
    for of in (SSP, AdaSSP, DPGradientDescent):
        entry(of.__name__, of, Fitted(), epsilon=2.5 if of is AdaSSP else EPSILON)
    entry("OLS", OLS, Fitted(), private=False)
    return out


REGISTRY: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        *_bandits(),
        *_sparse(),
        *_leaders(),
        *_losses(),
        *_streams(),
        *_sums(),
        *_regression(),
    )
}
PRIVATE = {name: entry for name, entry in REGISTRY.items() if entry.private}

# Public classes with a promise that are parts of the learners above and are checked inside them.
PARTS = {
    "Channel": "BallChannel and IntervalChannel are the mechanisms themselves",
    "BallChannel": "a mechanism",
    "IntervalChannel": "a mechanism",
    "BinaryChannel": "a mechanism",
    "SymmetricChannel": "a mechanism",
    "Ledger": "keeps accounts",
    "SmoothedDirection": "inside StreamingFrankWolfe",
    "DenseWindows": "inside StreamingFrankWolfe",
    "SparseWindows": "inside StreamingFrankWolfe",
    "VertexDirection": "inside StreamingFrankWolfe and SparseBandit",
    "VertexArms": "inside SparseBandit",
    "WindowArms": "inside SparseBandit",
    "PrivateBandit": "the base of AdversarialBandit, BarrierBandit and ProjectionFreeBandit",
    "PrivateEstimator": "the base of the estimators",
    "PrivateRegressor": "the base of those that predict numbers",
    "Reports": "inside AdversarialBandit, local",
    "Batches": "inside AdversarialBandit, central",
    "ShuffledReports": "inside AdversarialBandit, shuffled",
    "GradientSums": "inside ProjectionFreeBandit",
    "LocalReports": "inside LinearBandit, local",
    "Device": "in the entry of LocalServer",
    "PublicPolicy": "public values",
}

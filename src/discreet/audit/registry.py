"""Every public learner, estimator, baseline and running sum, in one table: `REGISTRY`.

An `Entry` makes one (always with the same seeds), feeds it a data set step by step, and reads all
that it shows. The generic tests of tests/contract run on every entry, and its `test_registry.py`
fails if a public class is missing, so that a new one cannot forget them. Attacks take their
learners from here, with promises and sizes of their own. To add one, write a line here.
"""

from typing import Any

import numpy as np

from discreet import domains
from discreet.audit.entries import Entry, Family
from discreet.audit.families import (
    DELTA,
    DIM,
    EPSILON,
    Batches,
    Contextual,
    Devices,
    Fitted,
    Leader,
    Losses,
    Rows,
    Sparse,
    Sums,
    Trials,
    Visiting,
    unit,
)
from discreet.bandits import Holdout, LinearBandit, LocalServer, Model, People, SparseBandit
from discreet.bandits.baselines import ContinualLinUCB, LinUCB, LocalLinUCB, LocalSGDBandit
from discreet.bandits.policies import POLICIES
from discreet.evaluation import ABTest
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
from discreet.privacy import Budget, PrefixSum, SeededNoise, Shuffled, Tree
from discreet.regression import (
    OLS,
    AdaSSP,
    PrivateGLM,
    PrivateLogisticRegression,
    PrivateScore,
    PrivateSearchCV,
    score_private,
)
from discreet.regression import PrivateLinearRegression as Linear
from discreet.regression.baselines import SSP, DPGradientDescent

__all__ = ["PARTS", "PRIVATE", "REGISTRY"]


class Served(LocalServer):
    """A server, and the noise of the devices that report to it."""

    def __init__(self) -> None:
        super().__init__(DIM, EPSILON, seed=1)
        self.noise = SeededNoise(2)

    @property
    def guarantee(self) -> Any:
        """What each device promises its owner."""
        return self.promised(self.noise)


class Relayed(Served):
    """The same with reports that are shuffled."""

    def __init__(self) -> None:
        LocalServer.__init__(self, DIM, EPSILON, delta=DELTA, crowd=Shuffled(), seed=1)
        self.noise = SeededNoise(2)


class Signs:
    """A classifier that everybody knows, and that is certain."""

    classes_ = (-1.0, 1.0)

    def predict_proba(self, X: Any) -> Any:
        """By the sign of the first feature."""
        return np.eye(2)[(np.asarray(X)[:, 0] > 0).astype(int)]


class Scored:
    """`score_private` of a model that everybody knows: what is fitted to rows is the score.

    model    "signs", a classifier, or anything else: a linear fit to the unit vectors
    noise    of the score
    """

    def __init__(self, model: str, noise: Any, **promised: Any) -> None:
        self.name = model
        self.promised = {**promised, "noise": noise}
        bounds: dict[str, Any] = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": False}
        known = np.eye(DIM)
        self.model = Signs() if model == "signs" else OLS(**bounds).fit(known, known[:, 0])

    def fit(self, X: Any, y: Any) -> "Scored":
        """The one release."""
        self.score = score_private(self.model, X, y, **self.promised)
        return self

    @property
    def theta(self) -> Any:
        """All metrics and their intervals."""
        tables = [each for each in (self.score.metrics, self.score.calibration) if each]
        told = [(e.estimate, e.low, e.high) for each in tables for e in each.effects]
        matrix = self.score.confusion
        return np.append(np.ravel(told), np.ravel(() if matrix is None else matrix))

    @property
    def guarantee_(self) -> Any:
        """Of the score."""
        return self.score.guarantee


STOLEN = ("_window.theta", "_window.average")  # the open window of gradient steps
HASHES = ("visitors._key", "visitors._seen")  # of people whose reward has counted


def _linear(**more: Any) -> dict[str, Any]:
    return {"dim": DIM, "epsilon": EPSILON, "seed": 1, "reward_range": (0.0, 1.0), **more}


def _bandits() -> list[Entry]:
    joint = Contextual()
    out = list[Entry]()

    def entry(name: str, of: type, make: dict[str, Any], rounds: int, **more: Any) -> None:
        out.append(Entry(name, of, make, more.pop("family", joint), rounds, **more))

    for policy in POLICIES:
        entry(f"LinearBandit {policy}", LinearBandit, _linear(policy=policy), 40)
    for name in LINKS:
        if name == "identity":
            continue
        make = _linear(horizon=200, model=Model(link=name))
        entry(f"LinearBandit link {name}", LinearBandit, make, 40)
    entry("LinearBandit 2 contributions", LinearBandit, _linear(people=People(rounds=2)), 40)
    for half_life in (20, "auto"):
        name = f"LinearBandit half-life {half_life}"
        entry(name, LinearBandit, _linear(model=Model(half_life=half_life)), 40)
    for baseline in (0, "uniform"):
        make = _linear(holdout=Holdout(0.25, baseline))
        entry(f"LinearBandit holdout {baseline}", LinearBandit, make, 40)
    make = _linear(holdout=Holdout(0.25), people=People(visits="all"))
    entry(
        "LinearBandit holdout, all visits", LinearBandit, make, 40, clear=HASHES, family=Visiting()
    )
    for visits in ("first", "all"):
        for horizon in (None, 60):
            make = _linear(horizon=horizon, people=People(visits=visits))
            name = f"LinearBandit {visits} visits, horizon {horizon}"
            entry(name, LinearBandit, make, 40, clear=HASHES, family=Visiting())
    make = _linear(horizon=193, people=People(visits="all"), policy="descent")
    name, clear = "LinearBandit all visits, descent", (*HASHES, *STOLEN)
    entry(name, LinearBandit, make, 193, clear=clear, family=Visiting())
    # The last of four windows has one decision: late rewards are far more than that.
    make = _linear(reward_range=(-1.0, 1.0), horizon=193, policy="descent")
    wide = Contextual(-1.0, 1.0)
    entry("LinearBandit descent", LinearBandit, make, 193, clear=STOLEN, family=wide)
    for policy in ("ucb", "thompson", "greedy"):
        make = _linear(trust="local", policy=policy)
        entry(f"LinearBandit local {policy}", LinearBandit, make, 80)
        make = _linear(trust="shuffled", policy=policy)
        entry(f"LinearBandit shuffled {policy}", LinearBandit, make, 80)
    make = _linear(trust="shuffled", people=People(rounds=2))
    entry("LinearBandit shuffled, 2 contributions", LinearBandit, make, 80)
    return out


def _baselines() -> list[Entry]:
    one = Contextual()
    out = [Entry("LinUCB", LinUCB, {"dim": DIM, "seed": 1}, one, 20, private=False)]
    fixed = {"dim": DIM, "epsilon": EPSILON, "seed": 1}
    for mechanism in ("blt", "toeplitz", "tree"):
        sums = {**fixed, "horizon": 100, "mechanism": mechanism}
        out.append(Entry(f"ContinualLinUCB {mechanism}", ContinualLinUCB, sums, one, 40))
    for local in (LocalLinUCB, LocalSGDBandit):
        out.append(Entry(local.__name__, local, {**fixed, "horizon": 400}, one, 120))
    return out


def _devices() -> list[Entry]:
    return [
        Entry("Device and LocalServer", LocalServer, {}, Devices(), 60,
              build=lambda noise: Served()),
        Entry("Device and LocalServer shuffled", LocalServer, {}, Batches(), 60,
              build=lambda noise: Relayed()),
    ]  # fmt: skip


def _sparse() -> list[Entry]:
    window = ("_arms._sums",)
    arms = tuple(
        f"_arms._each.{i}.{part}"
        for i in (0, 1)
        for part in ("direction._total", "_new.step", "_new.total")
    )
    fixed = {"n_arms": 2, "dim": Sparse.dim, "horizon": 60, "epsilon": EPSILON, "forced": 6}
    out = list[Entry]()
    for method, clear in (("windows", window), ("every-round", arms)):
        for link in ("identity", "logistic"):
            arguments = {**fixed, "method": method, "link": link, "seed": 1}
            name = f"SparseBandit {method} {link}"
            out.append(Entry(name, SparseBandit, arguments, Sparse(), 40, clear=clear))
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
        ("FTPL simplex", FTPL, simplex, {"delta": DELTA, "seed": 1}),
        ("FTPL cube, pure", FTPL, cube, {"seed": 1}),
    ]
    out = list[Entry]()
    for name, of, domain, more in cases:
        arguments = {"domain": domain, "horizon": 20, "epsilon": EPSILON, **more}
        out.append(Entry(name, of, arguments, Leader(), 16, probe=domain))

    def doubling(noise: SeededNoise) -> Any:
        noises = iter(noise.spawn(9))
        return Doubling(lambda T: FTRL(simplex, T, EPSILON, noise=next(noises)), first=4)

    out.append(Entry("Doubling FTRL", Doubling, {}, Leader(), 16, probe=simplex, build=doubling))
    return out


def _losses() -> list[Entry]:
    ball = domains.Ball(2)
    tree = domains.MatroidPolytope.graphic([(0, 1), (1, 2), (2, 0)])
    box = domains.Polytope(np.vstack([np.eye(2), -np.eye(2)]), np.ones(4))
    out = list[Entry]()

    def entry(name: str, of: Any, family: Family, clear: Any = (), **more: Any) -> None:
        arguments = {"horizon": 60, "epsilon": EPSILON, "seed": 1, **more}
        out.append(Entry(name, of, arguments, family, 36, clear=clear))

    one = Losses()
    signed = Losses(-1.0, 1.0)
    arms: dict[str, Any] = {"n_arms": 3}
    for trust in ("local", "central"):
        known = {"epsilon": EPSILON if trust == "local" else 2.0, "trust": trust}
        entry(f"BarrierBandit ball {trust}", BarrierBandit, signed, domain=ball, **known)
    entry("AdversarialBandit local", AdversarialBandit, one, **arms, epsilon=EPSILON)
    # At an epsilon that needs batches.
    means: dict[str, Any] = {"epsilon": 0.5, "trust": "central"}
    entry("AdversarialBandit central", AdversarialBandit, one, **arms, **means)
    hidden = {"epsilon": 2.0, "trust": "shuffled", "seed": None}  # its noise draws the arms
    entry("AdversarialBandit shuffled", AdversarialBandit, one, **arms, **hidden)
    entry("AdversarialBandit local, response", AdversarialBandit, one, **arms, epsilon=1.0)
    entry("BarrierBandit polytope", BarrierBandit, signed, domain=box, trust="local")
    open_batch = ("_feedback._terms.gradient", "_feedback._terms.level")
    for name, domain, delta in (
        ("ProjectionFreeBandit", tree, DELTA),
        ("ProjectionFreeBandit, pure", tree, 0.0),
        ("ProjectionFreeBandit cube", domains.Cube(2), DELTA),
    ):
        entry(name, ProjectionFreeBandit, one, open_batch, domain=domain, delta=delta)

    def reduction(noise: SeededNoise) -> Any:
        return PrivateReduction(Exp2(3, rate=0.1, explore=0.2, seed=1), EPSILON, noise=noise)

    out.append(Entry("PrivateReduction", PrivateReduction, {}, one, 36, build=reduction))
    return out


def _streams() -> list[Entry]:
    d = Rows.dim
    box = domains.Polytope(np.vstack([np.eye(d), -np.eye(d)]), np.ones(2 * d))
    sums, arms, total = ("_direction._sums",), ("_direction._arms._sums",), ("_direction._total",)
    cases: list[tuple[str, Any, dict[str, Any], tuple[str, ...]]] = [
        ("p = 2", domains.LpBall(2, d), {}, sums),
        ("p = 2 tree", domains.LpBall(2, d), {"mechanism": "tree"}, ()),
        ("p = inf", domains.Cube(d), {"mechanism": "toeplitz"}, ()),
        ("p = 4", domains.LpBall(4, d), {"loss": "logistic"}, sums),
        ("p = 1.1 generalized", domains.LpBall(1.1, d), {"mechanism": "generalized-gaussian"}, ()),
        ("p = 1", domains.LpBall(1, d), {}, arms),
        ("p = 2 sums", domains.LpBall(2, d), {"mechanism": "blt"}, ()),
        ("p = 1 vertices", domains.LpBall(1, d), {"mechanism": "vertices"}, total),
        ("p = 1 every-round", domains.LpBall(1, d), {"mechanism": "every-round"}, total),
        ("simplex", domains.Simplex(d), {"loss": "huber"}, total),
        ("polytope", box, {}, sums),
    ]
    fixed = {"horizon": 24, "epsilon": EPSILON, "delta": DELTA}
    out = list[Entry]()
    for name, domain, more, clear in cases:
        label, of = f"StreamingFrankWolfe {name}", StreamingFrankWolfe
        out.append(Entry(label, of, {"domain": domain, **fixed, **more}, Rows(), 20, clear=clear))
    return out


def _sums() -> list[Entry]:
    out = list[Entry]()
    fixed = {"horizon": 12, "dim": Sums.dim, "sensitivity": 2.0}
    for name, norm, delta, mechanism in (
        ("blt", "l2", DELTA, "blt"),
        ("toeplitz", "l2", DELTA, "toeplitz"),
        ("tree", "l2", DELTA, "tree"),
        ("tree pure l1", "l1", 0.0, "tree"),
        ("tree pure l2", "l2", 0.0, "tree"),
        ("tree pure linf", "linf", 0.0, Tree(branching=3)),
        ("tree binary", "l2", DELTA, Tree(branching=2, balanced=False)),
        ("tree padded", "l2", DELTA, Tree(branching=2, balanced=False, padded=True)),
        ("generalized gaussian", "l3", DELTA, "generalized-gaussian"),
    ):
        known = {"budget": Budget(EPSILON, delta), "norm": norm, "mechanism": mechanism}
        out.append(Entry(f"PrefixSum {name}", PrefixSum, {**fixed, **known}, Sums(), 12))
    return out


def _experiments() -> list[Entry]:
    three = {"arms": ("A", "B", "C"), "metrics": {"bought": (0.0, 1.0), "left": (0.0, 1.0)}}
    made = {**three, "epsilon": EPSILON, "delta": DELTA, "salt": "registry"}
    open_batch = ("_totals._batch",)
    return [
        Entry("ABTest batches", ABTest, {**made, "mechanism": "batches"}, Trials(), 60),
        Entry(
            "ABTest running", ABTest, {**made, "mechanism": "running", "looks": 8}, Trials(), 60,
            clear=open_batch,
        ),
    ]  # fmt: skip


PUBLIC: dict[str, Any] = {"public_X": unit(np.random.default_rng(9), 50, DIM)}


def _fit(name: str, of: Any, family: Family, **more: Any) -> Entry:
    return Entry(name, of, {"epsilon": EPSILON, "random_state": 1, **more}, family, 60)


def _regression() -> list[Entry]:
    out = [_fit("PrivateLinearRegression intercept", Linear, Fitted(), fit_intercept=True)]
    for trust in ("central", "local", "shuffled"):
        for method in Linear(trust=trust, **PUBLIC)._methods():
            shape = Fitted(dim=1) if method == "one-dimensional" else Fitted()
            known = PUBLIC if method in ("public-covariates", "known-covariates") else {}
            name = f"PrivateLinearRegression {trust} {method}"
            out.append(_fit(name, Linear, shape, trust=trust, method=method, **known))
    out += [_fit(of.__name__, of, Fitted()) for of in (SSP, DPGradientDescent)]
    out.append(_fit("AdaSSP", AdaSSP, Fitted(), epsilon=2.5))

    def search(noise: SeededNoise) -> Any:
        bounds: dict[str, Any] = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": False}
        model = Linear(EPSILON, method="single-pass", noise=noise, random_state=1, **bounds)
        return PrivateSearchCV(model, {"norm_bound": [0.5, 1.0]}, blocks=4)

    out.append(Entry("PrivateSearchCV", PrivateSearchCV, {}, Fitted(), 60, build=search))
    for model in ("signs", "line"):
        score = {"epsilon": EPSILON, "model": model}
        name = f"score_private {model}"
        out.append(Entry(name, PrivateScore, score, Fitted(), 60, build=Scored))
    return [*out, Entry("OLS", OLS, {}, Fitted(), 60, private=False)]


def _generalised() -> list[Entry]:
    out = list[Entry]()
    for link in LINKS:
        family = Fitted((-1.0, 1.0) if link == "identity" else (0.0, 1.0))
        for trust in ("central", "local"):
            for method in PrivateGLM(link=link, trust=trust)._methods():
                options = {"link": link, "trust": trust, "method": method, "coef_bound": 1.0}
                options |= {"epsilon": 50 * EPSILON} if method == "erm" else {}  # else it gives up
                name = f"PrivateGLM {link} {trust} {method}"
                out.append(_fit(name, PrivateGLM, family, **options))
                if trust == "central":
                    out.append(_fit(f"{name} public", PrivateGLM, family, **options, **PUBLIC))
    for classes in (2, 4, 3):
        labels = tuple(map(float, range(classes)))
        name = f"PrivateLogisticRegression {classes} classes"
        known = {"classes": labels, "coef_bound": 1.0, **(PUBLIC if classes == 3 else {})}
        out.append(_fit(name, PrivateLogisticRegression, Fitted(labels), **known))
    return out


REGISTRY: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        *_bandits(),
        *_baselines(),
        *_devices(),
        *_sparse(),
        *_leaders(),
        *_losses(),
        *_streams(),
        *_sums(),
        *_experiments(),
        *_regression(),
        *_generalised(),
    )
}
PRIVATE = {name: entry for name, entry in REGISTRY.items() if entry.private}

# Public classes with a promise that are parts of the learners above and are checked inside them.
PARTS = {
    "Channel": "BallChannel and IntervalChannel are the mechanisms themselves",
    "BallChannel": "a mechanism",
    "IntervalChannel": "a mechanism",
    "BinaryChannel": "a mechanism",
    "Ledger": "keeps accounts",
    "SmoothedDirection": "inside StreamingFrankWolfe",
    "DenseWindows": "inside StreamingFrankWolfe",
    "SparseWindows": "inside StreamingFrankWolfe",
    "VertexDirection": "inside StreamingFrankWolfe and SparseBandit",
    "VertexArms": "inside SparseBandit",
    "WindowArms": "inside SparseBandit",
    "PrivateBandit": "the base of AdversarialBandit, BarrierBandit and ProjectionFreeBandit",
    "PrivateEstimator": "the base of the estimators",
    "PrivatePipeline": "promises what its last step does; steps before read no data to fit",
    "DeclaredEncoder": "reads no data to fit: columns are declared",
    "PrivateRegressor": "the base of those that predict numbers",
    "Reports": "inside AdversarialBandit, local",
    "Batches": "inside AdversarialBandit, central",
    "ShuffledReports": "inside AdversarialBandit, shuffled",
    "GradientSums": "inside ProjectionFreeBandit",
    "Device": "in the entry of LocalServer",
    "PublicPolicy": "public values",
}

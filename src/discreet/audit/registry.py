"""Every public learner, estimator, baseline and running sum, in one table: `REGISTRY`.

An `Entry` makes one (always with the same seeds), feeds it a data set step by step, and reads all
that it shows. The generic tests of tests/contract run on every entry, and its `test_registry.py`
fails if a public class is missing, so that a new one cannot forget them. Attacks take their
learners from here, with promises and sizes of their own. To add one, write a line here.
"""

from collections.abc import Callable
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
from discreet.privacy.noise import Noise
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

__all__ = ["PRIVATE", "REGISTRY"]


class Served(LocalServer):
    """A server, and the noise of the devices that report to it."""

    def __init__(self) -> None:
        super().__init__(DIM, EPSILON, seed=1)
        self.noise = SeededNoise(2)

    @property
    def guarantee(self) -> Any:
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
        return np.eye(2)[(np.asarray(X)[:, 0] > 0).astype(int)]


class Scored:
    """`score_private` of a model that everybody knows: what is fitted to rows is the score."""

    def __init__(self, model: str, noise: Any, **promised: Any) -> None:
        self.name = model
        self.promised = {**promised, "noise": noise}
        bounds: dict[str, Any] = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": False}
        known = np.eye(DIM)
        self.model = Signs() if model == "signs" else OLS(**bounds).fit(known, known[:, 0])

    def fit(self, X: Any, y: Any) -> "Scored":
        self.score = score_private(self.model, X, y, **self.promised)
        return self

    @property
    def theta(self) -> Any:
        tables = [each for each in (self.score.metrics, self.score.calibration) if each]
        told = [(e.estimate, e.low, e.high) for each in tables for e in each.effects]
        matrix = self.score.confusion
        return np.append(np.ravel(told), np.ravel(() if matrix is None else matrix))

    @property
    def guarantee_(self) -> Any:
        return self.score.guarantee


REGISTRY: dict[str, Entry] = {}


def entry(
    name: str,
    of: Any,
    family: Family,
    rounds: int,
    *,
    clear: tuple[str, ...] = (),
    private: bool = True,
    build: Callable[..., Any] | None = None,
    **arguments: Any,
) -> None:
    """A line of the table; see `Entry`."""
    REGISTRY[name] = Entry(name, of, arguments, family, rounds, clear, private, build)


# -- bandits ---------------------------------------------------------------------------------------

STOLEN = ("_window.theta", "_window.average")  # the open window of gradient steps
HASHES = ("visitors._key", "visitors._seen")  # of people whose reward has counted
CONTEXTS, VISITS = Contextual(), Visiting()
FIXED: dict[str, Any] = {"dim": DIM, "epsilon": EPSILON, "seed": 1}


def linear(name: str, family: Family = CONTEXTS, rounds: int = 40, **more: Any) -> None:
    fixed = {**FIXED, "reward_range": (0.0, 1.0)}
    entry(f"LinearBandit {name}", LinearBandit, family, rounds, **{**fixed, **more})


for _policy in POLICIES:
    linear(_policy, policy=_policy)
for _link in LINKS:
    if _link != "identity":
        linear(f"link {_link}", horizon=200, model=Model(link=_link))
linear("2 contributions", people=People(rounds=2))
for _half_life in (20, "auto"):
    linear(f"half-life {_half_life}", model=Model(half_life=_half_life))
for _baseline in (0, "uniform"):
    linear(f"holdout {_baseline}", holdout=Holdout(0.25, _baseline))
linear("holdout, all visits", VISITS, clear=HASHES, holdout=Holdout(0.25),
       people=People(visits="all"))  # fmt: skip
for _visits in ("first", "all"):
    for _horizon in (None, 60):
        linear(f"{_visits} visits, horizon {_horizon}", VISITS, clear=HASHES, horizon=_horizon,
               people=People(visits=_visits))  # fmt: skip
linear("all visits, descent", VISITS, 193, clear=(*HASHES, *STOLEN), horizon=193, policy="descent",
       people=People(visits="all"))  # fmt: skip
# The last of four windows has one decision: late rewards are far more than that.
linear("descent", Contextual(-1.0, 1.0), 193, clear=STOLEN, reward_range=(-1.0, 1.0), horizon=193,
       policy="descent")  # fmt: skip
for _policy in ("ucb", "thompson", "greedy"):
    for _trust in ("local", "shuffled"):
        linear(f"{_trust} {_policy}", rounds=80, trust=_trust, policy=_policy)
linear("shuffled, 2 contributions", rounds=80, trust="shuffled", people=People(rounds=2))

entry("LinUCB", LinUCB, CONTEXTS, 20, private=False, dim=DIM, seed=1)
for _mechanism in ("blt", "toeplitz", "tree"):
    entry(f"ContinualLinUCB {_mechanism}", ContinualLinUCB, CONTEXTS, 40, **FIXED, horizon=100,
          mechanism=_mechanism)  # fmt: skip
for _of in (LocalLinUCB, LocalSGDBandit):
    entry(_of.__name__, _of, CONTEXTS, 120, **FIXED, horizon=400)
entry("Device and LocalServer", LocalServer, Devices(), 60, build=lambda noise: Served())
entry("Device and LocalServer shuffled", LocalServer, Batches(), 60, build=lambda noise: Relayed())

for _link in ("identity", "logistic"):
    entry(f"SparseBandit {_link}", SparseBandit, Sparse(), 40, clear=("_arms._sums",), n_arms=2,
          dim=Sparse.dim, horizon=60, epsilon=EPSILON, forced=6, link=_link, seed=1)  # fmt: skip

# -- online learning -------------------------------------------------------------------------------

SIMPLEX, BALL, CUBE = domains.Simplex(3), domains.Ball(3), domains.Cube(3)
PAPER = Tree(branching=2, balanced=False, padded=True)


def leader(name: str, of: Any, domain: Any, **more: Any) -> None:
    entry(name, of, Leader(), 16, domain=domain, horizon=20, epsilon=EPSILON, **more)


leader("FTRL simplex", FTRL, SIMPLEX, delta=DELTA)
leader("FTRL simplex, pure", FTRL, SIMPLEX, rate="fixed")
leader("FTRL ball", FTRL, BALL, delta=DELTA)
leader("FTRL cube, pure", FTRL, CUBE)
leader("FTRL padded tree", FTRL, SIMPLEX, delta=DELTA, mechanism=PAPER)
leader("FTPL simplex", FTPL, SIMPLEX, delta=DELTA, seed=1)
leader("FTPL cube, pure", FTPL, CUBE, seed=1)


def doubling(noise: Noise, domain: Any, horizon: int = 4, **options: Any) -> Any:
    noises = iter(noise.spawn(9))
    options = {"epsilon": EPSILON, **options}
    return Doubling(lambda T: FTRL(domain, T, noise=next(noises), **options), first=horizon)


entry("Doubling FTRL", Doubling, Leader(), 16, build=doubling, domain=SIMPLEX)


def losses(name: str, of: Any, low: float = 0.0, **more: Any) -> None:
    known = {"horizon": 60, "epsilon": EPSILON, "seed": 1}
    entry(name, of, Losses(low, 1.0), 36, **{**known, **more})


DISC = domains.Ball(2)
BOX = domains.Polytope(np.vstack([np.eye(2), -np.eye(2)]), np.ones(4))
GRAPH = domains.MatroidPolytope.graphic([(0, 1), (1, 2), (2, 0)])
losses("BarrierBandit ball local", BarrierBandit, -1.0, domain=DISC, trust="local")
losses("BarrierBandit ball central", BarrierBandit, -1.0, domain=DISC, epsilon=2.0, trust="central")
losses("AdversarialBandit local", AdversarialBandit, n_arms=3)
# At an epsilon that needs batches.
losses("AdversarialBandit central", AdversarialBandit, n_arms=3, epsilon=0.5, trust="central")
losses("AdversarialBandit shuffled", AdversarialBandit, n_arms=3, epsilon=2.0, trust="shuffled",
       seed=None)  # its noise draws the arms  # fmt: skip
losses("AdversarialBandit local, response", AdversarialBandit, n_arms=3, epsilon=1.0)
losses("BarrierBandit polytope", BarrierBandit, -1.0, domain=BOX, trust="local")
_batch = ("_feedback._terms.gradient", "_feedback._terms.level")
for _name, _domain, _delta in (
    ("", GRAPH, DELTA), (", pure", GRAPH, 0.0), (" cube", domains.Cube(2), DELTA)
):  # fmt: skip
    losses(f"ProjectionFreeBandit{_name}", ProjectionFreeBandit, clear=_batch, domain=_domain,
           delta=_delta)  # fmt: skip


def reduction(noise: Noise, epsilon: float = EPSILON) -> Any:
    return PrivateReduction(Exp2(3, rate=0.1, explore=0.2, seed=1), epsilon, noise=noise)


entry("PrivateReduction", PrivateReduction, Losses(), 36, build=reduction)

# -- streams and sums ------------------------------------------------------------------------------

_d = Rows.dim
_box = domains.Polytope(np.vstack([np.eye(_d), -np.eye(_d)]), np.ones(2 * _d))


def stream(name: str, domain: Any, clear: str = "", **more: Any) -> None:
    kept = (f"_direction.{clear}",) if clear else ()
    entry(f"StreamingFrankWolfe {name}", StreamingFrankWolfe, Rows(), 20, clear=kept, domain=domain,
          horizon=24, epsilon=EPSILON, delta=DELTA, **more)  # fmt: skip


stream("p = 2", domains.LpBall(2, _d), "_sums")
stream("p = 2 tree", domains.LpBall(2, _d), mechanism="tree")
stream("p = inf", domains.Cube(_d), mechanism="toeplitz")
stream("p = 4", domains.LpBall(4, _d), "_sums", loss="logistic")
stream("p = 1.1 generalized", domains.LpBall(1.1, _d), mechanism="generalized-gaussian")
stream("p = 1", domains.LpBall(1, _d), "_arms._sums")
stream("p = 2 sums", domains.LpBall(2, _d), mechanism="blt")
stream("p = 1 vertices", domains.LpBall(1, _d), "_total", mechanism="vertices")
stream("p = 1 every-round", domains.LpBall(1, _d), "_total", mechanism="every-round")
stream("simplex", domains.Simplex(_d), "_total", loss="huber")
stream("polytope", _box, "_sums")

for _name, _norm, _delta, _design in (
    ("blt", "l2", DELTA, "blt"),
    ("toeplitz", "l2", DELTA, "toeplitz"),
    ("tree", "l2", DELTA, "tree"),
    ("tree pure l1", "l1", 0.0, "tree"),
    ("tree pure l2", "l2", 0.0, "tree"),
    ("tree pure linf", "linf", 0.0, Tree(branching=3)),
    ("tree binary", "l2", DELTA, Tree(branching=2, balanced=False)),
    ("tree padded", "l2", DELTA, PAPER),
    ("generalized gaussian", "l3", DELTA, "generalized-gaussian"),
):
    entry(f"PrefixSum {_name}", PrefixSum, Sums(), 12, horizon=12, dim=Sums.dim, sensitivity=2.0,
          budget=Budget(EPSILON, _delta), norm=_norm, mechanism=_design)  # fmt: skip

# -- experiments and regression --------------------------------------------------------------------

TRIAL: dict[str, Any] = {
    "arms": ("A", "B", "C"), "metrics": {"bought": (0.0, 1.0), "left": (0.0, 1.0)},
    "epsilon": EPSILON, "delta": DELTA, "salt": "registry",
}  # fmt: skip
entry("ABTest batches", ABTest, Trials(), 60, **TRIAL, mechanism="batches")
entry("ABTest running", ABTest, Trials(), 60, clear=("_totals._batch",), **TRIAL,
      mechanism="running", looks=8)  # fmt: skip

PUBLIC: dict[str, Any] = {"public_X": unit(np.random.default_rng(9), 50, DIM)}


def fit(name: str, of: Any, family: Family | None = None, **more: Any) -> None:
    arguments = {"epsilon": EPSILON, "random_state": 1, **more}
    entry(name, of, family or Fitted(), 60, **arguments)


fit("PrivateLinearRegression intercept", Linear, fit_intercept=True)
for _trust in ("central", "local", "shuffled"):
    for _method in Linear(trust=_trust, **PUBLIC)._methods():
        _known = PUBLIC if _method in ("public-covariates", "known-covariates") else {}
        fit(f"PrivateLinearRegression {_trust} {_method}", Linear, trust=_trust, method=_method,
            **_known)  # fmt: skip
fit("SSP", SSP)
fit("DPGradientDescent", DPGradientDescent)
fit("AdaSSP", AdaSSP, epsilon=2.5)


def search(noise: Noise) -> Any:
    bounds: dict[str, Any] = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": False}
    model = Linear(EPSILON, method="single-pass", noise=noise, random_state=1, **bounds)
    return PrivateSearchCV(model, {"norm_bound": [0.5, 1.0]}, blocks=4)


entry("PrivateSearchCV", PrivateSearchCV, Fitted(), 60, build=search)
for _model in ("signs", "line"):
    entry(f"score_private {_model}", PrivateScore, Fitted(), 60, build=Scored, epsilon=EPSILON,
          model=_model)  # fmt: skip
entry("OLS", OLS, Fitted(), 60, private=False)

for _link in LINKS:
    _labels = Fitted((-1.0, 1.0) if _link == "identity" else (0.0, 1.0))
    for _trust in ("central", "local"):
        for _method in PrivateGLM(link=_link, trust=_trust)._methods():
            _options: dict[str, Any] = {"link": _link, "trust": _trust, "method": _method}
            _options |= {"coef_bound": 1.0, "epsilon": EPSILON}
            _options |= {"epsilon": 50 * EPSILON} if _method == "erm" else {}  # else it gives up
            _name = f"PrivateGLM {_link} {_trust} {_method}"
            fit(_name, PrivateGLM, _labels, **_options)
            if _trust == "central":
                fit(f"{_name} public", PrivateGLM, _labels, **_options, **PUBLIC)
for _classes in (2, 4, 3):
    _known_labels = tuple(map(float, range(_classes)))
    fit(f"PrivateLogisticRegression {_classes} classes", PrivateLogisticRegression,
        Fitted(_known_labels),
        classes=_known_labels, coef_bound=1.0, **(PUBLIC if _classes == 3 else {}))  # fmt: skip

PRIVATE = {name: each for name, each in REGISTRY.items() if each.private}

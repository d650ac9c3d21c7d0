"""Every public learner, estimator, baseline and running sum, in one table: `REGISTRY`.

An `Entry` makes one (always with the same seeds), feeds it a data set step by step, and reads all
that it shows. The generic tests of tests/contract run on every entry, and its `test_registry.py`
fails if a public class is missing, so that a new one cannot forget them. To add one, write a line
here.
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
    OneByOne,
    Rows,
    Sparse,
    Sums,
    Visiting,
    unit,
)
from discreet.bandits import Holdout, LinearBandit, LocalServer, SparseBandit
from discreet.bandits.baselines import ContinualLinUCB, LinUCB, LocalLinUCB, LocalSGDBandit
from discreet.bandits.policies import POLICIES
from discreet.links import LINKS
from discreet.local import local_guarantee
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

__all__ = ["PARTS", "PRIVATE", "REGISTRY"]


class Served(LocalServer):
    """A server, and the noise of the devices that report to it."""

    def __init__(self) -> None:
        super().__init__(DIM, EPSILON, seed=1)
        self.noise = SeededNoise(2)

    @property
    def guarantee(self) -> Any:
        """What each device promises its owner."""
        return local_guarantee(self.policy, self.noise, sent=self.taken > 0)


class Relayed(Served):
    """The same with reports that are shuffled."""

    def __init__(self) -> None:
        LocalServer.__init__(self, DIM, EPSILON, delta=DELTA, crowd=Crowd(), seed=1)
        self.noise = SeededNoise(2)

    @property
    def guarantee(self) -> Any:
        """What each device promises its owner."""
        return local_guarantee(self.policy, self.noise, batches=self.batches, crowd=self.crowd)


STOLEN = ("_window.theta", "_window.average")  # the open window of gradient steps
HASHES = ("visitors._key", "visitors._seen")  # of people whose reward has counted


def _linear(**more: Any) -> Callable[[], Any]:
    fixed: dict[str, Any] = {"dim": DIM, "epsilon": EPSILON, "seed": 1, "reward_range": (0.0, 1.0)}
    return lambda: LinearBandit(**{**fixed, **more, "noise": SeededNoise(2)})


def _bandits() -> list[Entry]:
    joint = Contextual()
    out = list[Entry]()

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

        def reports(local: Any = local) -> Any:
            return local(DIM, 400, EPSILON, seed=1, noise=SeededNoise(2))

        entry(local.__name__, local, reports, 120)
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
    out = list[Entry]()
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
    out = list[Entry]()
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
    ball = domains.Ball(2)
    tree = domains.MatroidPolytope.graphic([(0, 1), (1, 2), (2, 0)])
    box = domains.Polytope(np.vstack([np.eye(2), -np.eye(2)]), np.ones(4))
    out = list[Entry]()

    def entry(name: str, of: Any, family: Family, *args: Any, **more: Any) -> None:
        clear = more.pop("clear", ())

        def make() -> Any:
            return of(*args, **{"seed": 1, "noise": SeededNoise(2), **more})

        out.append(Entry(name, of, make, family, 36, clear=clear))

    one = Losses()
    signed = Losses(-1.0, 1.0)
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
    d = Rows.dim
    out = list[Entry]()
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
    out = list[Entry]()
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
    out = list[Entry]()
    public: dict[str, Any] = {"public_X": unit(np.random.default_rng(9), 50, DIM)}

    def entry(name: str, of: Any, family: Family, **more: Any) -> None:
        private = more.pop("private", True)

        def make() -> Any:
            seeds = {"noise": SeededNoise(2), "random_state": 1} if private else {}
            return of(**more, **seeds)

        out.append(Entry(name, of, make, family, 60, private=private))

    for trust in ("central", "local", "shuffled"):
        for method in Linear(trust=trust, **public)._methods():
            options = {"epsilon": EPSILON, "trust": trust, "method": method}
            shape = Fitted(dim=1) if method == "one-dimensional" else Fitted()
            known = public if method in ("public-covariates", "known-covariates") else {}
            entry(f"PrivateLinearRegression {trust} {method}", Linear, shape, **options, **known)
    entry(
        "PrivateLinearRegression intercept", Linear, Fitted(), epsilon=EPSILON, fit_intercept=True
    )
    for link in LINKS:
        family = Fitted((-1.0, 1.0) if link == "identity" else (0.0, 1.0))
        for trust in ("central", "local"):
            for method in PrivateGLM(link=link, trust=trust)._methods():
                enough = 50 * EPSILON if method == "erm" else EPSILON  # else it gives up
                options = {"link": link, "trust": trust, "method": method, "coef_bound": 1.0}
                name = f"PrivateGLM {link} {trust} {method}"
                entry(name, PrivateGLM, family, epsilon=enough, **options)
                if trust == "central":
                    known = {**options, **public}
                    entry(f"{name} public", PrivateGLM, family, epsilon=enough, **known)
    for classes in (2, 4, 3):
        labels = tuple(map(float, range(classes)))
        name = f"PrivateLogisticRegression {classes} classes"
        known = {"classes": labels, "coef_bound": 1.0, **(public if classes == 3 else {})}
        entry(name, PrivateLogisticRegression, Fitted(labels), epsilon=EPSILON, **known)

    def search() -> Any:
        model = Linear(
            EPSILON,
            norm_bound=1.0,
            label_bound=1.0,
            fit_intercept=False,
            noise=SeededNoise(2),
            random_state=1,
        )
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

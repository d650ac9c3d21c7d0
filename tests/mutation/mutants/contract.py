"""Planted bugs of one kind, in every learner, estimator and baseline: noise is booked and drawn,
and the exact value is used. No attack on a release sees them; the generic checks of tests/contract
do, on the entry of the registry that is named.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import checks
from registry import PRIVATE

from mutants.kit import Edit, Leak, Mutant

# Complaints about the library itself that are open (tests/contract/known.py): no planted bug here
# makes them.
OPEN = ("coins", "the guarantee does not say", "the number of calls of linalg")


def complaints(check: Callable[[Any], list[str]], name: str) -> float:
    """How much a generic check finds wrong with one entry."""
    return float(sum(not any(o in each for o in OPEN) for each in check(PRIVATE[name])))


def planted(
    room: str,
    entry: str,
    name: str,
    *edits: Edit | Leak,
    check: Any = None,
    broken: str = "",
    attack: str = "",
) -> Mutant:
    """A bug that a generic check must find on this entry."""
    found = check or checks.only_the_release_speaks
    text = broken or "Noise is booked and drawn; what is used is the exact value."
    catch = partial(complaints, found, entry)
    unit = f"complaints of {found.__name__}"
    return Mutant(name, room, text, "contract", 0.0, catch, edits, unit, attack)


def exactly(room: str, entry: str, *edits: Edit | Leak, attack: str = "") -> Mutant:
    """The exact value in place of the release."""
    return planted(room, entry, f"exact value, {entry}", *edits, attack=attack)


WINDOWS = (
    Edit(
        "bandits.estimators:InformationWeighted._fold",
        "self._sum.add(self._term)",
        "self._sum.add(self._term)\n    self._exact = getattr(self, '_exact', 0.0) + self._term",
    ),
    Edit(
        "bandits.estimators:InformationWeighted.close",
        "self._sum.value",
        "getattr(self, '_exact', 0.0) + 0 * self._sum.value",
    ),
)
LEADER = Edit(
    "online.leader:PrivateLeader.learn",
    "self._total = self._sums.add(np.asarray(loss, dtype=np.float64) - self._centre)",
    "self._sums.add(np.asarray(loss, dtype=np.float64) - self._centre)\n"
    "        self._total = self._total + np.asarray(loss) - self._centre",
)
RAW_REPORT = Edit(
    "online.feedback:Reports.take",
    "self.channel.report(loss, self.noise)",
    "0 * self.channel.report(loss, self.noise) + loss",
)
RAW_BATCH = Edit(
    "online.feedback:Batches.take",
    "batch.due -= 1",
    "batch.due -= 1\n    self.bandit.learn(decision.choice, loss)",
)
SIGNS = "np.copysign({0}, values) if values.ndim == 2 else {0}"
FRANK_WOLFE = Edit(
    "online.directions:SmoothedDirection.add",
    "total = self._sums.add(g)",
    "self._sums.add(g)\n    total = self._exact = getattr(self, '_exact', 0.0) + g",
)
VERTEX = Edit(
    "online.directions:VertexDirection.add",
    "j, sign = self._choose(total, t)",
    "j, sign = self._choose(total, t)\n        j = int(np.argmax(np.abs(total)))",
)
LOCAL = "regression.local_protocol:report"

MUTANTS = [
    # -- the reviewer's six
    exactly("NoisySFW", "NoisySFW", Leak("online.baselines:gaussian")),
    exactly("NoisySGD", "NoisySGD", Leak("online.baselines:gaussian")),
    exactly(
        "LocalSGDBandit",
        "LocalSGDBandit",
        Edit(
            "bandits.baselines.local:LocalSGDBandit._report",
            "2 * reports.sum(axis=0)",
            "2 * gradients.sum(axis=0)",
        ),
        attack="local sgd bandit, own context",
    ),
    exactly(
        "LocalMD",
        "LocalMD p = 2",
        Edit(
            "online.baselines:LocalMD.learn",
            "self._total += self.clip * report",
            "self._total += clipped(g, self.clip) + 0 * report",
        ),
    ),
    planted(
        "LocalLinUCB",
        "LocalLinUCB",
        "exact Gram matrix, LocalLinUCB",
        Edit(
            "bandits.baselines.local:LocalLinUCB._report",
            "matrices.privatize(products, self._noise, clip=True).sum(axis=0)",
            "(0 * matrices.privatize(products, self._noise, clip=True) + products).sum(axis=0)",
        ),
    ),
    planted(
        "LocalLinUCB",
        "LocalLinUCB",
        "exact moment, LocalLinUCB",
        Edit(
            "bandits.baselines.local:LocalLinUCB._report",
            "moments.sum(axis=0)",
            "(0 * moments + X * y[:, None]).sum(axis=0)",
        ),
    ),
    planted(
        "ProjectionFreeBandit",
        "ProjectionFreeBandit",
        "baseline built from raw losses",
        Edit(
            "online.projection_free:GradientSums.choose",
            "mean = float(total[-1]) / (LEVEL * self.scale * t)",
            "mean = float(row[-1]) / (LEVEL * self.scale * self.bandit.size)",
        ),
        broken="What is subtracted from losses is the batch's exact mean; points are not moved.",
    ),
    planted(
        "LinearBandit, joint",
        "LinearBandit sgd greedy",
        "gradient steps beyond the window's length",
        Edit(
            "bandits.estimators:Descent.add",
            "zip(rows[:room], rewards[:room], strict=True)",
            "zip(rows, rewards, strict=True)",
        ),
        check=checks.within_the_budget,
        broken="Late rewards make more steps than the window has decisions; all are averaged.",
    ),
    # -- every other learner and baseline
    exactly(
        "LinearBandit, joint",
        "LinearBandit ucb",
        *WINDOWS,
        attack="linear bandit identity, own context",
    ),
    exactly("LinearBandit, joint", "LinearBandit link logistic", *WINDOWS),
    exactly("LinearBandit, joint", "LinearBandit link poisson", *WINDOWS),
    exactly(
        "LinearBandit, joint", "LinearBandit sgd squarecb", Leak("bandits.estimators:gaussian")
    ),
    planted(
        "LinearBandit, local",
        "LinearBandit local thompson",
        "signs of the exact answers",
        Edit(
            "bandits.local_protocol:report_many",
            "channel.privatize(values, noise, clip=True)",
            SIGNS.format("channel.privatize(values, noise, clip=True)"),
        ),
        broken="Reports lie on the sphere as they should, with the signs of the exact answer.",
    ),
    exactly(
        "ContinualLinUCB",
        "ContinualLinUCB tree",
        Edit(
            "bandits.baselines.continual:ContinualLinUCB._absorb",
            "self._sums.add(outer_vectors(rows, rewards)[0])",
            "self._sums.add(outer_vectors(rows, rewards)[0])\n"
            "        exact = getattr(self, '_exact', 0.0)\n"
            "        self._exact = exact + outer_vectors(rows, rewards)[0]",
        ),
        Edit(
            "bandits.baselines.continual:ContinualLinUCB._release",
            "vector_to_symmetric(self._sums.estimate)",
            "vector_to_symmetric(self._exact)",
        ),
    ),
    exactly("SparseBandit", "SparseBandit windows identity", Leak("online.arms:gaussian")),
    exactly("SparseBandit", "SparseBandit windows logistic", Leak("online.arms:gaussian")),
    exactly("SparseBandit", "SparseBandit every-round identity", VERTEX),
    exactly("FTRL", "FTRL simplex", LEADER),
    exactly("FTRL", "FTRL cube, pure", LEADER),
    exactly("FTPL", "FTPL simplex", LEADER),
    exactly("Doubling", "Doubling FTRL", LEADER),
    exactly("AdversarialBandit, local", "AdversarialBandit local", RAW_REPORT),
    exactly("AdversarialBandit, central", "AdversarialBandit central", RAW_BATCH),
    exactly("BarrierBandit, local", "BarrierBandit ball local", RAW_REPORT),
    exactly("BarrierBandit, central", "BarrierBandit ball central", RAW_BATCH),
    exactly("PrivateReduction", "PrivateReduction", RAW_REPORT),
    exactly(
        "ProjectionFreeBandit",
        "ProjectionFreeBandit, pure",
        Edit(
            "online.projection_free:GradientSums.choose",
            "total = self.sums.add(row)",
            "total = self.sums.add(row) * 0 + row",
        ),
    ),
    exactly("StreamingFrankWolfe, p > 1", "StreamingFrankWolfe p = 2", FRANK_WOLFE),
    exactly("StreamingFrankWolfe, p > 1", "StreamingFrankWolfe p = 1.1 generalized", FRANK_WOLFE),
    exactly("StreamingFrankWolfe, p = 1", "StreamingFrankWolfe p = 1", VERTEX),
    exactly("StreamingFrankWolfe, p = 1", "StreamingFrankWolfe simplex", VERTEX),
    exactly(
        "PrefixSum, blt",
        "PrefixSum blt",
        Edit(
            "privacy.prefix:PrefixSum.add",
            "self._estimate = self._sum.add(row)",
            "self._estimate = self._sum.add(row) * 0 + self._estimate + row",
        ),
    ),
    exactly(
        "PrefixSum, tree",
        "GeneralizedGaussianSum",
        Edit(
            "online.generalized:GeneralizedGaussianSum.add",
            "total = self._sum.add(x)",
            "total = self._sum.add(x) + 1e-3 * x",
        ),
    ),
    *(
        exactly(
            "regression, central", f"PrivateLinearRegression central {method}", Leak(f"{where}")
        )
        for method, where in (
            ("information-weighted", "regression.stages:gaussian"),
            ("single-pass", "regression.stages:gaussian"),
            ("public-covariates", "regression.stages:gaussian"),
            ("reweighted", "regression.reweighted:gaussian"),
            ("sgd", "regression.descent:gaussian"),
        )
    ),
    *(
        exactly(
            "regression, central",
            f"PrivateGLM {link} central {method}",
            Leak(f"regression.glm_{method}:gaussian"),
        )
        for link, method in (
            ("logistic", "newton"),
            ("poisson", "newton"),
            ("logistic", "erm"),
            ("identity", "sgd"),
            ("probit", "sgd"),
        )
    ),
    exactly("regression, central", "SSP", Leak("regression.baselines:gaussian_symmetric")),
    exactly("regression, central", "AdaSSP", Leak("regression.baselines:gaussian_symmetric")),
    planted(
        "regression, central",
        "AdaSSP",
        "exact smallest eigenvalue, AdaSSP",
        Leak("regression.baselines:gaussian"),
    ),
    exactly("regression, central", "DPGradientDescent", Leak("regression.baselines:gaussian")),
    *(
        planted(
            "regression, local",
            f"PrivateLinearRegression local {method}",
            f"signs of the exact answers, {method}",
            Edit(
                LOCAL,
                "values = state.channel.privatize(answer(rows, labels, state), noise, clip=True)",
                "values = answer(rows, labels, state)\n    sent = state.channel.privatize("
                "values, noise, clip=True)\n    values = " + SIGNS.format("sent"),
            ),
        )
        for method in ("information-weighted", "known-covariates")
    ),
    exactly(
        "regression, local",
        "PrivateLinearRegression local one-dimensional",
        Edit(
            "regression.local:one_dimensional",
            "top.add(channel.privatize(signed, problem.noise, clip=True))",
            "top.add(0 * channel.privatize(signed, problem.noise, clip=True) + signed)",
        ),
    ),
    exactly(
        "regression, local",
        "PrivateLinearRegression local sgd",
        Edit(
            "regression.local:descent",
            "channel.privatize(gradients, problem.noise, clip=True).sum(axis=0)",
            "(0 * channel.privatize(gradients, problem.noise, clip=True) + gradients).sum(axis=0)",
        ),
    ),
    exactly(
        "regression, local",
        "PrivateGLM logistic local sgd",
        Edit(
            "regression.glm_sgd:local_sgd",
            "reports = vectors.privatize(rows / bound, problem.noise, clip=True)",
            "reports = 0 * vectors.privatize(rows / bound, problem.noise, clip=True)"
            " + rows / bound",
        ),
    ),
    # -- failures
    planted(
        "StreamingFrankWolfe, p = 1",
        "StreamingFrankWolfe p = 1",
        "the sum moves before the draw",
        Edit(
            "online.directions:VertexDirection.add",
            "total = self._total + g",
            "total = self._total = self._total + g",
        ),
        check=checks.all_or_nothing,
        broken="A draw that fails leaves the gradient in the sum; tried again, it counts twice.",
    ),
    planted(
        "LocalSGDBandit",
        "LocalSGDBandit",
        "a reward is marked after its report",
        Edit(
            "bandits.learner:Bandit.learn",
            "self._rewarded[decision.round] = True\n    if self.learning:\n"
            "        self._absorb_one(row, value / self._scale)",
            "if self.learning:\n        self._absorb_one(row, value / self._scale)\n"
            "    np.linalg.norm(row)\n    self._rewarded[decision.round] = True",
        ),
        check=checks.all_or_nothing,
        broken="What fails between report and mark lets the same reward be reported again.",
    ),
]

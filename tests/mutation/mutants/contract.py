"""Planted bugs of one kind, in every learner, estimator and baseline: noise is booked and drawn,
and the exact value is used. No attack on a release sees them; the generic checks of tests/contract
do, on the entry of the registry that is named.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import checks

from discreet.audit.registry import PRIVATE
from mutants.kit import Edit, Leak, Mutant

_FOLDED = (
    "window = self._window\n"
    "        if window is None or (visitors is not None and not visitors.admit_hash(hashed)):\n"
    "            return False\n"
    "        if self.holdout is None:\n"
    "            window.fold_one(decision.row, value / self._scale)"
)


def complaints(check: Callable[[Any], list[str]], name: str) -> float:
    """How much a generic check finds wrong with one entry."""
    return float(len(check(PRIVATE[name])))


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
        "bandits.estimators:WeightedWindow.fold",
        "self.total.add(term)",
        "self.total.add(term)\n    self._exact = getattr(self, '_exact', 0.0) + term",
    ),
    Edit(
        "bandits.estimators:WeightedWindow.fold_one",
        "self.total._add(one)",
        "self.total._add(one)\n    self._exact = getattr(self, '_exact', 0.0) + one",
    ),
    Edit(
        "bandits.estimators:WeightedWindow.close",
        "self.total.publish()",
        "(getattr(self, '_exact', 0.0) + 0 * self.total.publish())",
    ),
)
LEADER = (
    Edit(
        "online.leader:PrivateLeader.learn",
        'self._sums.add(numbers("losses", loss) - self._centre)',
        'self._sums.add(numbers("losses", loss) - self._centre)\n'
        "            self._exact = getattr(self, '_exact', 0.0) + np.asarray(loss) - self._centre",
    ),
    Edit(
        "online.leader:PrivateLeader._decide",
        "self._sums.estimate",
        "getattr(self, '_exact', self._sums.estimate)",
    ),
)
RAW_REPORT = Edit(
    "online.feedback:Reports.report",
    "self.channel.report(loss, self._noise)",
    "0 * self.channel.report(loss, self._noise) + loss",
)
RAW_BATCH = Edit(
    "online.feedback:Batches.accept",
    "term = report if decision.choice.sign > 0 else -report",
    "term = report if decision.choice.sign > 0 else -report\n"
    "    bandit.learn(decision.choice, self.middle + report)",
)
FRANK_WOLFE = (
    Edit(
        "optimization.directions:SmoothedDirection.add",
        "self._sums.add(g)",
        "self._sums.add(g)\n    self._exact = getattr(self, '_exact', 0.0) + g",
    ),
    Edit(
        "optimization.directions:SmoothedDirection.point",
        "total = self._sums.estimate",
        "total = getattr(self, '_exact', self._sums.estimate)",
    ),
)
VERTEX = Edit(
    "optimization.directions:VertexDirection.add",
    "j, sign = self._choose(total, t)",
    "j, sign = self._choose(total, t)\n        j = int(np.argmax(np.abs(total)))",
)
SIGNS = Edit(
    "local.report:report_many",
    "private = channel.send(values, noise)",
    "private = channel.send(values, noise)\n"
    "            private = np.copysign(private, values) if values.ndim == 2 else private",
)

MUTANTS = [
    # -- the reviewer's three
    exactly(
        "LocalSGDBandit",
        "LocalSGDBandit",
        Edit(
            "bandits.baselines.local:GradientReports._reported",
            "longest * sent.sum(axis=0)",
            "longest * gradients.sum(axis=0)",
        ),
    ),
    planted(
        "LocalLinUCB",
        "LocalLinUCB",
        "exact Gram matrix, LocalLinUCB",
        Edit(
            "bandits.baselines.local:ProductReports._reported",
            "self.matrices.privatize(products, self.noise, clip=True)",
            "0 * self.matrices.privatize(products, self.noise, clip=True) + products",
        ),
    ),
    planted(
        "LocalLinUCB",
        "LocalLinUCB",
        "exact moment, LocalLinUCB",
        Edit(
            "bandits.baselines.local:ProductReports._reported",
            "moment + sent.sum(axis=0)",
            "moment + (0 * sent + X * y[:, None]).sum(axis=0)",
        ),
    ),
    planted(
        "ProjectionFreeBandit",
        "ProjectionFreeBandit",
        "baseline built from raw losses",
        Edit(
            "online.projection_free:GradientSums.choose",
            "mean = float(total[-1]) / (LEVEL * self.scale * t)",
            "mean = self._terms.level / bandit.size",
        ),
        broken="What is subtracted from losses is the batch's exact mean; points are not moved.",
    ),
    planted(
        "LinearBandit, joint",
        "LinearBandit descent",
        "gradient steps beyond the window's length",
        Edit(
            "bandits.descent:DescentWindow._fold",
            """room = self.size - self.taken
    for i, (phi, y) in enumerate(zip(rows[:room], rewards[:room], strict=True)):
        expected = min(max(float(phi @ theta), low), high)
        moved = theta + (self.step * (y - expected)) * phi
        moved /= max(math.sqrt(moved @ moved), 1.0)
        average += (max(room - i, 0) / self.size) * (moved - theta)
""",
            """for phi, y in zip(rows, rewards, strict=True):
        expected = min(max(float(phi @ theta), low), high)
        moved = theta + (self.step * (y - expected)) * phi
        moved /= max(math.sqrt(moved @ moved), 1.0)
        average += moved / self.size
""",
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
    exactly(
        "LinearBandit, joint",
        "LinearBandit link poisson",
        *WINDOWS,
        attack="linear bandit poisson, own context",
    ),
    exactly(
        "LinearBandit, joint",
        "LinearBandit descent",
        Edit(
            "bandits.descent:DescentWindow.close",
            "released = self.total.publish(self.average)",
            "self.total.publish(self.average)\n    released = self.average",
        ),
    ),
    planted(
        "LinearBandit, local",
        "LinearBandit local thompson",
        "signs of the exact answers",
        SIGNS,
        broken="Reports lie on the sphere as they should, with the signs of the exact answer.",
    ),
    exactly(
        "ContinualLinUCB",
        "ContinualLinUCB tree",
        Edit(
            "bandits.baselines.continual:RunningSums.fold_one",
            "self.sums.add(outer_vectors(row[None], np.array([reward]))[0])",
            "term = outer_vectors(row[None], np.array([reward]))[0]\n"
            "    self.sums.add(term)\n"
            "    self.sums.exact = getattr(self.sums, 'exact', 0.0) + term",
        ),
        Edit(
            "bandits.baselines.continual:ContinualLinUCB._estimated",
            "self._sums.estimate",
            "self._sums.exact",
        ),
    ),
    exactly(
        "SparseBandit",
        "SparseBandit identity",
        Leak("optimization.sparse_windows:gaussian"),
    ),
    exactly(
        "SparseBandit",
        "SparseBandit logistic",
        Leak("optimization.sparse_windows:gaussian"),
    ),
    exactly("FTRL", "FTRL simplex", *LEADER),
    exactly("FTRL", "FTRL cube, pure", *LEADER),
    exactly("FTPL", "FTPL simplex", *LEADER),
    exactly("Doubling", "Doubling FTRL", *LEADER),
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
            "total = self.sums.estimate",
            "total = self.sums.estimate + self._terms.gradient.sum()",
        ),
    ),
    exactly("StreamingFrankWolfe, p > 1", "StreamingFrankWolfe p = 2 sums", *FRANK_WOLFE),
    exactly("StreamingFrankWolfe, p > 1", "StreamingFrankWolfe p = 1.1 generalized", *FRANK_WOLFE),
    exactly("StreamingFrankWolfe, p = 1", "StreamingFrankWolfe p = 1 vertices", VERTEX),
    exactly(
        "StreamingFrankWolfe, windows",
        "StreamingFrankWolfe p = 2",
        Leak("optimization.windows:gaussian"),
    ),
    exactly(
        "StreamingFrankWolfe, windows",
        "StreamingFrankWolfe p = 1",
        Leak("optimization.sparse_windows:gaussian"),
    ),
    exactly("StreamingFrankWolfe, p = 1", "StreamingFrankWolfe simplex", VERTEX),
    exactly(
        "PrefixSum, blt",
        "PrefixSum blt",
        Edit(
            "privacy.prefix:PrefixSum.add",
            "estimate = self._sum.add(row).copy()",
            "estimate = self._sum.add(row) * 0 + row",
        ),
    ),
    exactly(
        "PrefixSum, tree",
        "PrefixSum generalized gaussian",
        Edit(
            "privacy.prefix:PrefixSum.add",
            "estimate = self._sum.add(row).copy()",
            "estimate = self._sum.add(row) + 1e-3 * row",
        ),
    ),
    *(
        exactly("regression, central", entry, Leak("regression.base:gaussian"))
        for entry in (
            "PrivateLinearRegression central information-weighted",
            "PrivateLinearRegression central single-pass",
            "PrivateLinearRegression central public-covariates",
            "PrivateLinearRegression central reweighted",
            "PrivateLinearRegression central sgd",
            "PrivateGLM logistic central newton",
            "PrivateGLM poisson central newton",
            "PrivateGLM logistic central erm",
            "PrivateGLM identity central sgd",
            "PrivateGLM probit central sgd",
            "SSP",
            "DPGradientDescent",
        )
    ),
    exactly("regression, central", "AdaSSP", Leak("regression.base:gaussian_symmetric")),
    planted(
        "regression, central",
        "AdaSSP",
        "exact smallest eigenvalue, AdaSSP",
        Edit("regression.baselines:AdaSSP._solve", "float(least)", "float(smallest)"),
    ),
    *(
        planted(
            "regression, local",
            f"PrivateLinearRegression local {method}",
            f"signs of the exact answers, {method}",
            SIGNS,
        )
        for method in ("information-weighted", "known-covariates")
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
        "StreamingFrankWolfe p = 1 vertices",
        "the sum moves before the draw",
        Edit(
            "optimization.directions:VertexDirection.add",
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
            f"self._rewarded.add(t)\n        {_FOLDED}",
            f"{_FOLDED}\n"
            "            np.linalg.norm(decision.row)\n            self._rewarded.add(t)",
        ),
        check=checks.all_or_nothing,
        broken="What fails between report and mark lets the same reward be reported again.",
    ),
]

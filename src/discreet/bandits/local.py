"""The contextual bandit under local and shuffled trust: devices and server in one process.

Rewarded rows are answered through a channel at once, and only the report enters the state. Under
shuffled trust a window's reports are one batch: added up, which no order survives, and given to the
server when the window ends. To run the two sides apart, use `Device` and `LocalServer` themselves
(examples/local_devices.py).
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from discreet.arrays import Array, one_of
from discreet.bandits.belief import Point
from discreet.bandits.estimators import Estimator, EstimatorWindow
from discreet.bandits.local_protocol import POLICIES as LOCAL_POLICIES
from discreet.bandits.local_server import LocalServer
from discreet.bandits.policies import Stage
from discreet.decisions import Policy
from discreet.local.report import Answers, BatchSum, report_many
from discreet.privacy import Budget, Guarantee, Ledger
from discreet.privacy.noise import Noise
from discreet.state import Stateful


class LocalReports(Stateful, Estimator):
    """Devices and server in one process: rows are answered at once, and only reports are kept.

    server   takes the reports
    seed     of what devices draw in public: which question they answer
    """

    _state = ("server", "_rng")

    def __init__(self, server: LocalServer, seed: int | None) -> None:
        self.server = server
        self._rng = np.random.default_rng(None if seed is None else own_seed(seed, "questions"))

    @classmethod
    def between(cls, learner: Any, budget: Budget, policy: str) -> "LocalReports":
        """The protocol of a learner with these bounds."""
        one_of("policy", policy, LOCAL_POLICIES)
        server = LocalServer(
            learner.dim,
            budget.epsilon,
            policy=policy,
            norm_bound=learner.norm_bound,
            reward_range=learner.reward_range,
            contributions=budget.contributions,
            delta=budget.delta,
            crowd=learner.shuffled,
            seed=None if learner.seed is None else own_seed(learner.seed, "draws"),
        )
        return cls(server, learner.seed)

    @property
    def first(self) -> int:  # type: ignore[override]
        """As many people as the server wants."""
        return self.server.size(0)

    @property
    def prior(self) -> Point:
        """The server's estimate."""
        policy = self.server.policy
        error = float(np.linalg.norm(policy.root)) / math.sqrt(policy.dim)
        return Point(policy.theta, error, policy.window)

    def policy(self, name: str, stage: Stage) -> Policy:
        """What the server publishes: devices decide by it."""
        return self.server.policy.rule

    def guarantee(self, ledger: Ledger, noise: Noise, visits: str = "") -> Guarantee:
        """What each person is promised, whatever happens to the reports."""
        promise = self.server.promised(noise)
        here = "anything, against whoever runs this process: devices and server are one here"
        return replace(promise, unprotected=(*promise.unprotected, here))

    def size(self, rounds: int, windows: int) -> int:
        """As many people as the server wants."""
        return self.server.size(windows)

    def open(
        self, belief: Point, size: int, noise: Noise, share: float | None = None
    ) -> "LocalWindow":
        """The server's policy says what is asked; a batch has as many reports as decisions."""
        if self.server.crowd is None:
            return LocalWindow(size)
        self.server.plan(size)
        return BatchWindow(size, BatchSum.empty(self.server.policy))

    def answers(self, rows: Array, rewards: Array, noise: Noise) -> Iterator[Answers]:
        """What these people send. Where there is one question nobody needs a coin.

        Where reports are shuffled there is one, the joint question: the coins of `seed`, which may
        be public, then decide nothing that a crowd would have to hide.
        """
        alone = len(self.server.policy.questions) == 1
        coins = np.zeros(len(rows)) if alone else self._rng.random(len(rows))
        return report_many(rows, rewards, self.server.policy, coins, noise)


class LocalWindow(EstimatorWindow):
    """Reports go to the server at once.

    size   decisions of the window
    """

    _state: ClassVar[tuple[str, ...]] = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size

    def attach(self, estimator: Any, noise: Noise) -> "LocalWindow":
        """Report to this server."""
        self.estimator = estimator
        return super().attach(estimator, noise)

    def fold(self, rows: Array, rewards: Array, held: Any = None, late: Any = None) -> None:
        """Each person answers one question."""
        self.estimator.server.take_answers(self.estimator.answers(rows, rewards, self.noise))

    def close(self, belief: Point) -> tuple[Point, None]:
        """The server learns from its sums and publishes the next policy: once, also if retried."""
        if self.estimator.server.policy.window == belief.windows:
            self.estimator.server.close()
        return self.estimator.prior, None


class BatchWindow(LocalWindow):
    """Reports wait for the end of the window, in sums; nothing else of them is kept.

    size    decisions of the window
    batch   the sums
    """

    _state: ClassVar[tuple[str, ...]] = ("size", "batch")

    def __init__(self, size: int, batch: BatchSum) -> None:
        super().__init__(size)
        self.batch = batch

    def fold(self, rows: Array, rewards: Array, held: Any = None, late: Any = None) -> None:
        """Each person answers the one question."""
        answers = self.estimator.answers(rows, rewards, self.noise)
        self._commit(batch=self.batch.plus_answers(answers, self.estimator.server.policy))

    def close(self, belief: Point) -> tuple[Point, None]:
        """The server takes the batch, if it is large enough, and publishes the next policy."""
        server = self.estimator.server
        if server.policy.window == belief.windows and not server.holds_batch:
            server.aggregate(self.batch)
        return super().close(belief)


def own_seed(seed: int, stream: str) -> int:
    """Another seed for each stream, that no other learner's seed gives."""
    tagged = np.random.SeedSequence([seed, *stream.encode()])
    return int(tagged.generate_state(1, np.uint64)[0])

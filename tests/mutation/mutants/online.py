"""Planted bugs in FTRL, AdversarialBandit and BarrierBandit."""

from typing import Any

import numpy as np

from discreet.domains import Ball, Simplex
from discreet.online import FTRL, AdversarialBandit, BarrierBandit, Doubling
from discreet.privacy import SeededNoise
from mutants.kit import DELTA, EPSILON, Edit, Mutant, both, gaussian_proved, proved


def direction_on_the_ball() -> float:
    """One round, a loss e1 or -e1: which way the decision goes."""

    def run(neighbour: int, seed: int) -> float:
        learner = FTRL(Ball(2), 1, EPSILON, DELTA, mechanism="blt", noise=SeededNoise(seed))
        learner.learn([(-1.0, 1.0)[neighbour], 0.0])
        return float(learner.decide()[0])

    return gaussian_proved(*both(run, 500))


def experts() -> float:
    """Sixteen experts, and one round in which half of them lose 1, or the other half."""
    losses = np.repeat([[0.0, 1.0], [1.0, 0.0]], 8, axis=1)
    halves = losses[1] - losses[0]

    def run(neighbour: int, seed: int) -> float:
        learner = FTRL(Simplex(16), 1, EPSILON, DELTA, mechanism="blt", noise=SeededNoise(seed))
        learner.learn(losses[neighbour])
        return float(np.log(np.maximum(learner.decide(), 1e-300)) @ halves)

    return gaussian_proved(*both(run, 600))


def batch_of_losses(make: Any, losses: tuple[float, float, float], canaries: int) -> Any:
    """Totals that the inner bandit was told after one batch; the first losses are one or other."""
    low, rest, high = losses

    def run(neighbour: int, seed: int) -> float:
        learner = make(SeededNoise(seed))
        heard: list[float] = []
        kept = learner.bandit.learn

        def listen(choice: Any, loss: float) -> None:
            heard.append(loss * choice.sign)
            kept(choice, loss)

        learner.bandit.learn = listen
        for t in range(learner.batch_size):
            decision = learner.decide()
            sign = getattr(decision.choice, "sign", 1)
            value = (low, high)[neighbour] if sign > 0 else (high, low)[neighbour]
            learner.learn(decision, value if t < canaries else rest)
        learner.decide()  # the release
        return heard[0]

    return both(run, 1000)


def one_person_in_one_batch() -> float:
    """Four rounds of one person in a batch; a loss of 0 or 1 in each. Claim 2."""

    def make(noise: SeededNoise) -> AdversarialBandit:
        return AdversarialBandit(2, 200, 2.0, trust="central", contributions=4, seed=0, noise=noise)

    return proved(*batch_of_losses(make, (0.0, 0.5, 1.0), 4))


def one_loss_of_a_ball() -> float:
    """One loss of -1 or 1 in a batch. Claim 2."""

    def make(noise: SeededNoise) -> BarrierBandit:
        return BarrierBandit(Ball(1), 200, 2.0, trust="central", seed=0, noise=noise)

    return proved(*batch_of_losses(make, (-1.0, 0.0, 1.0), 1))


def batches_together() -> float:
    """A loss of 0 or 1 in the first batch; the second holds known losses only. Claim 2.

    The difference of the two releases: independent noise makes it worse, the same one is gone.
    """

    def run(neighbour: int, seed: int) -> float:
        learner = AdversarialBandit(2, 200, 2.0, trust="central", seed=0, noise=SeededNoise(seed))
        heard: list[float] = []
        kept = learner.bandit.learn
        learner.bandit.learn = lambda arm, loss: (heard.append(loss), kept(arm, loss))
        for t in range(2 * learner.batch_size):
            learner.learn(learner.decide(), float(neighbour) if t == 0 else 0.5)
        learner.decide()
        return round(heard[0] - heard[1], 9)

    return proved(*both(run, 600))


def a_report_repeated() -> float:
    """A state from before a loss is loaded four times, with fresh noise; claim 1."""

    def run(neighbour: int, seed: int) -> float:
        learner = AdversarialBandit(2, 10, 1.0, seed=0, noise=SeededNoise(seed))
        decision = learner.decide()
        state, total = learner.state_dict(), 0.0
        for i in range(4):
            try:
                noise = state["state"]["_feedback"]["of"]["_noise"]["of"]
                noise["position"] = SeededNoise(4 * seed + i).state()
                learner.load_state_dict(state)
            except ValueError:  # the state is older than this learner
                break
            learner.learn(decision, float(neighbour))
            total += float(learner.bandit._total[decision.action])
        return total

    return proved(*both(run, 500))


def second_losses_taken() -> float:
    """How often one decision's loss is taken, hence reported; epsilon = 1 each."""
    learner = BarrierBandit(Ball(2), 50, 1.0, seed=0, noise=SeededNoise(0))
    decision, taken = learner.decide(), 0
    for _ in range(5):
        try:
            learner.learn(decision, 0.5)
            taken += 1
        except ValueError:
            break
    return float(taken)


def noise_used_again() -> float:
    """Restarts after a state was loaded: how many have the noise of a restart before it."""

    def made() -> Doubling:
        noise = SeededNoise(5)
        return Doubling(
            lambda horizon: AdversarialBandit(2, horizon, 1.0, seed=0, noise=noise), first=4
        )

    def play(learner: Doubling, rounds: int) -> dict[int, Any]:
        streams = {}
        for _ in range(rounds):
            learner.learn(learner.decide(), 0.5)
            streams[learner._restarts] = learner.learner._feedback._noise._seeds.spawn_key
        return streams

    first, second = made(), made()
    streams = play(first, 4 + 8 + 1)  # in the third
    second.load_state_dict(first.state_dict())
    streams |= play(second, 16 + 32 + 64)
    return float(len(streams) - len(set(streams.values())))


MUTANTS = [
    Mutant(
        "the paper's |Y| for 2 |Y|",
        "FTRL",
        "Agarwal and Singh's sensitivity: opposite losses are 2 |Y| apart.",
        "audit",
        EPSILON,
        direction_on_the_ball,
        (
            Edit(
                "online.leader:PrivateLeader.__init__",
                "sensitivity=b if box else 2 * b,",
                "sensitivity=b,\n            bound=b,",
            ),
        ),
        attack="ftrl on the ball",
    ),
    Mutant(
        "linf taken for l2",
        "FTRL",
        "Gaussian noise for losses in [0, 1]^n without the factor sqrt(n).",
        "audit",
        EPSILON,
        experts,
        (
            Edit(
                "privacy.calibration:stretch",
                "math.pow(dim, max(0.0, 1 / order[other] - 1 / order[norm]))",
                "1.0",
            ),
        ),
        attack="ftrl",
    ),
    Mutant(
        "contributions ignored by a batch",
        "AdversarialBandit, central",
        "A batch's noise is for one loss of a person who has four in it.",
        "audit",
        2.0,
        one_person_in_one_batch,
        (
            Edit(
                "online.feedback:Batches.__init__",
                "sensitivity = k * (",
                "sensitivity = 1 * (",
            ),
        ),
        attack="adversarial bandit central, three rounds of one user",
    ),
    Mutant(
        "one draw for all batches",
        "AdversarialBandit, central",
        "Every batch carries the noise of the first: the difference of two is exact.",
        "audit",
        2.0,
        batches_together,
        (
            Edit(
                "online.feedback:Batches.choose",
                "start = float(self._noise.laplace(scale, (), self._spacing)) if scale else 0.0",
                'start = self.__dict__.setdefault("kept", float(self._noise.laplace(scale, 1)[0]))',
            ),
        ),
        attack="adversarial bandit central",
    ),
    Mutant(
        "an old state loaded again",
        "AdversarialBandit, local",
        "A state that lacks losses already taken is loaded, and they are reported again.",
        "audit",
        1.0,
        a_report_repeated,
        (
            Edit(
                "online.reduction:PrivateBandit._assert_not_older",
                "if not self._taken <= resumed._taken:",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "the paper's M for 2 M",
        "BarrierBandit, central",
        "Noise for losses in [0, M] where they lie in [-M, M].",
        "audit",
        2.0,
        one_loss_of_a_ball,
        (
            Edit(
                "online.feedback:Batches.__init__",
                "k * (high - low + self._spacing)",
                "k * (high + self._spacing)",
            ),
        ),
        attack="barrier bandit central",
    ),
    Mutant(
        "local report sent twice",
        "BarrierBandit, local",
        "Nobody remembers that a loss was reported, and a second report goes out.",
        "state",
        1.0,
        second_losses_taken,
        (
            Edit(
                "online.reduction:PrivateBandit.learn",
                "self._taken.add(t)  # from here",
                "pass  # from here",
            ),
        ),
    ),
    Mutant(
        "seeds not used up by a load",
        "Doubling",
        "Restarts before the loaded one are not made again: the next ones draw their noise.",
        "state",
        0.0,
        noise_used_again,
        (
            Edit(
                "online.doubling:Doubling._decoded",
                "range(like._restarts + 1, restarts + 1)",
                "range(restarts, restarts + 1)",
            ),
        ),
        unit="restarts",
    ),
]

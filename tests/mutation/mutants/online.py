"""Planted bugs in FTRL, AdversarialBandit and BarrierBandit."""

from typing import Any

from discreet.domains import Ball
from discreet.online import AdversarialBandit, BarrierBandit, Doubling
from discreet.privacy import SeededNoise
from mutants.kit import Edit, Mutant, audited, both, proved


def a_report_repeated() -> float:
    """A state from before a loss is loaded three times, with fresh noise; claim 1."""

    def run(neighbour: int, seed: int) -> float:
        learner = AdversarialBandit(2, 10, 1.0, seed=0, noise=SeededNoise(seed))
        decision = learner.decide()
        state, total = learner.state_dict(), 0.0
        noise = state["state"]["_feedback"]["of"]["_noise"]["of"]
        for i in range(4):
            learner.learn(decision, float(neighbour))
            total += float(learner.bandit._total[decision.action])
            noise["position"] = SeededNoise(4 * seed + i).state()
            try:
                learner.load_state_dict(state)
            except ValueError:  # the state is older than this learner
                break
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
    audited(
        "the paper's |Y| for 2 |Y|",
        "FTRL",
        "Agarwal and Singh's sensitivity: opposite losses are 2 |Y| apart.",
        "ftrl on the ball",
        (
            Edit(
                "online.leader:PrivateLeader.__init__",
                "sensitivity=b if box else 2 * b,",
                "sensitivity=b,\n            bound=b,",
            ),
        ),
    ),
    audited(
        "linf taken for l2",
        "FTRL",
        "Gaussian noise for losses in [0, 1]^n without the factor sqrt(n).",
        "ftrl",
        (
            Edit(
                "privacy.prefix:stretch",
                "math.pow(dim, max(0.0, 1 / norm_order(other) - 1 / norm_order(norm)))",
                "1.0",
            ),
        ),
    ),
    audited(
        "contributions ignored by a batch",
        "AdversarialBandit, central",
        "A batch's noise is for one loss of a person who has four in it.",
        "adversarial bandit central, three rounds of one user",
        (
            Edit(
                "online.feedback:Batches.__init__",
                "sensitivity = k * (",
                "sensitivity = 1 * (",
            ),
        ),
        runs=1500,
    ),
    audited(
        "one draw for all batches",
        "AdversarialBandit, central",
        "Every batch carries the noise of the first: the difference of two is exact.",
        "adversarial bandit central",
        (
            Edit(
                "online.feedback:Batches.choose",
                "drawn = float(self._noise.laplace(scale, (), self._spacing)) if scale else 0.0",
                'drawn = self.__dict__.setdefault("kept", float(self._noise.laplace(scale, 1)[0]))',
            ),
        ),
        runs=1000,
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
                "state.live:Stateful.load_state_dict",
                "if self._live.begun:",
                "if False:",
            ),
            Edit(
                "state.claims:resume",
                "if fingerprint(heir._encoded()) != name:",
                "if False:",
            ),
        ),
    ),
    audited(
        "the paper's M for 2 M",
        "BarrierBandit, central",
        "Noise for losses in [0, M] where they lie in [-M, M].",
        "barrier bandit central",
        (
            Edit(
                "online.feedback:Batches.__init__",
                "k * (high - low + self._spacing)",
                "k * (high + self._spacing)",
            ),
        ),
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
                "self._rewarded.add(t)  # from here",
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

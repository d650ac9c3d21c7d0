"""Which of ten thousand answers explain a health score, when every answer sheet is private?

    python examples/sparse_regression.py [people] [questions]

Each person answers many yes/no questions (+1 or -1); three of them matter. The parameter lives in
the l1 ball, whose corners are single questions, and privacy is paid for choosing corners: the noise
grows with the logarithm of the number of questions only.
"""

import sys

import numpy as np

from discreet.domains import LpBall
from discreet.optimization.frank_wolfe import StreamingFrankWolfe
from discreet.privacy import SeededNoise

DELTA = 1e-6


def main(people: int, questions: int) -> None:
    """Learn from so many people, at several levels of privacy."""
    truth = np.zeros(questions)
    truth[[7, questions // 3, questions - 1]] = 0.5, -0.3, 0.2
    names = np.nonzero(truth)[0]

    print(f"{people:,} people, {questions:,} questions, delta = {DELTA:g}")
    print(f"{'':26}{'squared error':>14}{'three that matter':>30}")
    print(f"{'the truth':26}{0:14.3f}{'  '.join(f'{v:+.2f}' for v in truth[names]):>30}")
    for epsilon in (1.0, 3.0, 10.0, float("inf")):
        rng = np.random.default_rng(0)  # the same people for each
        learner = StreamingFrankWolfe(
            LpBall(1, questions), people, epsilon, DELTA, noise=SeededNoise(1)
        )
        for _ in range(people):
            answers = rng.integers(0, 2, questions, dtype=np.int8) * 2.0 - 1.0
            score = float(answers[names] @ truth[names]) + 0.05 * rng.standard_normal()
            learner.learn(answers, score)
        # Answers are independent signs: the squared error of predictions is that of theta.
        error = float(np.sum((learner.theta - truth) ** 2))
        name = "not private" if np.isinf(epsilon) else f"private, epsilon = {epsilon:g}"
        found = "  ".join(f"{v:+.2f}" for v in learner.theta[names])
        print(f"{name:26}{error:14.3f}{found:>30}")
    print(f"{'no guess at all':26}{float(truth @ truth):14.3f}")


if __name__ == "__main__":
    sizes = [int(word) for word in sys.argv[1:]]
    main(*(sizes + [5_000, 10_000][len(sizes) :]))

"""Words in, reports out: test vectors that every language must repeat, bit by bit.

`python -m tests.local.vectors` writes clients/js/test/vectors.json again.
"""

import json
from pathlib import Path

import numpy as np

from discreet.bandits import PublicPolicy
from discreet.features import Category, FeatureMap, Number
from discreet.local.questions import answer, scaled_outcomes, scaled_rows
from discreet.privacy import Shuffled
from discreet.privacy.noise import SystemNoise
from discreet.privacy.portable import COINS, log
from discreet.service import definitions, devices

FILE = Path(__file__).parents[2] / "clients" / "js" / "test" / "vectors.json"
DIMS = (1, 2, 3, 4, 7)
EPSILONS = (0.05, 1.0, 4.0, 9.0)


class Recorded(SystemNoise):
    """Words of a seed, written down as they are drawn."""

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)
        self.words = []

    def uniform(self, size):
        drawn = self._rng.integers(0, COINS, size)
        self.words += np.ravel(drawn).tolist()
        return (drawn + 0.5) / COINS


def policy(dim, epsilon, seed, batch=None):
    """A policy as a server might publish it."""
    rng = np.random.default_rng(seed)
    start = PublicPolicy.start(
        dim, epsilon, clip=0.3, reward_range=(-0.5, 2.0), contributions=2, batch=batch
    )
    record = start.to_dict() | {
        "window": 3,
        "theta": (rng.standard_normal(dim) / 2).tolist(),
        "whitening": (3 * rng.standard_normal((dim, dim))).tolist(),
    }
    return PublicPolicy.from_dict(record)


def document(public):
    channels = {q.kind: public.channels[q.name].thresholds for q in public.questions}
    return {**public.to_dict(), "channels": channels, "features": {"dim": public.dim}}


def records(dim, rng):
    """Ordinary rows and rewards, and those at the edges."""
    yield rng.standard_normal(dim), float(rng.uniform(-0.5, 2.0))
    yield rng.standard_normal(dim) / 9, float(rng.uniform(-0.5, 2.0))
    yield np.zeros(dim), 1.0
    yield 1e300 * rng.standard_normal(dim), 1e300
    yield 1e-300 * rng.standard_normal(dim), -7.0


def values(public, question, row, reward, noise):
    """The integers that a device sends for a record."""
    rows = scaled_rows(scaled_rows(row[None], public.dim, public.norm_bound), public.dim, 1.0)
    outcomes = scaled_outcomes([reward], public.outcome_range)
    answers = answer(rows, outcomes, question, public.theta, public.whitening)
    channel = public.channels[question.name]
    return channel.encode(channel.send(answers, noise)).ravel().tolist()


def made():
    """All vectors."""
    reports, policies = [], []
    kinds = [(dim, epsilon, None) for dim in DIMS for epsilon in EPSILONS]
    kinds += [(dim, 9.0, Shuffled().batch(20_000, 1.0, 1e-6)) for dim in DIMS]  # joint answers
    for dim, epsilon, batch in kinds:
        seed = len(policies)
        public = policy(dim, epsilon, seed, batch)
        policies.append(document(public))
        rng = np.random.default_rng([seed, 1])
        for row, reward in records(dim, rng):
            for place, question in enumerate(public.questions):
                noise = Recorded([seed, len(reports)])
                sent = values(public, question, row, reward, noise)
                reports.append(
                    {
                        "policy": seed,
                        "question": place,
                        "row": row.tolist(),
                        "reward": reward,
                        "words": noise.words,
                        "values": sent,
                    }
                )
    x = np.concatenate([np.geomspace(5e-324, 1.7e308, 64), 1 + np.linspace(-1e-3, 1e-3, 33)])
    return {
        "logarithms": [[float(each), float(log(each))] for each in x],
        "policies": policies,
        "reports": reports,
        "rows": rows(),
    }


def rows():
    """Contexts and their feature rows."""
    definition = definitions.parsed(
        json.dumps(
            {
                "context": {
                    "age": {"number": [18, 90]},
                    "plan": {"category": ["basic", "gold", 3, True], "other": True},
                    "score": {"number": [0, 10], "missing": 2},
                    "visits": {"number": [0, 10], "missing": "indicator"},
                    "city": {"category": ["A", "B"], "other": True, "missing": True},
                },
                "actions": ["email", "call", "nothing"],
                "privacy": {"epsilon": 1.0, "trust": "local"},
            }
        ).encode()
    )
    columns = {
        "age": Number(18, 90),
        "plan": Category("basic", "gold", 3, True, other=True),
        "score": Number(0, 10, missing=2),
        "visits": Number(0, 10, missing="indicator"),
        "city": Category("A", "B", other=True, missing=True),
    }
    phi = FeatureMap(columns, ["email", "call", "nothing"])
    known = {"score": 7.5, "visits": 11, "city": "B"}
    contexts = [
        {"age": 40, "plan": "gold", **known},
        {"age": 1, "plan": "none", **known, "city": "C"},
        {"age": 71.3, "plan": 3, **known, "score": None},
        {"age": 1e9, "plan": True, **known, "visits": None},
        {"age": 25, "plan": "3", **known, "city": None},
    ]
    return {
        "features": devices.features(definition),
        "contexts": contexts,
        "rows": [scaled_rows(phi(each), phi.dim, 1.0).tolist() for each in contexts],
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(made()) + "\n")

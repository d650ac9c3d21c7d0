"""How the interfaces of the library are fed and read: one `Family` for each.

Contextual, Visiting, Sparse   decide(features), learn(decision, reward)
Leader                         decide(), learn(loss)
Losses                         decide(), learn(decision, loss)
Rows                           learn(x, y)
Sums                           add(x)
Trials                         add(person, values), look()
Fitted                         fit(X, y)
Devices, Batches               devices that report to a server
"""

import json
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from discreet.audit.entries import Entry, Family, Session, Step, flat
from discreet.audit.rows import Claim
from discreet.bandits import Device, Promise
from discreet.privacy import Budget
from discreet.state import encode

EPSILON = 8.0
DELTA = 1e-6
DIM = 2
ACTIONS = 3


def unit(rng: Any, *shape: int) -> Any:
    """Rows of l2 norm at most 1, some of them exactly 1."""
    z = rng.standard_normal(shape)
    z /= np.linalg.norm(z, axis=-1, keepdims=True)
    return z * np.where(rng.random((*shape[:-1], 1)) < 0.5, 1.0, rng.random((*shape[:-1], 1)))


class Contextual(Family):
    """decide(features), learn(decision, reward): others see the policy, not one's own action."""

    late = True

    def __init__(self, low: float = 0.0, high: float = 1.0) -> None:
        self.low = low
        self.high = high

    def contexts(self) -> list[Any]:
        e = np.eye(DIM)
        return [np.zeros((3, DIM)), np.tile(e[0], (3, 1)), np.array([e[0], -e[0], e[1]]),
                np.array([e[0], e[0], -e[1]])]  # fmt: skip

    def data(self, entry: Entry, which: int, rng: Any) -> list[Any]:
        contexts = unit(rng, entry.rounds, ACTIONS, DIM)
        if which == 1:  # the other people want the opposite, and more of it
            contexts = np.sign(contexts) / np.sqrt(DIM)
        rewards = rng.choice([self.low, self.high], entry.rounds)
        return list(zip(contexts, rewards.tolist(), strict=True))

    def quiet(self, entry: Entry) -> tuple[list[Any], list[Any]]:
        nobody = (np.zeros((1, DIM)), 0.0)
        first, second = ((np.eye(DIM)[:1], reward) for reward in (self.low, self.high))
        rest = [nobody] * (entry.rounds - 1)
        return [first, *rest], [second, *rest]

    def decide(self, t: int, record: Any, session: Session) -> None:
        session.decisions[t] = session.subject.decide(record[0])

    def learn(self, t: int, record: Any, session: Session) -> None:
        session.subject.learn(session.decisions[t], record[1])

    def shown(self, session: Session) -> dict[str, Any]:
        learner = session.subject
        rng = np.random.default_rng(0)
        made = [learner.decide(x) for x in unit(rng, 40, ACTIONS, DIM)]
        return {
            "others' actions": [each.action for each in made],
            "others' probabilities": np.array([each.probabilities for each in made]),
            "theta": getattr(learner, "theta", None),
            "value": str(getattr(learner, "value", None)),
            "rounds until release": learner.rounds_until_release,
            "rounds": learner.rounds,
        }


class Visiting(Contextual):
    """learn(decision, reward, person): the same few people come again and again.

    The people of two data sets have different names and come at the same times.
    """

    people = 7

    def data(self, entry: Entry, which: int, rng: Any) -> list[Any]:
        rounds = super().data(entry, which, rng)
        return [(*each, f"{which}-{t % self.people}") for t, each in enumerate(rounds)]

    def replaced(self, data: list[Any], t: int) -> list[int]:
        return [i for i, each in enumerate(data) if each[2] == data[t][2]]

    def quiet(self, entry: Entry) -> tuple[list[Any], list[Any]]:
        """The person of the first round comes in every other one, with the same reward."""
        sides = []
        for (features, reward, *_), *rest in super().quiet(entry):
            mine = (features, reward, "canary")
            sides.append(
                [mine, *((*each, "nobody") if t % 2 else mine for t, each in enumerate(rest))]
            )
        return sides[0], sides[1]

    def learn(self, t: int, record: Any, session: Session) -> None:
        session.subject.learn(session.decisions[t], record[1], person=record[2])


class Sparse(Family):
    """decide(x), learn(decision, reward)."""

    dim = 4
    late = True
    decide = Contextual.decide
    learn = Contextual.learn

    def contexts(self) -> list[Any]:
        return [np.zeros(self.dim), np.ones(self.dim), -np.ones(self.dim), np.eye(self.dim)[0]]

    def data(self, entry: Entry, which: int, rng: Any) -> list[Any]:
        low, high = entry.make().reward_range
        X = rng.uniform(-1, 1, (entry.rounds, self.dim))
        X = np.sign(X) if which == 1 else X
        return [(x, float(rng.choice([low, high]))) for x in X]

    def shown(self, session: Session) -> dict[str, Any]:
        learner = session.subject
        rng = np.random.default_rng(0)
        made = [learner.decide(x) for x in rng.uniform(-1, 1, (40, self.dim))]
        return {
            "others' actions": [each.action for each in made],
            "others' probabilities": [each.probability for each in made],
            "theta": learner.theta,
        }


class Leader(Family):
    """decide(), learn(loss): everybody sees every decision."""

    def data(self, entry: Entry, which: int, rng: Any) -> list[Any]:
        domain = entry.arguments["domain"]
        n = domain.dim
        if domain.loss_set == "box" and which == 1:
            return list(np.round(rng.random((entry.rounds, n))))
        sign = -1.0 if which == 1 else 1.0
        return list(sign * np.eye(n)[rng.integers(n, size=entry.rounds)])

    def decide(self, t: int, record: Any, session: Session) -> None:
        session.shown.append(np.array(session.subject.decide()))

    def learn(self, t: int, record: Any, session: Session) -> None:
        session.subject.learn(record)

    def shown(self, session: Session) -> dict[str, Any]:
        return {"last": session.subject.decide(), "rounds": session.subject.rounds}


class Losses(Family):
    """decide(), learn(decision, loss), one number: everybody sees every decision."""

    late = True

    def __init__(self, low: float = 0.0, high: float = 1.0) -> None:
        self.low = low
        self.high = high

    def data(self, entry: Entry, which: int, rng: Any) -> list[Any]:
        return [float(x) for x in rng.choice([self.low, self.high], entry.rounds)]

    def decide(self, t: int, record: Any, session: Session) -> None:
        made = session.decisions[t] = session.subject.decide()
        session.shown.append(flat(encode(made.choice)))

    def learn(self, t: int, record: Any, session: Session) -> None:
        session.subject.learn(session.decisions[t], record)

    def shown(self, session: Session) -> dict[str, Any]:
        return {"rounds": session.subject.rounds}


class Rows(Family):
    """learn(x, y), one row at a time; theta before every row, and at the end."""

    dim = 3
    asked = "read"

    def data(self, entry: Entry, which: int, rng: Any) -> list[Any]:
        X = rng.uniform(-1, 1, (entry.rounds, self.dim))
        X /= np.abs(X).sum(axis=1, keepdims=True)  # of l1 norm 1, hence inside every l_q ball
        X = np.sign(X[:, :1]) * np.eye(self.dim)[-1] if which == 1 else X
        return [(x, float(rng.choice([0.0, 1.0]))) for x in X]

    def decide(self, t: int, record: Any, session: Session) -> None:
        session.shown.append(np.array(session.subject.theta))

    def learn(self, t: int, record: Any, session: Session) -> None:
        session.subject.learn(*record)

    def shown(self, session: Session) -> dict[str, Any]:
        return {"theta": session.subject.theta, "rounds": session.subject.rounds}


class Sums(Family):
    """add(x): a private sum after every row."""

    dim = 2

    def promised(self, entry: Entry, claim: Claim) -> dict[str, Any]:
        return {"budget": Budget(claim.epsilon, claim.delta, claim.contributions)}

    def data(self, entry: Entry, which: int, rng: Any) -> list[Any]:
        rows = unit(rng, entry.rounds, self.dim) / 2
        return list(np.sign(rows) / 4 if which == 1 else rows / 2)

    def steps(self, data: list[Any], delay: int) -> list[Step]:
        half = len(data) // 2  # the rest comes at once
        rest = partial(self.add_many, np.array(data[half:]))
        return [*super().steps(data[:half], 0), ("learn", half, rest)]

    def learn(self, t: int, record: Any, session: Session) -> None:
        session.shown.append(np.array(session.subject.add(record)))

    def add_many(self, records: Any, session: Session) -> None:
        session.shown.append(np.array(session.subject.add_many(records)))

    def shown(self, session: Session) -> dict[str, Any]:
        return {"rounds": session.subject.rounds, "last": session.shown[-1]}


class Trials(Family):
    """add(person, values), and a look now and then: who comes, and when, is public."""

    every = 10

    def data(self, entry: Entry, which: int, rng: Any) -> list[Any]:
        names = list(entry.arguments["metrics"])
        rows = rng.random((entry.rounds, len(names)))
        rows = np.round(rows) if which == 1 else rows
        return [dict(zip(names, row.tolist(), strict=True)) for row in rows]

    def quiet(self, entry: Entry) -> tuple[list[Any], list[Any]]:
        nothing, everything = (dict.fromkeys(entry.arguments["metrics"], x) for x in (0.0, 1.0))
        rest = [nothing] * (entry.rounds - 1)
        return [nothing, *rest], [everything, *rest]

    def learn(self, t: int, record: Any, session: Session) -> None:
        session.shown.append(bool(session.subject.add(f"person {t}", record)))

    def close(self, t: int, session: Session) -> None:
        session.shown.append(str(session.subject.look().to_dict()))

    def shown(self, session: Session) -> dict[str, Any]:
        return {"history": str([each.to_dict() for each in session.subject.history])}


class Fitted(Family):
    """fit(X, y): the estimate, its predictions and widths."""

    dim = DIM

    def __init__(self, labels: tuple[float, ...] = (-1.0, 1.0)) -> None:
        self.labels = labels

    def data(self, entry: Entry, which: int, rng: Any) -> list[Any]:
        X = unit(rng, entry.rounds, self.dim)
        if which == 1:  # labels that a plane separates: fits without noise never come to an end
            X = np.sign(X) / np.sqrt(self.dim)
            return [(x, float(self.labels[int(x[0] > 0)])) for x in X]
        return [(x, float(rng.choice(self.labels))) for x in X]

    def steps(self, data: list[Any], delay: int) -> list[Step]:
        X, y = (np.array(part) for part in zip(*data, strict=True))
        return [("fit", 0, lambda session: session.subject.fit(X, y))]

    def shown(self, session: Session) -> dict[str, Any]:
        model = session.subject
        if not hasattr(model, "coef_"):
            return {"theta": model.theta}
        probes = np.random.default_rng(0).uniform(-0.5, 0.5, (5, self.dim))
        seen = {
            "coef": model.coef_,
            "intercept": model.intercept_,
            "predict": model.predict(probes),
        }
        for name in ("confidence_width", "predict_interval", "predict_proba_interval"):
            with suppress(ValueError):  # a method without
                seen[name] = getattr(model, name, repr)(probes)
        return seen


class Devices(Family):
    """Devices and a server apart: what is shown is what the server publishes."""

    every = 20

    def data(self, entry: Entry, which: int, rng: Any) -> list[Any]:
        return Contextual(-1.0, 1.0).data(entry, which, rng)

    def learn(self, t: int, record: Any, session: Session) -> None:
        session.subject.take(self.report(t, record, session))

    def report(self, t: int, record: Any, session: Session) -> Any:
        """Of one device."""
        server = session.subject
        promise = Promise(server.epsilon, server.delta)
        device = Device(server.policy, promise, noise=server.noise, seed=t)
        return device.report(device.decide(record[0]), record[1])

    def close(self, t: int, session: Session) -> None:
        session.shown.append(json.dumps(session.subject.close().to_dict()))

    def shown(self, session: Session) -> dict[str, Any]:
        return {"policy": json.dumps(session.subject.policy.to_dict())}


class Batches(Devices):
    """The same with a relay between them: reports wait, and come in another order at the end."""

    def learn(self, t: int, record: Any, session: Session) -> None:
        session.decisions.setdefault(t // self.every, {})[t] = self.report(t, record, session)

    def close(self, t: int, session: Session) -> None:
        server = session.subject
        batch = list(session.decisions[t // self.every].values())
        if not server.holds_batch:
            server.aggregate(batch[i] for i in np.random.default_rng(t).permutation(len(batch)))
        super().close(t, session)

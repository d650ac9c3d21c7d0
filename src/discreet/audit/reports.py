"""Reports in a file, made by a device in any language: are they as private as the policy says?

    {"policy": a public policy, as a service publishes it,
     "records": [{"row": [...], "reward": 1.0}, {"row": [...], "reward": 0.0}],
     "reports": [[{"question": "moment", "values": [integers]}, ...], [...]]}

`reports` holds what a device sent for the first record and for the second, again and again. The
score is the log-likelihood ratio of a report, from the density that the channel publishes: if the
device draws as it should, nothing proves more than epsilon/contributions, the price of one report.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.audit.rows import Attack, Claim
from discreet.audit.run import Audited, audit_sides
from discreet.audit.views import log_ratio
from discreet.bandits import PublicPolicy
from discreet.local.questions import answer, scaled_outcomes, scaled_rows


def audit_reports(path: Path, *, confidence: float = 0.999) -> Audited:
    """What can be proved from the reports of a file, against what its policy promises.

    A claim that holds is refuted (`sure`) with probability at most 1 - confidence.
    """
    try:
        content = json.loads(path.read_text())
        policy = PublicPolicy.from_dict(content["policy"])
        records = [(np.array(each["row"], float), each["reward"]) for each in content["records"]]
        first, second = content["reports"]
        if len(records) != 2 or not first or not second:
            raise ValueError
        sides = _scores(policy, records, first), _scores(policy, records, second)
    except (OSError, KeyError, TypeError, ValueError, IndexError):
        raise ValueError(
            f"{path} does not hold reports: expected JSON with a policy, two records, and the "
            "reports of each (docs/local.md)"
        ) from None
    claim = Claim(policy.epsilon / policy.contributions)
    made = Attack(
        path.name,
        "local",
        claim,
        "Reports from a file, by the ratio of their likelihoods.",
        lambda claim, runs, neighbour, noise: sides[neighbour][:runs],
    )
    return audit_sides(made, sides, confidence=confidence)


def _scores(policy: PublicPolicy, records: Any, reports: Any) -> Array:  # (n, 2)
    scores = np.empty((len(reports), 2))
    for name in policy.channels:
        places = [at for at, each in enumerate(reports) if each["question"] == name]
        if places:
            codes = np.array([reports[at]["values"] for at in places], dtype=np.int64)
            scores[places] = _of_question(policy, name, records, codes)
    if any(each["question"] not in policy.channels for each in reports):
        raise ValueError
    return np.round(scores, 9)


def _of_question(policy: PublicPolicy, name: str, records: Any, codes: Any) -> Array:
    """The ratio for these reports on one question, and their first number."""
    channel: Any = policy.channels[name]
    question = policy.question(name)
    assert question is not None
    scalar = not policy.shape(name)
    sent = channel.decode(codes[:, 0] if scalar else codes)
    if not channel.possible(sent).all():
        raise ValueError
    answers = []
    for row, reward in records:
        rows = scaled_rows(row[None], policy.dim, policy.norm_bound)
        outcomes = scaled_outcomes([reward], policy.outcome_range)
        answers.append(answer(rows, outcomes, question, policy.theta, policy.whitening)[0])
    return np.column_stack([log_ratio(channel, sent, answers), codes[:, 0]])

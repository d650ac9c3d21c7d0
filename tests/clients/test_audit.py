"""What the JavaScript device sends, audited from outside: below the claim; mistakes are seen."""

import json
import subprocess

import numpy as np
import pytest

from discreet.audit.reports import audit_reports
from discreet.bandits import PublicPolicy
from discreet.cli import main
from tests.clients.test_js import PACKAGE, node

EPSILON = 1.0
RUNS = 8000
RECORDS = [{"row": [1.0, 0.0, 0.0], "reward": -1.0}, {"row": [1.0, 0.0, 0.0], "reward": 1.0}]


def document(kind, epsilon=EPSILON):
    """A policy that asks one question, which tells the most about these records."""
    start = PublicPolicy.start(3, epsilon, clip=0.9).to_dict()
    names = {"moment": "moment", "square": "scale", "gram": "gram"}
    asked = [q | {"fraction": float(q["name"] == names[kind])} for q in start["questions"]]
    public = PublicPolicy.from_dict(start | {"questions": asked, "theta": [0.1, 0.0, 0.0]})
    channels = {q.kind: public.channels[q.name].thresholds for q in public.questions}
    return {**public.to_dict(), "channels": channels, "features": {"dim": 3}}


def draw(tmp_path, policy, records=RECORDS, **more):
    """A file of reports that Node drew."""
    asked = {"policy": policy, "records": records, "runs": RUNS, **more}
    made = subprocess.run(
        [node(), str(PACKAGE / "audit.js")],
        input=json.dumps(asked), capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    path = tmp_path / "reports.json"
    path.write_text(made.stdout)
    return path


@pytest.mark.parametrize(
    ("kind", "records"),
    [
        ("moment", RECORDS),
        # For a gram the direction counts, for a square the size of the residual.
        ("gram", [{"row": [1, 0, 0], "reward": 0.1}, {"row": [0, 1, 0], "reward": 0.0}]),
        ("square", [{"row": [1, 0, 0], "reward": 0.1}, {"row": [1, 0, 0], "reward": -1.0}]),
    ],
)
def test_audit__javascript_keeps_the_promise_and_uses_it(tmp_path, kind, records):
    """8,000 reports of each; a false alarm in one of a million runs. The bound at 95% shows that
    there is power."""
    path = draw(tmp_path, document(kind), records)
    close, sure = audit_reports(path, confidence=1 - 1e-6)[1:]
    assert sure.verdict.startswith("not refuted")
    assert close.lower_bound > 0.7 * EPSILON


def test_audit__a_coin_for_twice_the_epsilon_is_caught(tmp_path):
    """A device that takes the server's word for its epsilon sends twice what was promised."""
    policy = document("moment")
    path = draw(tmp_path, document("moment", 2 * EPSILON), broken="trust")
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"policy": policy}))
    assert audit_reports(path).sure.verdict == "BROKEN"


def test_audit__half_of_the_randomness_is_caught_and_the_command_says_so(tmp_path, capsys):
    command = ["audit", "--out", str(tmp_path), "--reports"]
    alike = [RECORDS[0], RECORDS[0] | {"reward": -0.9}]  # far from the claim: no false alarms
    assert main([*command, str(draw(tmp_path, document("moment"), alike))]) == 0
    assert capsys.readouterr().out.count("BROKEN") == 1  # below the table, where it is explained
    path = draw(tmp_path, document("moment"), broken="half")
    with pytest.raises(SystemExit) as stop:
        main([*command, str(path)])
    assert stop.value.code == 1
    assert capsys.readouterr().out.count("BROKEN") == 2


def test_audit__a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "reports.json"
    good = {"policy": document("moment"), "records": RECORDS, "reports": [[], []]}
    report = {"question": "moment", "values": [0, 0, 0]}  # on no sphere
    for content in (
        "",
        "[]",
        json.dumps(good),
        json.dumps(good | {"reports": [[report], [report]]}),
    ):
        path.write_text(content)
        with pytest.raises(ValueError, match="does not hold reports"):
            audit_reports(path)


def test_law__reports_of_node_have_the_mean_that_was_asked_for(tmp_path):
    """Unbiased: the mean of 8,000 reports is the answer, within five standard errors."""
    content = json.loads(draw(tmp_path, document("moment")).read_text())
    public = PublicPolicy.from_dict(content["policy"])
    channel = public.channels["moment"]
    for record, reports in zip(RECORDS, content["reports"], strict=True):
        sent = channel.decode(np.array([each["values"] for each in reports]))
        expected = np.clip((record["reward"] - 0.1) / 0.9, -1, 1) * np.eye(3)[0]
        error = (sent.mean(axis=0) - expected) * np.sqrt(RUNS) / channel.std
        assert np.abs(error).max() < 5

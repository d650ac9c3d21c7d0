import json
import math
from pathlib import Path

import pytest

from discreet.experiments.experiment import Cell, Choice, Experiment, ExperimentError
from discreet.experiments.tasks import TASKS, cells_of, check, read_experiment

GOOD = """\
epsilons = [0.5, 2.0]
rounds = 200
seeds = 2

[[environments]]
name = "sphere"
dim = 3

[[learners]]
name = "LinearBandit"
policy = "greedy"

[[learners]]
name = "LinUCB"
"""


@pytest.fixture
def write(tmp_path):
    def writer(text):
        path = tmp_path / "experiment.toml"
        path.write_text(text)
        return path

    return writer


def test_experiment__cells_are_the_product_and_non_private_learners_run_once(write):
    experiment = read_experiment(write(GOOD))
    cells = cells_of(experiment)
    assert len(cells) == 2 * (2 + 1)
    assert {(cell.learner.name, cell.epsilon) for cell in cells} == {
        ("LinearBandit", 0.5), ("LinearBandit", 2.0), ("LinUCB", math.inf)
    }  # fmt: skip
    assert len({cell.key for cell in cells}) == len(cells)
    assert cells[0].seed == 1000


def test_experiment__survives_json():
    experiment = Experiment(
        (Choice("sphere", {"dim": 3}),), (Choice("LinUCB", title="plain"),), (math.inf, 1)
    )
    again = Experiment.from_dict(json.loads(json.dumps(experiment.to_dict())))
    assert [c.key for c in cells_of(again)] == [c.key for c in cells_of(experiment)]
    assert again.environments[0].title == experiment.environments[0].title


def test_cell__its_key_depends_on_every_value_but_titles():
    base = Cell("bandits", Choice("sphere", {"dim": 3}), Choice("LinUCB"), 1.0, 1e-6, 100, 5, 0)
    values = vars(base)
    changes = {"environment": Choice("sphere", {"dim": 4}), "learner": Choice("LinUCB", {"a": 1}),
               "epsilon": 2.0, "delta": 1e-7, "rounds": 101, "points": 6, "seed": 1,
               "task": "online", "data": "abc", "code": "def"}  # fmt: skip
    assert set(changes) == set(values)
    keys = {Cell(**{**values, name: value}).key for name, value in changes.items()}
    assert len(keys | {base.key}) == len(changes) + 1
    assert Cell(**{**values, "learner": Choice("LinUCB", title="other")}).key == base.key


@pytest.mark.parametrize(
    ("old", "new", "key", "words"),
    [
        ("rounds = 200", "round = 200", "round", "did you mean 'rounds'"),
        ("rounds = 200", "rounds = 2.5", "rounds", "integer"),
        ("rounds = 200", "rounds = ", "line 2", "not valid TOML"),
        ("[0.5, 2.0]", "[0.5, -2.0]", "epsilons[2]", "epsilon must be a number above 0"),
        ("[0.5, 2.0]", "[0.5, 0.5]", "epsilons", "twice"),
        ("seeds = 2", "seeds = [1, -1]", "seeds[2]", "at least 0"),
        ("seeds = 2", "delta = 1.5", "delta", "below 1"),
        ("seeds = 2", 'task = "bandit"', "task", "did you mean 'bandits'"),
        ('"sphere"', '"spere"', "environments[1].name", "did you mean 'sphere'"),
        ("dim = 3", "dim = 1", "environments[1].dim", "dim must be at least 2"),
        ("dim = 3", "dims = 3", "environments[1].dims", "no option 'dims'"),
        ('"LinearBandit"', '"LinearBandits"', "learners[1].name", "did you mean 'LinearBandit'"),
        ('"greedy"', '"gredy"', "learners[1].policy", "policy must be one of"),
        ('policy = "greedy"', "polcy = 1", "learners[1].polcy", "did you mean 'policy'"),
        ('name = "LinUCB"', 'label = "LinUCB"', "learners[2]", "needs a name"),
        (
            'name = "LinUCB"',
            'name = "LinUCB"\nwidth = -1',
            "learners[2].width",
            "width must be positive",
        ),
    ],
)
def test_experiment_file__a_mistake_is_told_by_its_key_and_with_a_fix(write, old, new, key, words):
    assert GOOD.count(old) == 1
    path = write(GOOD.replace(old, new))
    with pytest.raises(ExperimentError) as caught:
        read_experiment(path)
    message = str(caught.value)
    assert str(path) in message
    assert key in message
    assert words in message


def test_experiment_file__what_is_missing_is_named(write, tmp_path):
    with pytest.raises(ExperimentError, match="needs learners"):
        read_experiment(write('[[environments]]\nname = "sphere"\n'))
    with pytest.raises(ExperimentError, match="cannot read"):
        read_experiment(tmp_path / "none.toml")


TABLE = """\
task = "regression"
rounds = 40
seeds = 1
[[environments]]
name = "table"
path = "PATH"
label = "visits"
label_range = [0, 10]
[environments.features]
age = [0, 100]
income = [0, 5]
[[learners]]
name = "OLS"
"""


@pytest.mark.parametrize(
    ("old", "new", "key", "words"),
    [
        ("age = ", "agee = ", "environments[1].features.agee", "did you mean 'age'"),
        (
            "income = [0, 5]",
            "income = [0, 4]",
            "environments[1].features.income",
            "outside its public bounds",
        ),
        ("income = [0, 5]", "income = [5, 0]", "environments[1].features.income", "low < high"),
        ('"visits"', '"visit"', "environments[1].label", "did you mean 'visits'"),
        ("[0, 10]", "[0, 1]", "environments[1].label_range", "clip = true"),
        ("PATH", "nowhere.csv", "environments[1].path", "no file"),
        ("rounds = 40", "rounds = 41", "environments[1]", "set rounds = 40"),
    ],
)
def test_experiment_file__bad_data_are_told_by_their_key_and_never_quoted(
    write, tmp_path, old, new, key, words
):
    data = tmp_path / "data.csv"
    rows = [f"{20 + i},{4.25 if i == 7 else 1.5},{i % 9}" for i in range(50)]
    data.write_text("age,income,visits\n" + "\n".join(rows) + "\n")
    assert TABLE.count(old) == 1
    read_experiment(write(TABLE.replace("PATH", str(data))))
    with pytest.raises(ExperimentError) as caught:
        read_experiment(write(TABLE.replace(old, new).replace("PATH", str(data))))
    message = str(caught.value)
    assert f"{key}: " in message
    assert words in message
    assert "4.25" not in message


def test_experiment_file__a_bandits_table_without_the_column_is_told_by_its_key(write, tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("age,buys\n30,tea\n50,milk\n")
    text = GOOD.replace(
        'name = "sphere"\ndim = 3',
        f'''name = "table"
table = "{data}"
label = "buys"
actions = ["tea", "milk"]
[environments.context]
agee = {{ low = 0, high = 100 }}''',
    )
    with pytest.raises(
        ExperimentError, match=r"environments\[1\]\.context\.agee: .*no column 'agee'"
    ):
        read_experiment(write(text))
    check(read_experiment(write(text.replace("agee", "age"))))


def test_experiment_file__the_example_can_be_run():
    experiment = read_experiment(Path(__file__).parents[2] / "examples" / "experiment.toml")
    assert len(cells_of(experiment)) == 5 * 2 * (3 + 3 + 1)


def test_tasks__every_learner_says_what_it_is():
    for task in TASKS.values():
        assert any(not entry.private for entry in task.learners.values())
        for entry in task.learners.values():
            assert entry.about
            assert entry.reference
            assert entry.trust in ("joint", "central", "local", "none")

"""On a tiny archive of the same layout: no network."""

import io
import tarfile

import numpy as np
import pandas as pd
import pytest

from discreet.environments import logged
from discreet.environments.off_policy import policy_value
from discreet.environments.open_bandit import ITEMS, open_bandit_log

HASHES = ("81ce123cbb5bd8ce818f60fb3586bba5", "03a5648a76832f83c859d46bc06cb64a", "feed")


def archive(policy="random", campaign="men", n=60):
    rng, k = np.random.default_rng(0), ITEMS[campaign]
    frame = pd.DataFrame(
        {
            "timestamp": "2019-11-24 00:00:34.762830+00:00",
            "item_id": rng.integers(k, size=n),
            "position": rng.integers(1, 4, size=n),
            "click": rng.integers(2, size=n),
            "propensity_score": 1 / k if policy == "random" else rng.uniform(0.01, 0.5, n),
            "user_feature_0": rng.choice([HASHES[0], HASHES[2]], n),
            "user_feature_1": HASHES[1],
            "user-item_affinity_0": 0.0,
        }
    )
    items = pd.DataFrame({"item_id": np.arange(k)[::-1], "item_feature_0": np.linspace(-1, 4, k)})
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as tar:
        for name, table in ((campaign, frame), ("item_context", items)):
            content = table.to_csv().encode()
            info = tarfile.TarInfo(f"obp-0.4.1/obp/dataset/obd/{policy}/{campaign}/{name}.csv")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return written.getvalue(), frame, items


@pytest.mark.parametrize("policy", ["random", "bts"])
@pytest.mark.parametrize("campaign", ITEMS)
def test_open_bandit__the_log_is_what_the_archive_holds(tmp_path, policy, campaign):
    content, frame, _ = archive(policy, campaign)
    (tmp_path / "some.tar.gz").write_bytes(content)
    log = logged("open-bandit", policy=policy, campaign=campaign, archive=tmp_path / "some.tar.gz")
    assert log.name == f"open-bandit/{policy}/{campaign}"
    assert log.actions.tolist() == frame["item_id"].tolist()
    assert log.rewards.tolist() == frame["click"].tolist()
    assert np.allclose(log.propensities, frame["propensity_score"])
    assert (log.all_propensities is None) == (policy == "bts")
    assert log.features[:].shape == (60, ITEMS[campaign], 20)
    assert policy_value(log, np.full(ITEMS[campaign], 1 / ITEMS[campaign])).standard_error > 0


def test_open_bandit__features_are_of_the_person_and_the_item(tmp_path):
    content, frame, items = archive()
    (tmp_path / "some.tar.gz").write_bytes(content)
    log = open_bandit_log(archive=tmp_path / "some.tar.gz")
    X, phi = log.features[:], log.features.phi
    at = {name: i for i, name in enumerate(phi.names)}
    number = items.set_index("item_id")["item_feature_0"]
    for person in range(5):
        row = X[person, 7] / X[person, 7, at[f"position={frame['position'][person]}"]]
        place = f"position={frame['position'][person]} * item_feature_0"
        assert row[at[place]] == pytest.approx(2 * (number[7] + 2) / 7 - 1)
        known = frame["user_feature_0"][person] == HASHES[0]
        assert row[at[f"user_feature_0={HASHES[0]}"]] == pytest.approx(float(known))
        assert row[at["user_feature_0=(other)"]] == pytest.approx(float(not known))


def test_open_bandit__bad_arguments_are_refused(tmp_path):
    (tmp_path / "some.tar.gz").write_bytes(archive("random", "men")[0])
    for given, told in (
        ({"policy": "best"}, "policy must"),
        ({"campaign": "children"}, "campaign must"),
        ({"policy": "bts"}, "the archive has no"),
    ):
        with pytest.raises(ValueError, match=told):
            open_bandit_log(**given, archive=tmp_path / "some.tar.gz")

"""The Open Bandit Dataset: what a fashion shop showed, with which probability, and the clicks.

10,000 decisions for each of two policies (uniform "random", and "bts": Bernoulli Thompson
sampling) and three campaigns ("men": 34 items, "women": 46, "all": 80), one week of November 2019.
The files are inside the source package obp 0.4.1 on PyPI (1.2 MB), which you fetch with

    pip download --no-deps --no-binary :all: obp==0.4.1

and name as `archive`; none of its code is run.

Saito, Aihara, Matsutani and Narita (2021), Open Bandit Dataset and Pipeline, NeurIPS Datasets and
Benchmarks. obp is under the Apache licence 2.0; see the publisher for terms of the data.
"""

import os
import tarfile
from typing import IO, Any

import numpy as np

from discreet.arrays import one_of
from discreet.environments.logs import Log
from discreet.environments.tables import FeatureTable, package
from discreet.features import Category, FeatureMap, Number

ITEMS = {"men": 34, "women": 46, "all": 80}
ARCHIVE = "obp-0.4.1.tar.gz"

# The publisher hashed the values of these columns; which ones there are is public.
_CONTEXT = {
    "position": Category(1, 2, 3),
    "user_feature_0": Category(
        "81ce123cbb5bd8ce818f60fb3586bba5",
        "cef3390ed299c09874189c387777674a",
        other=True,
    ),
    "user_feature_1": Category(
        "03a5648a76832f83c859d46bc06cb64a",
        "2d03db5543b14483e52d761760686b64",
        "f1c2d6a32ec39249160cf784b63f4c6f",
        other=True,
    ),
}
_ITEM = {"item_feature_0": Number(-2, 5)}


def open_bandit_log(
    policy: str = "random", campaign: str = "men", *, archive: str | os.PathLike[str]
) -> Log:
    """10,000 logged decisions: an item was shown, reward 1 for a click (about 1 in 200).

    Features are those of person and place times (1, the item's number `item_feature_0`), 20 in
    all. `archive` is the source package, read as it is. Propensities of all items are known for
    "random" only.
    """
    one_of("policy", policy, ("random", "bts"))
    one_of("campaign", campaign, tuple(ITEMS))
    frame, items = _tables(archive, policy, campaign)
    if len(items) != ITEMS[campaign]:
        raise ValueError(f"{campaign!r} has {ITEMS[campaign]} items, the archive {len(items)}")
    numbers = items.sort_values("item_id")["item_feature_0"].tolist()
    actions = {f"item {i}": {"item_feature_0": x} for i, x in enumerate(numbers)}
    phi = FeatureMap(_CONTEXT, actions, action_features=_ITEM, intercept=False)
    uniform = np.full((len(frame), len(actions)), 1 / len(actions))
    return Log(
        f"open-bandit/{policy}/{campaign}",
        FeatureTable(phi, {name: frame[name].to_numpy() for name in _CONTEXT}),
        frame["item_id"].to_numpy(dtype=np.intp),
        frame["click"].to_numpy(dtype=np.float64),
        frame["propensity_score"].to_numpy(dtype=np.float64),
        len(actions),
        all_propensities=uniform if policy == "random" else None,
    )


def _tables(archive: str | os.PathLike[str], policy: str, campaign: str) -> tuple[Any, Any]:
    """The decisions and the items, read inside the archive; nothing is unpacked to disk."""
    folder = f"/obp/dataset/obd/{policy}/{campaign}/"
    with tarfile.open(archive) as tar:
        inside = {"/" + name.partition("/")[2]: name for name in tar.getnames()}
        wanted = [folder + f"{campaign}.csv", folder + "item_context.csv"]
        try:
            files = [tar.extractfile(inside[name]) for name in wanted]
        except KeyError:
            raise ValueError(f"the archive has no {folder[1:]}: is it {ARCHIVE}?") from None
        return _read(files[0]), _read(files[1])


def _read(file: IO[bytes] | None) -> Any:
    return package("pandas").read_csv(file, index_col=0)

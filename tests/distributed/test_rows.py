"""Fits on blocks of dask collections: the numbers of a fit in memory, rows that stay."""

import math
import os
import signal
import threading
import time
import uuid
from functools import partial

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from discreet.distributed import rows as distributed_rows
from discreet.distributed.rows import open_blocks
from discreet.features import DeclaredEncoder, Number
from discreet.privacy import Budget, SeededNoise
from discreet.refused import Refused
from discreet.regression import OLS, AdaSSP, PrivateGLM, PrivateLinearRegression, central
from discreet.regression.base import IN_A_CLUSTER
from discreet.regression.baselines import SSP
from discreet.regression.rows import added, some_places, sums
from discreet.regression.steps import number_of_steps

N, D = 4500, 4
THETA = np.array([0.5, -0.2, 0.1, 0.3])
SECRET = 0.123456789


def data(n=N, seed=0, *, link=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D)) * [1.0, 0.5, 0.2, 0.7]  # some are clipped
    if link:
        return X, (rng.random(n) < 1 / (1 + np.exp(-3 * X @ THETA))).astype(float)
    return X, X @ THETA + 0.3 * rng.standard_normal(n)


def spread(X, y, chunk=1500, columns=D):
    return da.from_array(X, chunks=(chunk, columns)), da.from_array(y, chunks=chunk)


class Anchored(SeededNoise):
    """Noise that cannot leave this process, and counts what it gives."""

    drawn = 0

    def __reduce__(self):
        raise TypeError("noise must stay at the driver")

    def normal(self, *arguments, **more):
        values = super().normal(*arguments, **more)
        self.drawn += np.size(values)
        return values


def assert_same_fit(make, X, y, apart, tolerance=1e-8):
    here, there = make().fit(X, y), make().fit(*apart)
    np.testing.assert_allclose(there.coef_, here.coef_, atol=tolerance, rtol=0)
    assert there.intercept_ == pytest.approx(here.intercept_, abs=tolerance)
    assert there.method_ == here.method_
    assert len(there.guarantee_.releases) == len(here.guarantee_.releases)
    assert there.guarantee_.epsilon == here.guarantee_.epsilon
    more = set(there.guarantee_.unprotected) - set(here.guarantee_.unprotected)
    assert more == set(IN_A_CLUSTER)
    if here._estimate.covariance is not None:
        np.testing.assert_allclose(there.confidence_width(X[:9]), here.confidence_width(X[:9]))


FEW = {"norm_bound": 2.0, "epsilon": 8.0}  # few steps, each of which is a pass
LINEAR = [
    {},
    {"method": "single-pass"},
    {"method": "reweighted"},
    {"fit_intercept": True, "contributions": 2},
    {"public_X": data(200, seed=5)[0]},
    {"epsilon": math.inf, "fit_intercept": True},
]


@pytest.mark.parametrize("more", LINEAR, ids=lambda more: " ".join(more) or "defaults")
def test_linear__on_a_cluster_has_the_coefficients_of_a_fit_in_memory(everywhere, more):
    X, y = data()

    def make():
        return PrivateLinearRegression(**{**FEW, "random_state": 3, **more})

    assert_same_fit(make, X, y, spread(X, y))


@pytest.mark.parametrize(
    "more", [{}, {"link": "probit", "fit_intercept": True}, {"public_X": LINEAR[4]["public_X"]}]
)
def test_glm__on_a_cluster_has_the_coefficients_of_a_fit_in_memory(everywhere, more):
    X, y = data(link=True)

    def make():
        return PrivateGLM(**{**FEW, "random_state": 3, **more})

    assert_same_fit(make, X, y, spread(X, y))


@pytest.fixture
def some_are_many(monkeypatch):
    """The plan of more than 2^19 rows, for 280,000."""
    monkeypatch.setattr(central, "MANY_ROWS", 2**18)
    monkeypatch.setattr(central, "EARLY_ROWS", 2**16)


def test_linear__many_rows_whose_early_steps_look_at_some_are_chosen_alike(some_are_many):
    X, y = data(280_000)

    def make():
        return PrivateLinearRegression(norm_bound=2.0, random_state=3)

    assert_same_fit(make, X, y, spread(X, y, 50_000))


def test_blocks__columns_and_labels_cut_elsewhere_are_brought_together():
    X, y = data()
    pieces = da.from_array(X, chunks=(600, 3)), da.from_array(y, chunks=400)
    assert_same_fit(lambda: SSP(norm_bound=2.0, random_state=1), X, y, pieces)


@pytest.mark.parametrize("kind", ["array", "frame"])
def test_blocks__are_read_three_times_however_many_steps_look_at_some_rows(some_are_many, kind):
    """X and y come from one source: a pass reads it once, not once for each of the two."""
    loads = []
    table = np.column_stack(data(280_000))

    def load(block):
        loads.append(block)
        return table[70_000 * block :][:70_000]

    def load_frame(block):
        return pd.DataFrame(load(block), columns=list("abcdy"))

    if kind == "array":
        parts = [da.from_delayed(dask.delayed(load)(i), (70_000, D + 1), float) for i in range(4)]
        rows = da.concatenate(parts)
        X, y = rows[:, :D], rows[:, D]
    else:
        frame = dd.from_map(load_frame, range(4), meta=pd.DataFrame(columns=list("abcdy"), data=[]))
        X, y = frame[list("abcd")], frame["y"]
        loads.clear()
    with dask.config.set(scheduler="synchronous"):
        PrivateLinearRegression(norm_bound=2.0).fit(X, y)
    # to check and count, to choose, and for the last stage
    assert sorted(loads) == sorted([0, 1, 2, 3] * 3)


# -- a source that is not the same in every pass ---------------------------------------------------


def unstable(order_of, n=N, blocks=3, pick=lambda table: table):
    """X and y of a source that puts its rows into another order at every load of a block."""
    table = np.column_stack(data(n))
    loads = iter(range(10**6))

    def load(block):
        rows = table[order_of(next(loads), block, n)]
        return rows[block * n // blocks : (block + 1) * n // blocks]

    parts = [
        da.from_delayed(dask.delayed(load)(i), (n // blocks, D + 1), float) for i in range(blocks)
    ]
    rows = da.concatenate(parts)
    return rows[:, :D], rows[:, D]


def globally(load, block, n):
    return np.random.default_rng(load).permutation(n)


def inside_blocks(load, block, n):
    rng = np.random.default_rng(load)
    return np.concatenate([rng.permutation(part) for part in np.split(np.arange(n), 3)])


@pytest.mark.parametrize("order_of", [globally, inside_blocks])
def test_single_pass__a_source_that_shuffles_at_each_load_is_refused(order_of):
    """Else a person is in several parts that are booked as disjoint: mu 1.6 times the claim."""
    noise = Anchored(0)
    model = PrivateLinearRegression(method="single-pass", norm_bound=2.0, noise=noise)
    with dask.config.set(scheduler="synchronous"), pytest.raises(ValueError, match="every pass"):
        model.fit(*unstable(order_of))
    assert noise.drawn == 0
    assert not hasattr(model, "coef_")


def test_early_rows__a_source_that_shuffles_inside_its_blocks_is_refused(some_are_many):
    """Early rows have spent part of their budget; in another order others would pay for them."""
    model = PrivateLinearRegression(norm_bound=2.0)
    with dask.config.set(scheduler="synchronous"), pytest.raises(ValueError, match="every pass"):
        model.fit(*unstable(inside_blocks, n=270_000))


@pytest.mark.parametrize("model", [PrivateLinearRegression(norm_bound=2.0), SSP(norm_bound=2.0)])
def test_blocks__people_who_move_from_block_to_block_are_refused_by_every_method(model):
    with dask.config.set(scheduler="synchronous"), pytest.raises(ValueError, match="every pass"):
        model.fit(*unstable(globally))


def test_blocks__another_order_inside_a_block_changes_no_sum_and_is_accepted():
    make = partial(PrivateLinearRegression, norm_bound=2.0, random_state=0)
    with dask.config.set(scheduler="synchronous"):
        model = make().fit(*unstable(inside_blocks))
    np.testing.assert_allclose(model.coef_, make().fit(*data()).coef_, atol=1e-8)


def test_refusal__of_an_unstable_source_quotes_nothing_and_says_what_to_do():
    with (
        dask.config.set(scheduler="synchronous"),
        pytest.raises(ValueError, match="every pass") as error,
    ):
        SSP(norm_bound=2.0).fit(*unstable(globally))
    assert str(error.value) == distributed_rows.UNSTABLE.message
    assert "persist()" in str(error.value)


def test_digest__notices_one_changed_bit_one_swap_and_one_moved_label():
    X, y = data(200)
    X[:, 0] = np.arange(200) % 2  # round numbers, that differ in their high bits only
    key = np.random.default_rng(0).integers(2**64, size=D + 1, dtype=np.uint64)
    any_order, in_order = distributed_rows._digest(X, y, key)
    places = np.arange(200)
    places[[3, 150]] = [150, 3]
    swapped = distributed_rows._digest(X[places], y[places], key)
    assert swapped[0] == any_order
    assert swapped[1] != in_order
    assert distributed_rows._digest(X, y[places], key)[0] != any_order
    for i, j in ((0, 0), (7, 2), (199, 3)):
        other = X.copy()
        other[i, j] = 1.0 - other[i, j] if j == 0 else np.nextafter(other[i, j], 9.0)
        assert (distributed_rows._digest(other, y, key) != [any_order, in_order]).all()
    assert distributed_rows._digest(X, y, key + np.uint64(2))[0] != any_order


BLOCK = (np.ones((3, D)), np.ones(3))


@pytest.mark.parametrize(
    "task",
    [
        lambda: distributed_rows._counted(None, None, None, None),
        lambda: distributed_rows._block(*BLOCK, lambda x, y: (x[:2], y), None, None, True),
        lambda: distributed_rows._block(*BLOCK, lambda x, y: 1 / 0, None, None, True),
        lambda: distributed_rows._chosen(BLOCK, np.array([7])),
        lambda: distributed_rows._chosen(Refused("before"), np.array([0])),
        lambda: distributed_rows._answer(BLOCK, lambda x, y: {}[SECRET]),
        lambda: distributed_rows._merged(added, [(np.ones(2),), (np.ones(3),)]),
        lambda: distributed_rows._merged(added, [(np.ones(2),), Refused("before")]),
    ],
)
def test_tasks__whatever_goes_wrong_is_returned_and_not_raised(task):
    found = task()
    assert isinstance(found, Refused)
    assert str(SECRET) not in found.message


@pytest.mark.parametrize("baseline", [SSP, AdaSSP, OLS])
def test_baselines__by_sums_run_on_blocks(baseline):
    X, y = data()

    def make():
        return baseline(norm_bound=2.0, **({} if baseline is OLS else {"random_state": 1}))

    assert_same_fit(make, X, y, spread(X, y))


def test_epsilon_inf__keeps_the_digits_of_least_squares_on_ill_conditioned_rows():
    X, y = data()
    X = X @ np.diag([1, 1e-3, 1e-6, 1])  # normal equations would lose 12 digits

    def make():
        return PrivateLinearRegression(math.inf, norm_bound=9.0)

    here, there = make().fit(X, y), make().fit(*spread(X, y))
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-8)


def test_data_frames__are_rows_with_names_and_empty_partitions_are_nothing(everywhere):
    X, y = data()
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y, part=np.arange(N) // 500)
    table = dd.from_pandas(frame, npartitions=3)
    some = table[table["part"] != 2]  # lengths are unknown, the last one is 0
    kept = frame[frame["part"] != 2]

    def make():
        return PrivateLinearRegression(**FEW, random_state=3)

    here = make().fit(kept[list("abcd")], kept["y"])
    there = make().fit(some[list("abcd")], some["y"])
    np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-8, rtol=0)
    assert list(there.feature_names_in_) == list(here.feature_names_in_) == list("abcd")


def test_rows__never_travel(monkeypatch):
    """Every value that leaves a block is as small for many rows as for few."""
    sizes = {}
    for n in (8000, 32_000):
        seen = []

        def spied(*arguments, original=distributed_rows._answer, seen=seen):
            parts = original(*arguments)
            seen.append(tuple(part.shape for part in parts))
            return parts

        monkeypatch.setattr(distributed_rows, "_answer", spied)
        X, y = data(n)
        model = PrivateLinearRegression(norm_bound=2.0, random_state=0)
        with dask.config.set(scheduler="synchronous"):
            model.fit(da.from_array(X, chunks=(n // 4, D)), da.from_array(y, chunks=n // 4))
        monkeypatch.undo()
        sizes[n] = seen
    steps = number_of_steps(8000 * Budget(1.0, 1e-6).mu / D)
    assert len(sizes[8000]) == 4 * (3 + 1 + steps)  # Gram matrices, the sketch, steps: a pass each
    assert set(sizes[8000]) == set(sizes[32_000])


def test_noise__never_leaves_the_driver(everywhere):
    X, y = data()
    here, there = Anchored(1), Anchored(1)
    PrivateLinearRegression(**FEW, noise=here).fit(X, y)
    PrivateLinearRegression(**FEW, noise=there).fit(*spread(X, y))
    assert there.drawn == here.drawn > 0


def test_worker__killed_on_the_way_changes_nothing_and_nothing_is_released_twice(
    everywhere, tmp_path
):
    X, y = data()
    blocks, folder = 4, str(tmp_path)

    def load(rows, labels, slow):
        if slow:
            name = f"{folder}/{time.time():.6f}-{os.getpid()}-{uuid.uuid4().hex}"
            with open(name, "w"):
                time.sleep(0.04)
        return np.column_stack([rows, labels])

    def fit(slow):
        parts = [
            da.from_delayed(dask.delayed(load)(rows, labels, slow), (N // blocks, D + 1), float)
            for rows, labels in zip(np.split(X, blocks), np.split(y, blocks), strict=True)
        ]
        table = da.concatenate(parts)
        noise = Anchored(1)
        model = PrivateLinearRegression(**FEW, noise=noise)
        return model.fit(table[:, :D], table[:, D]), noise.drawn

    killed = []

    def kill():
        while len(names := sorted(os.listdir(folder))) < 3 * blocks:
            time.sleep(0.002)
        killed.append(int(names[-1].split("-")[1]))
        os.kill(killed[0], signal.SIGKILL)

    undisturbed, drawn = fit(slow=False)
    killer = threading.Thread(target=kill)
    killer.start()
    model, drawn_again = fit(slow=True)
    killer.join()
    everywhere.wait_for_workers(2)
    loaders = [int(name.split("-")[1]) for name in sorted(os.listdir(folder))]
    assert killed[0] in loaders
    assert loaders[-1] != killed[0]  # others went on
    steps = number_of_steps(N * Budget(8.0, 1e-6).mu / D)
    releases = 3 + 1 + steps
    assert len(loaders) > (1 + releases) * blocks  # a pass each, and what was lost was read again
    # Blocks may be added up in another order.
    np.testing.assert_allclose(model.coef_, undisturbed.coef_, rtol=1e-9)
    assert drawn_again == drawn
    assert len(model.guarantee_.releases) == len(undisturbed.guarantee_.releases) == releases
    for one, other in zip(model.guarantee_.releases, undisturbed.guarantee_.releases, strict=True):
        assert (one.what, one.mechanism) == (other.what, other.mechanism)
        assert one.sensitivity == pytest.approx(other.sensitivity, rel=1e-9)
        assert one.mu == pytest.approx(other.mu, rel=1e-9)


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["X", "y"])
def test_bad_row__raises_as_in_memory_and_no_log_has_the_data(everywhere, where):
    X, y = data()
    X[7], y[7] = SECRET, SECRET
    (X if where == "X" else y)[8] = math.nan
    with pytest.raises(ValueError, match="must be finite") as here:
        PrivateLinearRegression().fit(X, y)
    with pytest.raises(ValueError, match="must be finite") as there:
        PrivateLinearRegression().fit(*spread(X, y))
    assert str(there.value) == str(here.value)
    logs = str(everywhere.get_worker_logs()) + str(everywhere.get_scheduler_logs())
    assert str(SECRET) not in logs
    assert "Compute Failed" not in logs


def test_bad_row__strings_are_refused_without_being_quoted():
    table = dd.from_pandas(pd.DataFrame({"a": ["1", "secret"], "y": [0.0, 1.0]}), npartitions=1)
    with pytest.raises(ValueError, match="X must be numbers") as error:
        PrivateLinearRegression().fit(table[["a"]], table["y"])
    assert "secret" not in str(error.value)


def test_bad_row__raises_before_anything_is_released():
    X, y = data()
    y[-1] = math.inf
    noise = Anchored(0)
    with pytest.raises(ValueError, match="y must be finite"):
        PrivateLinearRegression(noise=noise).fit(*spread(X, y))
    assert noise.drawn == 0


def test_errors__inside_a_query_name_their_kind_only():
    X, y = data(100)
    rows, labels = open_blocks(*spread(X, y, 50), lambda x, y: (x, y), columns=D)

    def look(x, y):
        raise KeyError(SECRET)

    with pytest.raises(ValueError, match=r"could not be summed up: KeyError$"):
        sums(look, rows, labels)


REFUSED = [
    (PrivateLinearRegression(method="sgd"), "method='sgd'"),
    (PrivateLinearRegression(trust="local"), "trust='local'"),
    (PrivateGLM(method="erm"), "on rows in blocks: newton"),
    (PrivateGLM(method="sgd"), "on rows in blocks: newton"),
    (PrivateGLM(trust="local"), "no method"),
]


@pytest.mark.parametrize(("model", "message"), REFUSED, ids=str)
def test_methods__that_need_the_rows_themselves_say_so(model, message):
    def load(rows):
        raise AssertionError("no block is read")

    X, y = spread(*data(100, link=True), 50)
    with pytest.raises(ValueError, match=message):
        model.fit(X.map_blocks(load, meta=np.empty((0, D))), y)


def test_shapes__that_do_not_fit_are_refused():
    X, y = data(100)
    dX, dy = spread(X, y, 50)
    model = PrivateLinearRegression()
    with pytest.raises(ValueError, match="both be dask collections"):
        model.fit(dX, y)
    with pytest.raises(ValueError, match="both be dask collections"):
        model.fit(X, dy)
    with pytest.raises(ValueError, match="X has 100 rows and y has 90 labels"):
        model.fit(dX, da.from_array(y[:90], chunks=50))
    with pytest.raises(ValueError, match="2 blocks and y has 1"):
        model.fit(dX, da.from_array(y[:90], chunks=100))
    with pytest.raises(ValueError, match="X must be a matrix"):
        model.fit(dy, dy)
    with pytest.raises(ValueError, match="y must be a vector"):
        model.fit(dX, dX)
    with pytest.raises(ValueError, match="0 rows"):
        model.fit(dX[:0], dy[:0])
    unknown = dX[dX[:, 0] < 9], dy.rechunk(((30, 70),))
    with pytest.raises(ValueError, match="at the same rows"):
        model.fit(*unknown)


# -- choices of rows -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_blocks__a_choice_of_places_is_that_of_an_array(seed):
    rng = np.random.default_rng(seed)
    X, y = data(97, seed)
    rows, labels = open_blocks(*spread(X, y, 10), lambda x, y: (x, y), columns=D)
    places = rng.permutation(97)[: rng.integers(1, 97)]

    def look(x, y):
        return x.T @ x, x.T @ y, np.array(len(x))

    found = sums(look, rows[places], labels[places])
    for ours, expected in zip(found, look(X[places], y[places]), strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-12)
    assert rows[places].shape == (len(places), D)
    assert labels[places].shape == (len(places),)
    with pytest.raises(ValueError, match="the same choice"):
        sums(look, rows[places], labels)
    with pytest.raises(ValueError, match="by an array of places"):
        rows[:5]


def test_blocks__sums_are_the_same_bits_in_every_run():
    X, y = data(5000)
    rows, labels = open_blocks(*spread(X, y, 100), lambda x, y: (x, y), columns=D)

    def look(x, y):
        return (x.T @ y,)

    first = sums(look, rows, labels)[0]
    assert all((sums(look, rows, labels)[0] == first).all() for _ in range(3))


def test_added__adds_each_part():
    parts = [(np.ones(2), np.array(1.0)), (np.full(2, 2.0), np.array(5.0))]
    np.testing.assert_array_equal(added(parts)[0], [3.0, 3.0])
    assert added(parts)[1] == 6.0


def test_some_places__of_very_many_rows_are_distinct_and_all_over():
    places = some_places(np.random.default_rng(0), 10**12, 50_000)
    assert len(np.unique(places)) == 50_000
    # The mean of uniform places: 5 deviations of 1/sqrt(12 * 50,000) of the range.
    assert abs(places.mean() / 10**12 - 0.5) < 5 / math.sqrt(12 * 50_000)
    small = some_places(np.random.default_rng(0), 100, 10)
    np.testing.assert_array_equal(small, np.random.default_rng(0).permutation(100)[:10])


def test_encoder__a_block_that_does_not_fit_raises_nowhere_but_in_the_driver():
    frame = pd.DataFrame({"age": [1.0, SECRET, np.nan, 2.0], "y": [0.0, 1.0, 0.0, 1.0]})
    blocks = dd.from_pandas(frame, npartitions=2)
    encoded = DeclaredEncoder({"age": Number(0, 100)}).transform(blocks[["age"]])
    tasks = dask.compute(*encoded.to_delayed().ravel())
    refused = [each for each in tasks if isinstance(each, Refused)]
    assert len(refused) == 1
    assert str(SECRET) not in refused[0].message
    with pytest.raises(ValueError, match="'age' must hold one number per row, none missing"):
        PrivateLinearRegression(1.0, random_state=0).fit(encoded, blocks["y"])

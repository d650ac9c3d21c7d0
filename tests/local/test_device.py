"""A device that no server can fool: what it refuses, and that it answers everything else."""

import contextlib
import copy
import json
import math
import pickle
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.bandits import LocalServer, PublicPolicy
from discreet.bandits.local_protocol import questions
from discreet.local.device import Device, Promise
from discreet.local.questions import (
    KINDS,
    LARGEST,
    SMALLEST_CLIP,
    Question,
    _statistic,
    answer,
    scaled_outcomes,
    scaled_rows,
)
from discreet.local.report import ReportSum
from discreet.local.state import PublicState
from discreet.privacy import SeededNoise, Shuffled

D = 3
RECORDS = (([0.6, 0.8, 0.0], 1.0), ([0.0, 0.0, 0.0], -1.0))
ASKED = tuple(Question(kind, kind, 0.5, 1 / len(KINDS)) for kind in KINDS)
NASTY = [
    0.0,
    -0.0,
    5e-324,
    1e-308,
    -1e-160,
    1e308,
    -1e308,
    math.inf,
    -math.inf,
    math.nan,
    None,
    "x",
]


def regression_state(epsilon=1.0, **more):
    return PublicState.start(D, epsilon, ASKED, **more)


def bandit_state(epsilon=1.0, **more):
    more["reward_range"] = more.pop("outcome_range", (-1.0, 1.0))
    return PublicPolicy.start(D, epsilon, **more)


ROOMS = {"regression": regression_state, "bandits": bandit_state}
both_rooms = pytest.mark.parametrize("room", ROOMS)


def start(room, state=None, noise=None, seed=0, **limits):
    """A device of a room, with its own public state unless another is given."""
    make = ROOMS[room]
    promise = Promise(**({"epsilon": 1.0} | limits))
    return Device(
        make() if state is None else state, promise, noise=noise or SeededNoise(0), seed=seed
    )


def send(device, features, outcome):
    if isinstance(device.state, PublicPolicy):
        return device.report(device.decide([features]), outcome)
    return device.answer(features, outcome)


def position(device):
    """Where the device's generators are."""
    return device._noise.state(), json.dumps(device._rng.bit_generator.state)


# -- hostile states --------------------------------------------------------------------------------

HUGE = (np.eye(D) * 1e308).tolist()
HOSTILE = {
    "theta huge": {"theta": [1e308, 0.0, 0.0]},
    "theta beyond": {"theta": [1.01 * LARGEST, 0.0, 0.0]},
    "theta infinite": {"theta": [math.inf, 0.0, 0.0]},
    "theta NaN": {"theta": [math.nan, 0.0, 0.0]},
    "theta empty": {"theta": []},
    "theta a matrix": {"theta": [[0.0, 0.0, 0.0]]},
    "theta words": {"theta": ["a", "b", "c"]},
    "whitening huge": {"whitening": HUGE},
    "whitening of 1e200": {"whitening": (np.eye(D) * 1e200).tolist()},
    "whitening tiny": {"whitening": (np.eye(D) * 1e-308).tolist()},
    "whitening subnormal": {"whitening": (np.eye(D) * 5e-324).tolist()},
    "whitening zero": {"whitening": np.zeros((D, D)).tolist()},
    "whitening NaN": {"whitening": np.full((D, D), math.nan).tolist()},
    "whitening of another shape": {"whitening": np.eye(D + 1).tolist()},
    "epsilon negative": {"epsilon": -1.0},
    "epsilon zero": {"epsilon": 0.0},
    "epsilon NaN": {"epsilon": math.nan},
    "epsilon tiny": {"epsilon": 1e-300},
    "epsilon a list": {"epsilon": [1.0]},
    "contributions zero": {"contributions": 0},
    "contributions a fraction": {"contributions": 0.5},
    "contributions endless": {"contributions": 10**30},
    "norm_bound subnormal": {"norm_bound": 5e-324},
    "norm_bound huge": {"norm_bound": 1e308},
    "outcome_range huge": {"outcome_range": [-1e308, 1e308]},
    "outcome_range tiny": {"outcome_range": [0.0, 5e-324]},
    "outcome_range NaN": {"outcome_range": [math.nan, 1.0]},
    "outcome_range reversed": {"outcome_range": [1.0, -1.0]},
    "outcome_range of three": {"outcome_range": [0.0, 1.0, 2.0]},
    "window negative": {"window": -1},
    "window NaN": {"window": math.nan},
    "no questions": {"questions": []},
    "questions missing": {"questions": None},
    "format": {"format": 99},
}
CLIPS = {str(clip): clip for clip in (0.0, -1.0, 5e-324, 1e-308, 1e308, math.inf, math.nan, "1")}
POLICY = {
    "root huge": {"root": HUGE},
    "root NaN": {"root": np.full((D, D), math.nan).tolist()},
    "draws huge": {"draws": [[1e308, 0.0, 0.0]]},
    "draws infinite": {"draws": [[math.inf, 0.0, 0.0]]},
    "draws none": {"draws": []},
    "draws of another shape": {"draws": [[1.0]]},
    "exploring everything": {"exploring": 1.0},
    "exploring NaN": {"exploring": math.nan},
    "another policy": {"policy": "steal"},
}


@both_rooms
@pytest.mark.parametrize("name", HOSTILE)
def test_state__numbers_that_could_overflow_on_a_device_are_refused(room, name):
    state = ROOMS[room]()
    with pytest.raises(ValueError, match=r"must|expected|not a public state|whitening is zero"):
        type(state).from_dict(state.to_dict() | HOSTILE[name])


@both_rooms
@pytest.mark.parametrize("name", CLIPS)
def test_state__a_clip_that_could_overflow_or_divide_by_zero_is_refused(room, name):
    state = ROOMS[room]()
    record = state.to_dict()
    record["questions"][0]["clip"] = CLIPS[name] if name != "1" else "one"
    with pytest.raises(ValueError, match=r"clip|not a public state|could not convert"):
        type(state).from_dict(record)


@pytest.mark.parametrize("name", POLICY)
def test_state__a_policy_that_could_fail_on_a_device_is_refused(name):
    with pytest.raises(ValueError, match=r"must|policy"):
        PublicPolicy.from_dict(bandit_state().to_dict() | POLICY[name])


def test_state__questions_are_named_once_and_are_for_everybody():
    one = Question("one", "moment", 1.0, 0.5)
    for asked in ((one, one), (one,), (one, "two"), tuple(ASKED) * 20):
        with pytest.raises(ValueError, match=r"question"):
            PublicState.start(D, 1.0, asked)
    for wrong in ({"name": ""}, {"name": "x" * 99}, {"kind": "income"}, {"fraction": 2.0}):
        with pytest.raises(ValueError, match=r"name|kind|fraction"):
            Question(**({"name": "one", "kind": "moment", "clip": 1.0, "fraction": 1.0} | wrong))


@both_rooms
def test_state__is_a_copy_that_nobody_can_change(room):
    theta = np.zeros(D)
    state = type(ROOMS[room]())(**{**vars_of(ROOMS[room]()), "theta": theta})
    theta[0] = 1e308
    assert (state.theta == 0).all()
    for name in ("theta", "whitening"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(state, name)[0] = 1e308


def vars_of(state):
    return {name: getattr(state, name) for name in state.__dataclass_fields__}


@both_rooms
def test_state__survives_json(room):
    state = ROOMS[room](norm_bound=2.0, outcome_range=(0.0, 3.0), contributions=2)
    again = type(state).from_dict(json.loads(json.dumps(state.to_dict(), allow_nan=False)))
    assert again.to_dict() == state.to_dict()
    off = ROOMS[room](math.inf)
    assert math.isinf(type(off).from_dict(json.loads(json.dumps(off.to_dict()))).epsilon)


# -- the promise -----------------------------------------------------------------------------------

MORE = {
    "epsilon raised": {"epsilon": 1.001},
    "epsilon infinite": {"epsilon": math.inf},
    "contributions raised": {"contributions": 3},
    "fewer contributions, so that one report costs more": {"contributions": 1},
    "another norm_bound": {"norm_bound": 2.0},
    "another outcome_range": {"outcome_range": (-1.0, 2.0)},
}


@both_rooms
@pytest.mark.parametrize("name", MORE)
def test_device__refuses_more_than_it_promised_alike_for_every_record(room, name):
    """The refusal comes before a record is read: two devices with other records do the same."""
    make = ROOMS[room]
    asked = {"epsilon": 1.0, "contributions": 2} | MORE[name]
    seen = []
    for record in RECORDS:
        device = start(room, make(contributions=2))
        with pytest.raises(ValueError, match=r"this device") as caught:
            device.update(make(**asked))
        assert device.state.epsilon == 1.0
        report = send(device, *record)
        seen.append((str(caught.value), report.question, report.values.shape, device.sent))
        assert device.state.channels[report.question].possible(report.values).all()
    assert seen[0] == seen[1]


@both_rooms
@pytest.mark.parametrize("name", MORE)
def test_device__refuses_a_first_state_beyond_what_the_person_stated(room, name):
    limits = {"epsilon": 1.0, "contributions": 2, "norm_bound": 1.0, "outcome_range": (-1.0, 1.0)}
    start(room, ROOMS[room](contributions=2), **limits)
    with pytest.raises(ValueError, match="this device"):
        start(room, ROOMS[room](**{"contributions": 2} | MORE[name]), **limits)


@both_rooms
def test_device__sends_bare_records_only_if_the_person_says_so(room):
    """epsilon=inf of a server's state sent the bare record before devices had limits."""
    off = ROOMS[room](math.inf)
    with pytest.raises(ValueError, match="epsilon=5"):
        start(room, off, epsilon=5.0)
    assert send(start(room, off, epsilon=math.inf), *RECORDS[0]).values.size
    device = start(room)
    with pytest.raises(ValueError, match="epsilon=1"):
        device.update(off)


@both_rooms
def test_device__no_server_sets_its_epsilon(room):
    """The first state's 1e300 was taken for what the person had promised."""
    make = ROOMS[room]
    with pytest.raises(TypeError, match="'epsilon'"):
        Promise()
    for said in (None, math.nan, 0.0, -1.0, "much"):
        with pytest.raises(ValueError, match="epsilon must be"):
            Promise(epsilon=said)
    for epsilon in (1.0, 1e3, 1e300, math.inf):
        for said in (None, 1.0, {"epsilon": 1.0}):
            with pytest.raises(TypeError, match="Promise"):
                Device(make(epsilon), said)
    with pytest.raises(ValueError, match="epsilon=1 in all"):
        Device(make(1e300), Promise(epsilon=1.0))


@both_rooms
def test_device__no_server_sets_its_delta(room):
    make = ROOMS[room]
    batch = Shuffled().batch(20_000, 1.0, 1e-3)
    state = make(batch.report_epsilon(1), batch=batch)
    with pytest.raises(ValueError, match="state delta"):
        Device(state, Promise(epsilon=1.0))
    with pytest.raises(ValueError, match="delta=1e-06 in all"):
        Device(state, Promise(epsilon=1.0, delta=1e-6))
    again = Device.restarted(state, Device(state, Promise(1.0, 1e-3)).memory())
    assert (again.promise.epsilon, again.promise.delta) == (1.0, 1e-3)


@both_rooms
def test_device__follows_states_that_ask_for_less(room):
    make = ROOMS[room]
    device = start(room, make(contributions=2))
    device.update(make(0.5, contributions=2))
    assert send(device, *RECORDS[0]).values.size
    assert device.guarantee.epsilon == 0.5
    assert device.promise.epsilon == 1.0


@both_rooms
def test_device__windows_count_up(room):
    state = ROOMS[room]()
    later = type(state)(**{**vars_of(state), "window": 4})
    device = start(room, later)
    with pytest.raises(ValueError, match="newer state"):
        device.update(state)
    assert device.state.window == 4
    device.update(later)


@both_rooms
def test_device__what_is_no_state_is_refused(room):
    for wrong in (None, {}, ROOMS[room]().to_dict()):
        with pytest.raises(TypeError, match="from_dict"):
            Device(wrong, Promise(epsilon=1.0))
        with pytest.raises(TypeError, match="from_dict"):
            start(room).update(wrong)
    with pytest.raises(TypeError, match="PublicPolicy"):
        start("bandits").update(regression_state())
    with pytest.raises(ValueError, match="use answer"):
        start("regression").decide([RECORDS[0][0]])


# -- counting --------------------------------------------------------------------------------------


@both_rooms
def test_device__sends_no_more_than_it_may_and_a_restarted_one_remembers(room):
    make = ROOMS[room]
    device = start(room, make(contributions=3))
    for _ in range(2):
        send(device, *RECORDS[0])
    assert device.sent == 2
    memory = json.loads(json.dumps(device.memory()))
    again = Device.restarted(make(contributions=3), memory)
    send(again, *RECORDS[0])
    with pytest.raises(ValueError, match="no budget is left"):
        send(again, *RECORDS[0])
    with pytest.raises(ValueError, match="this device"):
        Device.restarted(make(1.5, contributions=3), memory)
    for damaged in ({}, {**memory, "promise": None}, memory["promise"]):
        with pytest.raises(ValueError, match="not the memory"):
            Device.restarted(make(contributions=3), damaged)


class Failing(SeededNoise):
    """Fails once, at the n-th draw."""

    def __init__(self, n):
        super().__init__(0)
        self.left = n

    def _tick(self):
        self.left -= 1
        if self.left == -1:
            raise RuntimeError("no entropy")

    def uniform(self, size):
        self._tick()
        return super().uniform(size)

    def normal(self, size):
        self._tick()
        return super().normal(size)


@both_rooms
@pytest.mark.parametrize("n", [0, 1])
def test_device__counts_before_it_sends(room, n):
    """An interruption costs a report; it never leads to two."""
    asked = (Question("moment", "moment", 0.5, 1.0),)
    state = ROOMS[room]()
    state = type(state)(**{**vars_of(state), "questions": asked})
    device = start(room, state, noise=Failing(n))
    decision = device.decide([RECORDS[0][0]]) if room == "bandits" else None
    with pytest.raises(RuntimeError, match="no entropy"):
        device.report(decision, 0.5) if decision else device.answer(*RECORDS[0])
    assert device.sent == 1
    with pytest.raises(ValueError, match=r"no budget|not been reported"):
        device.report(decision, 0.5) if decision else device.answer(*RECORDS[0])


def test_device__one_decision_is_reported_once_by_any_number_of_threads():
    device = Device(bandit_state(contributions=50), Promise(epsilon=1.0), seed=0)
    decision, reports = device.decide([RECORDS[0][0]]), []

    def work():
        with contextlib.suppress(ValueError):
            reports.append(device.report(decision, 0.5))

    threads = [threading.Thread(target=work) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reports) == device.sent == 1


@both_rooms
@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, pickle.dumps])
def test_device__cannot_be_copied(room, clone):
    with pytest.raises(TypeError, match="report twice"):
        clone(start(room))


# -- total answers ---------------------------------------------------------------------------------

sizes = st.one_of(
    st.sampled_from([0.0, 5e-324, 1e-308, 1e-162, -1e-150, 1e-8, LARGEST, -LARGEST]),
    st.floats(-LARGEST, LARGEST),
    st.floats(-3, 3),
)
entries = st.one_of(st.sampled_from(NASTY), st.floats(-2, 2), st.floats())


@st.composite
def states(draw, room):
    """Any state that is accepted: every number as extreme as the checks let through."""
    d = draw(st.integers(1, 3))
    whitening = np.array(draw(st.lists(sizes, min_size=d * d, max_size=d * d))).reshape(d, d)
    whitening[0, 0] = draw(st.sampled_from([1e-8, 1.0, LARGEST]))
    clip = draw(st.sampled_from([SMALLEST_CLIP, 1e-3, 1.0, LARGEST]))
    low = draw(st.sampled_from([-1e100, -1.0, 0.0]))
    values = {
        "window": draw(st.integers(0, 5)),
        "theta": draw(st.lists(sizes, min_size=d, max_size=d)),
        "whitening": whitening,
        "epsilon": draw(st.sampled_from([1e-9, 0.3, 1.0, 8.0, 1e6])),
        "norm_bound": draw(st.sampled_from([1e-100, 1.0, 1e100])),
        "outcome_range": (low, low + draw(st.sampled_from([1.0, 1e100])) if low > -2 else 1e100),
    }
    if room == "bandits":
        root = draw(st.lists(sizes, min_size=d * d, max_size=d * d))
        return PublicPolicy(
            **values,
            questions=questions(clip),
            root=np.array(root).reshape(d, d),
            draws=np.array(draw(st.lists(sizes, min_size=d, max_size=d)))[None],
            policy=draw(st.sampled_from(["ucb", "thompson", "greedy"])),
            exploring=draw(st.sampled_from([0.0, 5e-324, 0.3, 0.99])),
        )
    asked = tuple(Question(kind, kind, clip, 1 / len(KINDS)) for kind in KINDS)
    return PublicState(**values, questions=asked)


@both_rooms
@settings(max_examples=150)
@given(data=st.data())
def test_device__answers_every_record_with_exactly_one_possible_report(room, data):
    """And draws as many coins for one record as for another."""
    state = data.draw(states(room))
    seen = []
    seed = data.draw(st.integers(0, 50))
    for _ in range(2):
        features = data.draw(st.lists(entries, min_size=state.dim, max_size=state.dim))
        outcome = data.draw(entries)
        device = start(room, state, epsilon=state.epsilon, seed=seed, noise=SeededNoise(seed))
        report = send(device, features, outcome)
        assert report.values.shape == (1, *state.shape(report.question))
        assert np.isfinite(report.values).all()
        assert state.channels[report.question].possible(report.values).all()
        with pytest.raises(ValueError, match="no budget is left"):
            send(device, features, outcome)
        seen.append((report.window, report.question, device.sent, position(device)))
    assert seen[0] == seen[1]


@settings(max_examples=200)
@given(
    states("regression"), st.sampled_from(tuple(KINDS)), st.lists(entries, min_size=4, max_size=4)
)
def test_answer__has_norm_at_most_one_whatever_the_record(state, kind, numbers):
    rows = scaled_rows([numbers[: state.dim]], state.dim, state.norm_bound)
    outcomes = scaled_outcomes(numbers[-1:], state.outcome_range)
    assert np.linalg.norm(rows) <= 1 + 1e-12
    (value,) = answer(rows, outcomes, state.question(kind), state.theta, state.whitening)
    assert np.linalg.norm(value) <= 1 + 1e-12
    if np.isnan(outcomes).any():
        assert not value.any()


def test_record__is_cut_to_the_bounds_whatever_its_size():
    rows = scaled_rows([[3.0, 4.0], [1e308, -1e308], [5e-324, 0.0], [math.inf, 0.0]], 2, 1.0)
    assert rows == pytest.approx(
        np.array([[0.6, 0.8], [math.sqrt(0.5), -math.sqrt(0.5)], [0.0, 0.0], [0.0, 0.0]])
    )
    tiny = scaled_rows([[3e-100, 4e-100], [3e-101, 4e-101]], 2, 1e-100)
    assert tiny == pytest.approx(np.array([[0.6, 0.8], [0.3, 0.4]]))
    assert scaled_outcomes([5.0, -0.5, math.nan, 10**400], (-1.0, 2.0)) == pytest.approx(
        [1.0, -0.25, math.nan, math.nan], nan_ok=True
    )


@both_rooms
def test_device__a_wrong_shape_is_refused_before_it_is_counted(room):
    device = start(room)
    for features in ([0.125], [[0.125] * D] * 2, 0.125):
        with pytest.raises(ValueError, match="shape") as caught:
            device.answer(features, 0.5)
        assert "0.125" not in str(caught.value)
    with pytest.raises(ValueError, match="one outcome"):
        device.answer(RECORDS[0][0], [0.5, 0.5])
    assert device.sent == 0
    assert send(device, *RECORDS[0]).values.size


@pytest.mark.parametrize(
    ("kind", "length", "expected"),
    [("square", 1.0, [0.25]), ("within", 1.0, [True]), ("moment", 3.0, [[1 / 3.6, 0.0]]),
     ("gram", 3.0, [[[1.0, 0.0], [0.0, 0.0]]]), ("gram", 1.0, [[[0.6, 0.0], [0.0, 0.0]]])],
)  # fmt: skip
def test_statistic__by_hand(kind, length, expected):
    question = SimpleNamespace(kind=kind, clip=2.0)
    found = _statistic(
        np.array([[0.6, 0.0]]), np.array([1.0]), question, np.zeros(2), length * np.eye(2)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_sum__the_variance_of_a_mean_is_that_of_its_reports():
    reports, total = np.random.default_rng(0).standard_normal((4, 2)), ReportSum()
    total.add(reports)
    np.testing.assert_allclose(total.variance, np.cov(reports.T) / 4, rtol=1e-9)


def test_server__that_is_done_asks_nothing():
    server = LocalServer(2, 1.0, seed=0)
    server._published = None
    with pytest.raises(ValueError, match="nothing is asked"):
        server.ask()

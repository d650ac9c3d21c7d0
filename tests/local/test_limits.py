"""Limits of devices and servers that a lie, a mix-up or a second copy would pass."""

from dataclasses import replace

import numpy as np
import pytest

from discreet.bandits import Device, LocalServer, Promise
from discreet.local.report import Report
from discreet.local.server import window_release
from discreet.privacy import SeededNoise, Shuffled
from discreet.state.claims import SecondCopy

CROWD = Shuffled()


def server(k=1, crowd=None, delta=0.0, epsilon=2.0):
    return LocalServer(2, epsilon, contributions=k, crowd=crowd, delta=delta, seed=0)


def device(of, seed=0, **limits):
    promise = Promise(**{"epsilon": of.epsilon, "delta": of.delta, **limits})
    return Device(of.policy, promise, noise=SeededNoise(seed), seed=seed)


@pytest.mark.parametrize(
    "wrong", [{"delta": 1.0}, {"delta": -0.1}, {"honest": 1.5}, {"minimum": -0.1},
              {"honest": float("nan")}]
)  # fmt: skip
def test_promise__of_what_is_no_chance_or_part_is_refused(wrong):
    with pytest.raises(ValueError, match="must lie in"):
        Promise(1.0, **wrong)


def test_device__a_state_for_more_reports_in_a_crowd_is_refused():
    crowded = server(crowd=CROWD, delta=1e-6)
    mine = device(crowded)
    more = replace(crowded.policy, contributions=2, epsilon=2 * crowded.policy.epsilon)
    with pytest.raises(ValueError, match="contributions=1"):
        mine.update(more)


def test_device__a_decision_of_another_device_is_refused():
    """Both have decided round 0: its number is not enough."""
    one, other = device(server()), device(server())
    made = one.decide(np.eye(2))
    other.decide(np.eye(2))
    with pytest.raises(ValueError, match="of this device"):
        other.report(made, 1.0)
    assert other.sent == 0


def test_device__one_memory_restarts_one_device():
    of = server()
    first = device(of)
    memory = first.memory()
    second = Device.restarted(of.policy, memory, noise=SeededNoise(1))
    second.answer([0.5, 0.0], 1.0)
    with pytest.raises(SecondCopy):
        first.answer([0.5, 0.0], 1.0)
    with pytest.raises((SecondCopy, ValueError)):
        Device.restarted(of.policy, memory, noise=SeededNoise(2))


def test_server__states_what_all_reports_of_a_person_cost_by_themselves():
    k = 3
    policy = server(k, CROWD, 1e-6).policy
    assert policy.batch is not None
    assert policy.epsilon == pytest.approx(k * policy.batch.report_epsilon(k))
    assert policy.batch.keeps_promise(policy.report_epsilon, k)


def test_window__is_booked_at_its_dearest_channel():
    state = server().policy
    cheap, dear = list(state.channels)[:2]
    state.channels[dear].report_epsilon *= 1.5  # as if a question had another channel
    booked = window_release(state, SeededNoise(0))
    (promised,) = state.channels[dear].guarantee.releases
    assert booked.epsilon == promised.epsilon > state.channels[cheap].report_epsilon


def test_server__counts_no_report_of_another_window_or_shape():
    of = server()
    name = of.policy.questions[0].name
    fine = device(of)
    report = fine.answer([0.5, 0.0], 1.0)
    assert of.take(report)
    for odd in (
        replace(report, window=report.window + 1),
        Report(report.window, name, np.zeros((1, 7))),
        replace(report, values=report.values[:, None]),
        Report(report.window, name, np.zeros((2, *report.values.shape[1:]))),
    ):
        assert not of.take(odd)
    assert (of.taken, of.refused) == (1, 4)

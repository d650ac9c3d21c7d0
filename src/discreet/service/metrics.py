"""Prometheus metrics: numbers of requests and rounds, which are public; nothing from rewards.

No count by action or by status of a reward, no latency by action: each of these would be a release.
"""

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from starlette.responses import Response

from discreet.service import administration
from discreet.service.errors import Problem
from discreet.service.server import Server


async def metrics(server: Server) -> Response:
    """All metrics, read off the store when asked for."""
    return Response(await _text(server), media_type=CONTENT_TYPE_LATEST)


async def _text(server: Server) -> bytes:
    registry = CollectorRegistry()
    up = Gauge("discreet_store_up", "Whether the store answers", registry=registry)
    rounds = Gauge("discreet_rounds", "Rounds leased", ["bandit"], registry=registry)
    window = Gauge("discreet_window", "Number of the open window", ["bandit"], registry=registry)
    policy = Gauge(
        "discreet_policy_version", "Version of the policy", ["bandit"], registry=registry
    )
    learning = Gauge("discreet_learning", "Whether rewards count", ["bandit"], registry=registry)
    alarm = Gauge("discreet_alarm", "Whether an alarm is stored", ["bandit"], registry=registry)
    try:
        found = (await administration.bandits(server)).bandits
    except Problem:
        up.set(0)
        return generate_latest(registry)
    up.set(1)
    for each in found:
        name = each.name
        rounds.labels(name).set(each.rounds)
        window.labels(name).set(each.window.number)
        policy.labels(name).set(each.policy)
        learning.labels(name).set(each.learning)
        alarm.labels(name).set(each.alarm is not None)
    return generate_latest(registry)

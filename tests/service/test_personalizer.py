"""The published client of the retired service works unchanged."""

import time

import pytest

from tests.service.conftest import ADMIN, Running

personalizer = pytest.importorskip("azure.cognitiveservices.personalizer")
models = pytest.importorskip("azure.cognitiveservices.personalizer.models")
CognitiveServicesCredentials = pytest.importorskip(
    "msrest.authentication"
).CognitiveServicesCredentials
HttpOperationError = pytest.importorskip("msrest.exceptions").HttpOperationError

DEFINITION = {
    "features": {"hashed": 16},
    "reward": {"range": [0, 1], "wait": "2s", "default": 0},
    "privacy": {"epsilon": None},
}


@pytest.fixture
def served(tmp_path):
    server = Running(tmp_path, personalizer="news")
    server.client().create("news", DEFINITION)
    yield server
    server.stop()


@pytest.fixture
def client(served):
    made = personalizer.PersonalizerClient(served.url, CognitiveServicesCredentials(ADMIN))
    yield made
    made.close()


def request(event: str | None = None, **more):
    actions = [
        models.RankableAction(id=name, features=[{"topic": name, "length": 0.1 * at}])
        for at, name in enumerate(("sports", "politics", "weather"))
    ]
    context = [{"time": "morning"}, {"device": {"kind": "phone"}}]
    return models.RankRequest(actions=actions, context_features=context, event_id=event, **more)


def test_rank_and_reward(client, served):
    reply = client.rank(request("event 1"))
    assert reply.event_id == "event 1"
    assert reply.reward_action_id in ("sports", "politics", "weather")
    assert sum(each.probability for each in reply.ranking) == pytest.approx(1)
    client.events.reward("event 1", value=1.0)
    assert served.client().learn("news", "event 1", 1.0) == "duplicate"


def test_the_same_event_is_ranked_the_same(client):
    assert client.rank(request("e")).reward_action_id == client.rank(request("e")).reward_action_id


def test_without_an_event_id_one_is_made(client):
    reply = client.rank(request())
    client.events.reward(reply.event_id, value=0.5)


def test_excluded_actions_are_never_chosen(client):
    for i in range(20):
        reply = client.rank(request(f"x{i}", excluded_actions=["sports", "weather"]))
        assert reply.reward_action_id == "politics"
        assert {each.id: each.probability for each in reply.ranking}["sports"] == 0


def test_a_deferred_event_counts_its_default_only_once_activated(client, served):
    client.rank(request("shown", defer_activation=True))
    client.rank(request("hidden", defer_activation=True))
    client.events.activate("shown")
    size = served.client().bandit("news")["window"]["rounds"]
    time.sleep(4)
    for i in range(size):
        client.rank(request(f"more {i}"))
    (release,) = served.client().releases("news")
    assert release["count"] == pytest.approx(1, abs=1e-6)


def test_errors_reach_the_client_with_their_text(client, served):
    with pytest.raises(HttpOperationError):
        client.events.reward("no such event", value=1.0)
    with pytest.raises(models.ErrorResponseException) as caught:
        client.rank(request("e", excluded_actions=["sports", "politics", "weather"]))
    assert caught.value.error.error.code == "invalid"
    assert "excluded" in caught.value.error.error.message
    with (
        personalizer.PersonalizerClient(
            served.url, CognitiveServicesCredentials("no key")
        ) as other,
        pytest.raises(models.ErrorResponseException) as caught,
    ):
        other.rank(request("e"))
    assert "Ocp-Apim-Subscription-Key" in caught.value.error.error.message

"""Which attacks of the library are attacks on a given configuration, set to its own promise.

An attack makes the learner that it attacks: of this class, with this epsilon, delta, trust and
number of contributions, with the mechanism, method, link or domain that the table below looks at,
and of a size of its own. Where nothing fits, nothing is attacked, and whoever asks must say so.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from discreet.audit.attack import ATTACKS, Attack
from discreet.bandits.linear import MANY
from discreet.domains import Ball, Simplex
from discreet.online import FTRL
from discreet.privacy import Guarantee, Tree

Names = Iterator[str]


def attacks_on(learner: Any, promise: Guarantee) -> list[Attack]:
    """The attacks on such a learner, at what it promises.

    >>> from discreet.bandits import LinearBandit
    >>> bandit = LinearBandit(3, epsilon=2.0, contributions=5)
    >>> (attack,) = attacks_on(bandit, bandit.guarantee)
    >>> attack.claim.epsilon, attack.claim.contributions
    (2.0, 5)
    """
    from discreet.audit import attacks  # noqa: F401 - importing them registers them

    if not promise.private:
        return []
    names = FITTING.get(type(learner).__name__, _by_name)(learner, promise)
    found = (ATTACKS[name] for name in names)
    return [
        each.at(promise.epsilon, promise.delta, promise.contributions)
        for each in found
        if (each.claim.delta == 0) == (promise.delta == 0)
        and (each.claim.contributions > 1) == (promise.contributions > 1)
    ]


def _by_name(learner: Any, promise: Guarantee) -> Names:
    """Of a class that the table does not know: an attack is named after what it attacks."""
    kind = type(learner).__name__
    return (name for name in ATTACKS if _is_attack_on(name, kind, promise.trust))


def _is_attack_on(attack: str, learner: str, trust: str) -> bool:
    """Whether an attack of this name is one on such a class under such trust.

    >>> _is_attack_on("linear bandit sgd", "LinearBandit", "joint")
    True
    >>> _is_attack_on("ftrl", "FTPL", "central")
    False
    >>> _is_attack_on("local regression gram report", "PrivateLinearRegression", "local")
    True
    """
    words = "".join(mark for mark in attack.lower() if mark.isalnum())
    name = learner.lower()
    names = [name, name.removeprefix("private")]
    if trust == "local":  # "local regression" is private linear regression under local trust
        names.append("local" + names[1].removeprefix("linear"))
    other = {"local": "central", "central": "local", "joint": "local", "shuffled": "central"}[trust]
    return (
        words.startswith(tuple(names))
        and other not in words.removeprefix(name)
        and ("shuffled" in words) == (trust == "shuffled")
    )


def _always(*names: str) -> Callable[[Any, Guarantee], Names]:
    return lambda learner, promise: iter(names)


def _linear_bandit(learner: Any, promise: Guarantee) -> Names:
    if learner.trust != "joint":
        yield f"linear bandit {learner.trust}"
        return
    sgd = learner.estimator == "sgd" or (learner.estimator == "auto" and learner.dim > MANY)
    if sgd:
        if learner.link == "identity" and learner.unit == "round":
            yield "linear bandit sgd"
        return
    if learner.unit == "person":
        if learner.link == "identity":
            yield from _VISITS[learner.visits]
        return
    yield f"linear bandit {learner.link}, own context"
    if learner.link == "identity":
        yield "linear bandit"
        yield "linear bandit, reward in another window"
        yield "linear bandit, three rounds of one user"


def _local_server(learner: Any, promise: Guarantee) -> Names:
    yield f"linear bandit {promise.trust}"
    if promise.trust == "local":
        yield "device, hostile policy"


_VISITS = {
    "all": (
        "linear bandit, one person in every window",
        "linear bandit, one person in other windows",
    ),
    "first": ("linear bandit, first visit in another window",),
}


def _continual(learner: Any, promise: Guarantee) -> Names:
    mechanism = _filter(learner.mechanism)
    if mechanism in ("blt", "tree"):
        yield f"continual linucb {mechanism}"
    if mechanism == "blt":
        yield "continual linucb, own context"


def _filter(mechanism: Any) -> str:
    """A mechanism of running sums by name; "auto" is blt where delta > 0."""
    if isinstance(mechanism, Tree):
        return "tree"
    return "blt" if mechanism == "auto" else str(mechanism)


def _ftrl(learner: Any, promise: Guarantee) -> Names:
    if isinstance(learner.domain, Simplex):
        if promise.delta == 0:
            yield "ftrl pure"
        elif _filter(learner.mechanism) == "blt":
            yield from ("ftrl", "ftrl, last round", "ftrl, three rounds of one user")
    elif isinstance(learner.domain, Ball) and _filter(learner.mechanism) == "blt":
        yield "ftrl on the ball"


def _ftpl(learner: Any, promise: Guarantee) -> Names:
    if isinstance(learner.domain, Simplex) and _filter(learner.mechanism) == "blt":
        yield "ftpl"


def _doubling(learner: Any, promise: Guarantee) -> Names:
    if isinstance(learner.learner, FTRL) and isinstance(learner.learner.domain, Simplex):
        yield "doubling"


def _adversarial(learner: Any, promise: Guarantee) -> Names:
    yield f"adversarial bandit {promise.trust}"
    if promise.trust == "central":
        yield "adversarial bandit central, three rounds of one user"


def _barrier(learner: Any, promise: Guarantee) -> Names:
    if isinstance(learner.domain, Ball):
        yield f"barrier bandit {promise.trust}"


def _projection_free(learner: Any, promise: Guarantee) -> Names:
    if promise.contributions <= 2:
        yield "projection-free bandit"
        yield "projection-free bandit, two rounds of one user"
    yield "projection-free bandit pure"


def _frank_wolfe(learner: Any, promise: Guarantee) -> Names:
    shape = learner.domain.lp_shape
    if learner.domain.axis_vertices is not None and (shape is None or shape.p == 1):
        return  # attacks on its choices hold them to their own price, not to this promise
    if learner.windowed:
        yield "streaming frank-wolfe windows"
        yield "streaming frank-wolfe windows, three rows of one user"
        return
    if learner.mechanism == "generalized-gaussian":
        few = learner.domain.dim <= 7  # l_2 noise
        yield "streaming frank-wolfe generalised gaussian" + ("" if few else ", ten dimensions")
        return
    mechanism = _filter(learner.mechanism)
    if mechanism in ("blt", "tree"):
        yield f"streaming frank-wolfe {mechanism}"
    if mechanism == "blt":
        yield "streaming frank-wolfe blt, many rounds"


def _prefix_sum(learner: Any, promise: Guarantee) -> Names:
    if promise.delta == 0:
        if learner.norm == "l1":
            yield "prefix sum pure tree"
        if learner.norm == "linf":
            yield "prefix sum pure cube"
        return
    for when in ("first round", "middle round", "last round", "three rounds of one user"):
        yield f"prefix sum {learner.mechanism}, {when}"
    if learner.mechanism == "tree":
        yield "prefix sum adaptive"


def _linear_regression(learner: Any, promise: Guarantee) -> Names:
    method = learner.method_
    if promise.trust == "central":
        words = method.replace("public-covariates", "public covariates")
        if method == "information-weighted":
            words += _small_steps(promise)
        yield f"linear regression {words}"
        if method == "single-pass":
            yield "linear regression single-pass, three rows of one person"
    elif promise.trust == "local" and method in _LOCAL:
        yield from (f"local regression {name}" for name in _LOCAL[method])


def _small_steps(promise: Guarantee) -> str:
    """How attacks name a fit of few rows, empty if it was of many: what it released tells."""
    if all(release.what != "Gram matrix" for release in promise.releases):
        return ""
    sketched = any("sketch" in release.what for release in promise.releases)
    return ", few rows, sketched" if sketched else ", few rows"


_LOCAL = {
    "information-weighted": (
        "moment report",
        "moment report, three of one person",
        "moment report, later phase",
        "gram report",
        "scale report",
    ),
    "known-covariates": ("known covariates",),
    "sgd": ("sgd", "sgd, last batch"),
}


def _glm(learner: Any, promise: Guarantee) -> Names:
    if learner.link == "poisson" and learner.method_ == "newton" and learner.public_X is None:
        yield "glm counts"
    if learner.link == "identity" and learner.method_ == "newton" and learner.public_X is None:
        steps = _small_steps(promise)  # then it is that fit, row by row
        yield f"linear regression information-weighted{steps}" if steps else "glm identity"
    if learner.link != "logistic":
        return
    if promise.trust == "local":
        yield "local glm"
    elif learner.method_ == "erm" and learner.public_X is not None:
        yield "glm erm public covariates"
    elif learner.public_X is None:
        yield f"glm {learner.method_}"


def _logistic(learner: Any, promise: Guarantee) -> Names:
    if learner.public_X is None:
        several = len(learner.classes_) > 2
        yield "logistic regression, four classes" if several else "logistic regression"


FITTING: Mapping[str, Callable[[Any, Guarantee], Names]] = {
    "LinearBandit": _linear_bandit,
    "LocalServer": _local_server,
    "ContinualLinUCB": _continual,
    "LocalLinUCB": _always(
        "local linucb", "local linucb, own context", "local linucb, three reports of one user"
    ),
    "LocalSGDBandit": _always("local sgd bandit", "local sgd bandit, own context"),
    "SparseBandit": _always("sparse bandit, own context"),  # others hold its parts to their price
    "FTRL": _ftrl,
    "FTPL": _ftpl,
    "Doubling": _doubling,
    "AdversarialBandit": _adversarial,
    "BarrierBandit": _barrier,
    "PrivateReduction": _always("private reduction"),
    "ProjectionFreeBandit": _projection_free,
    "StreamingFrankWolfe": _frank_wolfe,
    "NoisySFW": _always("noisy sfw"),
    "NoisySGD": _always("noisy sgd"),
    "LocalMD": _always("local mirror descent"),
    "PrefixSum": _prefix_sum,
    "PrivateLinearRegression": _linear_regression,
    "PrivateGLM": _glm,
    "PrivateLogisticRegression": _logistic,
    "PrivateSearchCV": _always("search cv"),
    "SSP": _always("ssp"),
    "AdaSSP": _always("adassp"),
    "DPGradientDescent": _always("dp gradient descent"),
}

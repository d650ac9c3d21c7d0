"""Live private objects: one copy of each, in one process, one call at a time.

A live private object (a running sum, a learner) declares which attributes change while it lives:

    class Mean(Stateful):
        _state = ("rounds", "_sums")

        def __init__(self, horizon, epsilon, *, noise=None):
            self.horizon, self.epsilon, self.noise = ...   # one attribute for each parameter
            self.rounds = 0
            self._sums = PrefixSum(...)                    # a part, Stateful itself

        def learn(self, x):
            with self._live:                               # whatever draws, adds, shows or counts
                ...

and gets `state_dict`, `load_state_dict`, `save` and `load`. The configuration is read off the
constructor's signature. A state is resumed whole or not at all; one that is older than the object,
of another object, of another configuration or damaged is refused.

There is never a second live copy of an object (`claims.py`): copies and pickles are refused, a
state may be resumed once, and whoever resumes it takes the place of the object that it was taken
from. What leaves the process as a `state_dict` cannot be followed; a file can (`files.py`).
"""

import inspect
import json
import os
import secrets
from typing import Any, ClassVar, Self

import numpy as np

from discreet import __version__
from discreet.state.claims import (
    TO_LOOK_AT,
    Live,
    refuse,
    resume,
    take_over,
    taken,
)
from discreet.state.files import (
    FORMAT,
    Claim,
    ClaimedFile,
    StateInUse,
    check_header,
    load_state,
    own,
    read_claim,
    save_state,
)
from discreet.state.values import (
    PARTS,
    NotInFile,
    Part,
    damaged,
    decode,
    encode,
    encode_argument,
    ours,
)


class Stateful(Part):
    """A live object that declares its state; see the top of this file.

    `_state` names the attributes that change; `_growing` among them arrays whose length may differ
    from a new object's. `with self._live` holds whatever draws, adds, shows or counts.
    """

    _state: ClassVar[tuple[str, ...]] = ()
    _growing: ClassVar[frozenset[str]] = frozenset()
    _live: Live
    _run: str  # random: decisions and states name it

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        known = PARTS.get(cls.__name__, cls)
        if known.__module__ != cls.__module__ and ours(known):
            raise TypeError(
                f"{known.__module__} already has a {cls.__name__}; states refer to classes by name"
            )
        PARTS[cls.__name__] = cls

    def __new__(cls, *arguments: Any, **more: Any) -> Self:
        """Every live object has a guard and a name."""
        made = super().__new__(cls)
        made.__dict__["_live"] = Live()
        made.__dict__["_run"] = secrets.token_hex(8)
        return made

    # -- never two of them -------------------------------------------------------------------------

    def _refuse_copy(self) -> TypeError:
        return TypeError(
            f"a {type(self).__name__} cannot be copied or pickled: two copies would publish the "
            "same noise with different data. Use state_dict() or save(); a state may be resumed "
            "only once"
        )

    def __copy__(self) -> Self:
        raise self._refuse_copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        raise self._refuse_copy()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise self._refuse_copy()

    # -- changing all or nothing -------------------------------------------------------------------

    def _commit(self, **changes: Any) -> None:
        """Change several attributes in one step: no interrupt can fall between them."""
        self.__dict__.update(changes)

    # -- saving ------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Plain values and arrays from which `load_state_dict` resumes.

        Keep it as secret as the object itself. A state may be resumed only once, and this object
        acts no more from then on; if it acts before, the state is void. What leaves this process
        nobody can follow: see to it that only one copy goes on.
        """
        with self._live.looking():
            state = self._stored()
            taken(self, state["state"])
            return state

    def _stored(self) -> dict[str, Any]:
        """The state, for a store that lets only one copy act, such as a database transaction."""
        return {
            **header(self),
            "config": self._config(),
            "run": self._run,
            "state": self._encoded(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state of the same configuration; the object that it was taken from retires.

        Refused if that object has acted since, if the state was resumed before, and if this object
        has acted already.
        """
        resumed = self._assert_fits(state)
        with self._live.looking():
            if self._live.begun:
                kind = type(self).__name__
                if state["run"] != self._run:
                    raise ValueError(f"the state is of another {kind}; load it into a new one")
                raise ValueError(
                    f"the state is older: this {kind} has gone on since, and to publish those "
                    "rounds again would spend the budget twice"
                )
            resume(state["run"], state["state"], self)
            self._become(resumed, state["run"])

    def _restore(self, state: dict[str, Any]) -> None:
        """Resume from `_stored`: whoever calls lets only one copy act."""
        resumed = self._assert_fits(state)
        with self._live.looking():
            self._become(resumed, state["run"])

    def _assert_fits(self, state: dict[str, Any]) -> Self:
        """A new object with what the state says."""
        check_header(state, type(self).__name__)
        if difference := _difference(state.get("config"), self._config()):
            raise ValueError(
                f"this state was saved with other arguments of {type(self).__name__}: "
                f"{difference}; build the object with the arguments that were saved, or use load()"
            )
        if not isinstance(state.get("run"), str):
            raise damaged("run")
        return self._decoded(state.get("state"), self)

    def _become(self, resumed: Self, run: str) -> None:
        self._commit(_run=run, **{name: resumed.__dict__[name] for name in self._state})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file that only its owner may read, and own the file.

        Save after deciding and before the decision is shown. Refused: a file that another process
        owns, and one in which a copy of this object has gone on. As soon as this object acts again
        the file is marked as older than it.
        """
        with self._live.looking():
            self._save(path)

    def _save(self, path: str | os.PathLike[str]) -> None:
        own(path, self)
        mine = self._live.file
        before = read_claim(path)
        known = None if mine is None else mine.claim.owner
        if before is not None and before.run == self._run and before.owner != known:
            raise StateInUse(
                f"{os.fspath(path)} is of a copy of this object that went on elsewhere: what it "
                "has booked and shown would be forgotten. Save under another name"
            )
        live = self._live
        target = os.path.realpath(path)
        state = self._stored()

        def own_it(claim: Claim | None) -> None:
            """Before the file appears: no interrupt may leave its owner without knowing of it."""
            assert claim is not None
            if mine is not None and mine.path != target:
                mine.mark(2)  # one file at a time holds the newest state
            taken(self, state["state"])
            live.file = ClaimedFile(target, claim)
            live.generation = claim.generation

        try:
            save_state(path, state, self, live.generation + 1, own_it)
        except BaseException:
            if live.file is not None and read_claim(target) != live.file.claim:
                live.file = mine  # it did not appear
            raise

    @classmethod
    def load(cls, path: str | os.PathLike[str], **given: Any) -> Self:
        """Resume from a file, with the same kind of noise, and own the file.

        Arguments that no file can hold (a function, an object of a class of your own) are given
        by name, as they were given to the constructor. Refused: a file that another process owns,
        one that was resumed before in this process, and one whose last owner has gone on without
        saving. (There a `LinearBandit` resumes with a new window and a new name: what was open is
        discarded unread, and rewards of earlier decisions do not count.)
        """
        holder = _Holder()
        own(path, holder)  # before it is read: what is read must be the newest
        state = load_state(path)
        claim = read_claim(path)
        loaded = cls._constructed(state, given)
        resumed = loaded._assert_fits(state)
        if claim is None or claim.run != state["run"]:
            raise damaged("claim")
        with open(path, "r+b"):
            pass  # whoever cannot mark a file cannot own it
        if claim.acted == 2:
            raise StateInUse(
                "this object was saved under another name since, and this file is older: load that"
            )
        if claim.acted:
            loaded._become(resumed, loaded._run)  # a new name: nothing of the old one counts here
            take_over(claim.run, loaded)
            loaded._take_over()
        else:
            resume(claim.run, state["state"], loaded, claim.generation)
            loaded._become(resumed, claim.run)
        own(path, loaded)
        loaded._live.file = ClaimedFile.taken(path, claim)
        loaded._live.generation = claim.generation
        loaded._live.permit = None
        return loaded

    @classmethod
    def _constructed(cls, state: dict[str, Any], given: dict[str, Any]) -> Self:
        """A new object of this class with the saved arguments."""
        check_header(state, cls.__name__)
        try:
            saved = {name: each for name, each in state["config"].items() if name not in given}
            arguments = {name: decode(each) for name, each in saved.items()}
        except NotInFile:
            raise
        except (KeyError, TypeError, ValueError, AttributeError):
            raise damaged("config") from None
        return cls(**arguments, **given)

    # -- what a class may refine -------------------------------------------------------------------

    def _config(self) -> dict[str, Any]:
        """The constructor's arguments, each read from the attribute of the same name."""
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        return {name: encode_argument(getattr(self, name)) for name in names}

    def _take_over(self) -> None:
        """Go on from a state whose owner has gone on unseen; its noise must not be used again."""
        raise StateInUse(
            "whoever resumed this file last has gone on without saving, and has ended: what was "
            "published since cannot be known, and the same noise would be published with different "
            "data. Begin anew, with what is left of the people's budget"
        )

    def _validate(self) -> None:
        """Raise `damaged(...)` where resumed attributes do not fit together."""

    # -- encoding ----------------------------------------------------------------------------------

    def _encoded(self) -> dict[str, Any]:
        return {name: encode(getattr(self, name)) for name in self._state}

    @classmethod
    def _decoded(cls, plain: Any, like: Self | None) -> Self:
        """A new object: state from `plain`, everything else from `like`."""
        if not isinstance(plain, dict) or set(plain) != set(cls._state):
            raise damaged(f"the set of parts of {cls.__name__}")
        resumed = cls.__new__(cls)
        before = dict(like.__dict__) if like else {}
        before.pop("_live", None)
        resumed.__dict__.update(before)
        for name in cls._state:
            try:
                found = decode(plain[name], before.get(name))
            except (KeyError, TypeError, ValueError, AttributeError, IndexError):
                raise damaged(name.strip("_")) from None
            if not _fits(found, before.get(name), grows=name in cls._growing):
                raise damaged(name.strip("_"))
            resumed.__dict__[name] = found
        try:
            resumed._validate()
        except (AttributeError, TypeError):  # something else stands where a part should
            raise damaged(f"a part of {cls.__name__}") from None
        return resumed


class _Holder:
    """Owns a file while it is read."""


def to_look_at(state: dict[str, Any], given: dict[str, Any] | None = None) -> Stateful:
    """An object of whatever class a state is of; it cannot act.

    `given` holds arguments that no file can hold, by name.
    """
    kind = PARTS.get(str(state.get("kind")))
    if kind is None or not issubclass(kind, Stateful):
        raise ValueError(f"this state is of a {state.get('kind')!r}, which is not known here")
    found = kind._constructed(state, given or {})
    found._restore(state)
    refuse(found, TO_LOOK_AT)
    return found


def _fits(found: Any, before: Any, *, grows: bool) -> bool:
    """Whether a decoded attribute can stand where `before` stood in a new object."""
    if isinstance(found, np.ndarray) and found.dtype.kind == "f" and not np.isfinite(found).all():
        return False
    if isinstance(before, np.ndarray):
        return (
            isinstance(found, np.ndarray)
            and found.dtype.kind == before.dtype.kind
            and found.ndim == before.ndim
            and (grows or found.shape == before.shape)
        )
    if isinstance(before, bool) or isinstance(found, bool):
        return before is None or isinstance(found, bool) is isinstance(before, bool)
    if isinstance(before, int):
        return isinstance(found, int)
    if isinstance(before, float):
        return isinstance(found, (int, float)) and found == found
    if isinstance(before, str):
        return isinstance(found, str)
    if isinstance(before, Stateful):
        return found is None or isinstance(found, Stateful)
    return not isinstance(before, np.random.Generator) or isinstance(found, np.random.Generator)


def header(item: object) -> dict[str, Any]:
    """The first lines of a state: its format, and which class of which version wrote it."""
    return {"format": FORMAT, "kind": type(item).__name__, "version": __version__}


def _plain(config: Any) -> str:
    return json.dumps(config, sort_keys=True, default=np.ndarray.tolist)


def _difference(saved: Any, own: dict[str, Any]) -> str:
    """The names of arguments that differ: they are public, but may be long. A new one is None."""
    if not isinstance(saved, dict):
        return "no arguments at all"
    names = sorted(set(saved) | set(own))
    return ", ".join(n for n in names if _plain(saved.get(n)) != _plain(own.get(n)))

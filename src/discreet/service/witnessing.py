"""`discreet witness`: one word for each instance, replaced only by whoever knows it."""

import hmac
import logging
import re
import sqlite3
import sys
from pathlib import Path
from typing import TextIO

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from discreet.service import logs
from discreet.service.asgi import answer, problem
from discreet.service.bodies import decoded
from discreet.service.connections import MOST
from discreet.service.errors import Problem, invalid, not_found, unauthorized
from discreet.service.keys import SHORTEST_ADMIN
from discreet.service.serving import run
from discreet.service.witness import PATH, Move, Word

_NAME = re.compile(r"[0-9a-f]{32}")
_MOST_BYTES = 1000  # of a request
_MOVE = msgspec.json.Decoder(Move)


class Words:
    """The words, in a file; a change is on disk when it is answered."""

    def __init__(self, file: Path) -> None:
        unusable = ValueError(f"{file} cannot be used: choose another --file")
        try:
            self._connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        except sqlite3.Error:
            raise unusable from None
        try:
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS words (instance TEXT PRIMARY KEY, word TEXT NOT NULL)"
            )
        except sqlite3.Error:
            self.close()
            raise unusable from None

    def read(self, instance: str) -> str | None:
        found = self._connection.execute(
            "SELECT word FROM words WHERE instance = ?", (instance,)
        ).fetchone()
        return None if found is None else found[0]

    def move(self, instance: str, move: Move) -> bool:
        """Replace the word if it is still the one that the caller saw."""
        if move.before is None:
            done = self._connection.execute(
                "INSERT INTO words VALUES (?, ?) ON CONFLICT DO NOTHING", (instance, move.after)
            )
        else:
            done = self._connection.execute(
                "UPDATE words SET word = ? WHERE instance = ? AND word = ?",
                (move.after, instance, move.before),
            )
        return done.rowcount == 1

    def close(self) -> None:
        self._connection.close()


def application(words: Words, key: str) -> Starlette:
    """The witness's two calls."""

    async def word(request: Request) -> Response:
        try:
            return await _answered(words, key, request)
        except Problem as found:
            return problem(found)

    return Starlette(routes=[Route(PATH + "{instance}", word, methods=["GET", "POST"])])


async def _answered(words: Words, key: str, request: Request) -> Response:
    given = request.headers.get("authorization", "").encode()
    if not hmac.compare_digest(given, f"Bearer {key}".encode()):
        raise unauthorized()
    instance = request.path_params["instance"]
    if not _NAME.fullmatch(instance):
        raise not_found("instance")
    if request.method == "GET":
        return answer(Word(words.read(instance)))
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _MOST_BYTES:
            raise invalid("A word has 32 characters.")
    move: Move = decoded(_MOVE, body)
    if not _NAME.fullmatch(move.after):
        raise invalid("A word has 32 characters.")
    moved = words.move(instance, move)
    return answer(Word(words.read(instance)), 200 if moved else 409)


def serve(file: Path, key: str | None, host: str, port: int, out: TextIO = sys.stderr) -> None:
    if key is None or len(key) < SHORTEST_ADMIN:
        raise ValueError(
            f"set DISCREET_WITNESS_KEY to a secret of at least {SHORTEST_ADMIN} characters, here "
            "and where the service runs"
        )
    words = Words(file)
    logs.begin(out)
    logs.record(logging.INFO, f"discreet witnesses at http://{host}:{port}")
    try:
        run(application(words, key), host, port, MOST)
    finally:
        words.close()

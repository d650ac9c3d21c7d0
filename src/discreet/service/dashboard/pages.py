"""Paths of the dashboard, and what each of them shows or does."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.resources import files
from urllib.parse import parse_qsl, quote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from discreet.service import administration, definitions
from discreet.service.dashboard import examples, reading
from discreet.service.dashboard.rendering import HEADERS, file, page
from discreet.service.dashboard.sessions import Session, Sessions, check_form, check_origin
from discreet.service.errors import Problem, not_found, unexpected
from discreet.service.keys import ADMIN_ID, SCOPES, Key
from discreet.service.limits import Bodies, address_of
from discreet.service.messages import KeyBody
from discreet.service.replies import NewKeyReply
from discreet.service.server import Server

LONGEST_FORM = 64 * 1024  # bytes
LOG_PAGE = 100  # entries
MANY = 40  # coefficients that are shown at first
_STATIC = ("style.css", "dashboard.js", "icon.svg", "uPlot.iife.min.js", "uPlot.min.css")

Page = Callable[..., Awaitable[Response]]  # of a request, and of a session unless it is open


class Dashboard:
    """The pages of one server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.sessions = Sessions(server)

    def routes(self) -> list[Route]:
        get, post = partial(self._route, "GET"), partial(self._route, "POST")
        return [
            get("/", self.overview),
            get("/login", self.login, is_open=True),
            post("/login", self.log_in, is_open=True),
            get("/enter/{token}", self.enter, is_open=True),
            post("/logout", self.log_out),
            get("/bandits/{name}", self.bandit),
            post("/bandits/{name}/try", self.bandit),
            post("/bandits/{name}/retire", self.retire),
            get("/keys", self.keys),
            post("/keys", self.create_key),
            post("/keys/{id}/rotate", self.rotate_key),
            post("/keys/{id}/revoke", self.revoke_key),
            get("/log", self.log),
            Route("/static/{file}", _static, methods=["GET"]),
        ]

    def _route(self, method: str, path: str, shown: Page, *, is_open: bool = False) -> Route:
        """A page for those who have logged in, or a form that a page of their session has sent.

        An open one is for everybody.
        """

        async def called(request: Request) -> Response:
            session = None
            try:
                session = None if is_open else await self.sessions.current(request)
                if session is None:
                    await self.server.strangers.spend_slowly(address_of(request.scope))
                if is_open:
                    return await shown(request)
                if session is None and method == "GET":
                    return page("login.html", None, after=_after(request), wrong=None)
                if session is None:
                    return RedirectResponse("/login", 303, HEADERS)
                session.key.spend(time.monotonic())
                if method == "GET":
                    _require_reading(session.key)
                else:
                    request.state.form = await _form(request, self.server.bodies)
                    check_form(request, session, request.state.form.get("form_token", ""))
                return await shown(request, session)
            except Exception as error:
                return self._failed(error, session)

        return Route(path, called, methods=[method])

    # -- answers -----------------------------------------------------------------------------------

    def _failed(self, error: Exception, session: Session | None) -> Response:
        if isinstance(error, ClientDisconnect):
            return Response(status_code=400)
        problem = error if isinstance(error, Problem) else unexpected(error, "a page")
        response = page("problem.html", session, problem.status, problem=problem)
        response.headers.update(problem.headers or {})
        return response

    # -- logging in --------------------------------------------------------------------------------

    async def login(self, request: Request) -> Response:
        if await self.sessions.current(request) is not None:
            return RedirectResponse("/", 303, HEADERS)
        return page("login.html", None, after="/", wrong=None)

    async def log_in(self, request: Request) -> Response:
        """Begin a session, if the key is right and may look."""
        check_origin(request)
        address = address_of(request.scope)
        self.server.logins.assert_open(address)
        form = await _form(request, self.server.strangers_bodies)
        after = form.get("after", "/")
        try:
            key = self.server.keys.authenticate(form.get("key", "").strip())
            _require_reading(key)
        except Problem as problem:
            self.server.logins.spend(address)
            wrong = "This is not a key of this server, or it was revoked."
            if problem.status == 403:
                wrong = "This key may not look: the dashboard needs the scope read or admin."
            return page("login.html", None, problem.status, after=after, wrong=wrong)
        response = RedirectResponse(after if _is_own_path(after) else "/", 303, HEADERS)
        self.sessions.begin(request, response, key)
        return response

    async def enter(self, request: Request) -> Response:
        """Begin a session by a link that works once."""
        key = self.sessions.redeemed(request.path_params["token"])
        if key is None:
            wrong = "This link was used or is too old. Log in with a key."
            return page("login.html", None, 401, after="/", wrong=wrong)
        response = RedirectResponse("/", 303, HEADERS)
        self.sessions.begin(request, response, key)
        return response

    async def log_out(self, request: Request, session: Session) -> Response:
        """End the session: its cookie counts for nothing afterwards, whoever has a copy."""
        response = RedirectResponse("/login", 303, HEADERS)
        await self.sessions.end(request, response, session)
        return response

    # -- looking -----------------------------------------------------------------------------------

    async def overview(self, request: Request, session: Session) -> Response:
        found = (await administration.bandits(self.server, session.key)).bandits
        populations = []
        if session.key.bandits is None:
            shown = (await administration.populations(self.server)).populations
            populations = [reading.population_bar(each) for each in shown]
        return page(
            "overview.html",
            session,
            bandits=found,
            alarms=[each for each in found if each.alarm],
            populations=populations,
            url=_url(request),
        )

    async def bandit(self, request: Request, session: Session) -> Response:
        """One bandit; of a form, with the probabilities of its actions in that context."""
        form: dict[str, str] | None = getattr(request.state, "form", None)
        name = _bandit_name(request)
        session.key.require("read", name)
        view = await reading.view(self.server, name)
        tried: list[tuple[str, float]] = []
        wrong = None
        if form is not None:
            try:
                tried = reading.probabilities(view, form)
            except (ValueError, TypeError, OverflowError) as error:
                wrong = str(error)
        return page(
            "bandit.html",
            session,
            422 if wrong else 200,
            view=view,
            name=name,
            form=form or {},
            tried=tried,
            wrong=wrong,
            everything="all" in request.query_params,
            many=MANY,
            calls=examples.calls(name, view.definition, _url(request)),
        )

    async def retire(self, request: Request, session: Session) -> Response:
        name = _bandit_name(request)
        session.key.require("admin")
        if request.state.form.get("name") != name:
            raise Problem("not-confirmed")
        await administration.retire(self.server, name, session.key.id)
        return RedirectResponse(f"/bandits/{quote(name)}", 303, HEADERS)

    # -- keys and the log --------------------------------------------------------------------------

    async def keys(self, request: Request, session: Session) -> Response:
        session.key.require("admin")
        await administration.reload_keys(self.server)
        return await self._keys(session)

    async def _keys(
        self,
        session: Session,
        made: NewKeyReply | None = None,
        *,
        instead_of: str | None = None,
        wrong: str | None = None,
    ) -> Response:
        listed = [key.public() for key in self.server.keys.all()]
        everything = (await administration.bandits(self.server, session.key)).bandits
        return page(
            "keys.html",
            session,
            422 if wrong else 200,
            keys=[each for each in listed if each.revoked is None],
            revoked=[each for each in listed if each.revoked is not None],
            bandits=[each.name for each in everything],
            scopes=SCOPES,
            fixed=ADMIN_ID,
            made=made,
            instead_of=instead_of,
            wrong=wrong,
        )

    async def create_key(self, request: Request, session: Session) -> Response:
        """A new key; its secret is on the page that answers, and nowhere else."""
        session.key.require("admin")
        form = request.state.form
        rate = form.get("rate", "").strip()
        limited = [word for word in form.get("bandits", "").replace(",", " ").split() if word]
        try:
            body = KeyBody(
                form.get("name", "").strip(),
                [scope for scope in SCOPES if f"scope-{scope}" in form],
                limited or None,
                float(rate) if rate else None,
            )
            made = await administration.create_key(self.server, body, session.key.id)
        except (Problem, ValueError) as error:
            if isinstance(error, Problem) and error.status != 422:
                raise
            detail = error.detail if isinstance(error, Problem) else "`rate` must be a number."
            return await self._keys(session, wrong=detail)
        return await self._keys(session, made)

    async def rotate_key(self, request: Request, session: Session) -> Response:
        """A new key with the rights of an old one, which lives until it is revoked."""
        session.key.require("admin")
        old = self.server.keys.get(request.path_params["id"])
        if old is None or old.revoked is not None or old.id == ADMIN_ID:
            raise not_found("key")
        body = KeyBody(
            old.name,
            sorted(old.scopes),
            sorted(old.bandits) if old.bandits else None,
            old.rate,
            old.share,
        )
        made = await administration.create_key(self.server, body, session.key.id)
        return await self._keys(session, made, instead_of=old.id)

    async def revoke_key(self, request: Request, session: Session) -> Response:
        session.key.require("admin")
        await administration.revoke_key(self.server, request.path_params["id"], session.key.id)
        return RedirectResponse("/keys", 303, HEADERS)

    async def log(self, request: Request, session: Session) -> Response:
        session.key.require("admin")
        text = request.query_params.get("before", "")
        before = int(text) if text.isdigit() and len(text) < 18 else None
        found = await reading.log(self.server, before, LOG_PAGE + 1)
        names = {key.id: key.name for key in self.server.keys.all()}
        older = found[LOG_PAGE - 1].id if len(found) > LOG_PAGE else None
        return page(
            "log.html", session, entries=found[:LOG_PAGE], names=names, older=older, before=before
        )


# -- requests --------------------------------------------------------------------------------------


def _require_reading(key: Key) -> None:
    if not key.scopes & {"read", "admin"}:
        raise Problem("forbidden", scope="read")


def _bandit_name(request: Request) -> str:
    name: str = request.path_params["name"]
    if not definitions.NAME.fullmatch(name):
        raise not_found("bandit")
    return name


async def _form(request: Request, bodies: Bodies) -> dict[str, str]:
    body = await bodies.read(request.headers.raw, request.receive, LONGEST_FORM)
    bodies.drop(len(body))  # it is small, and is read at once
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=1000)
    except (UnicodeDecodeError, ValueError):
        raise Problem("not-a-form") from None
    return dict(pairs)


def _url(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}"


def _after(request: Request) -> str:
    query = request.url.query
    return request.url.path + (f"?{query}" if query else "")


def _is_own_path(path: str) -> bool:
    """Whether a redirect to it stays here: browsers take // and /\\ for another host."""
    return path[:1] == "/" and path[1:2] not in ("/", "\\") and path.isprintable()


async def _static(request: Request) -> Response:
    name = request.path_params["file"]
    if name not in _STATIC:
        return page("problem.html", None, 404, problem=not_found("file"))
    return file(files(__package__) / "static", name, {"Cache-Control": "max-age=3600"})

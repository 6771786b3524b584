"""A live page over run directories: read-only, nothing outside the root can be named.

A run is looked up among the directories that are there, never by putting a path together. On an address that others can
reach every request needs a token; on this machine alone, requests must name this machine, so that a page elsewhere on the
web cannot ask through the user's browser.
"""

import asyncio
import hmac
import json
import os
import threading
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from eigen2.harness.journal import plain
from eigen2.report.charts import COLOURS
from eigen2.report.index import RunIndex
from eigen2.report.library import packed
from eigen2.report.page import render
from eigen2.report.reading import RunReader
from eigen2.report.sections import sections, summary
from eigen2.store.layout import PHASE

LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
COOKIE = "eigen2_token"
LOOK_SECONDS = 0.5
"""Between two looks at the files of a run that somebody watches."""
HEARTBEAT = 30
"""Looks without news after which a word is sent all the same, so that a dead connection is noticed."""
READERS = 32
"""Runs whose logs are kept in memory."""


class Dashboard:
    def __init__(self, root: Path) -> None:
        self.index = RunIndex(root)
        self._readers: dict[Path, RunReader] = {}
        self._lock = threading.Lock()

    def path(self, name: str) -> Path:
        path = self.index.path(name)
        if path is None:
            raise HTTPException(404, "there is no such run")
        return path

    def run(self, name: str) -> dict[str, Any]:
        path = self.path(name)
        with self._lock:
            reader = self._readers.pop(path, None) or RunReader(path)
            self._readers[path] = reader
            while len(self._readers) > READERS:
                del self._readers[next(iter(self._readers))]
            view = reader.view()
            return {
                "name": view.name,
                "facts": summary(view),
                "parts": [asdict(part) for part in sections(view)],
            }

    def report(self, name: str) -> str:
        return render(RunReader(self.path(name)).view())


def dashboard(root: Path, token: str | None = None) -> Starlette:
    """The application; with a `token`, only for those who know it."""
    board = Dashboard(root)

    async def home(request: Request) -> Response:
        return HTMLResponse(_template("runs.html", title="eigen2"))

    async def runs(request: Request) -> Response:
        return _json(await run_in_threadpool(board.index.list))

    async def live(request: Request) -> Response:
        name = request.path_params["name"]
        await run_in_threadpool(board.path, name)
        return HTMLResponse(_template("live.html", title=name, colours=json.dumps(COLOURS)))

    async def run(request: Request) -> Response:
        return _json(await run_in_threadpool(board.run, request.path_params["name"]))

    async def report(request: Request) -> Response:
        return HTMLResponse(await run_in_threadpool(board.report, request.path_params["name"]))

    async def changes(request: Request) -> Response:
        path = await run_in_threadpool(board.path, request.path_params["name"])
        return StreamingResponse(
            _changes(path, request), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    async def script(request: Request) -> Response:
        headers = {"Content-Encoding": "gzip", "Cache-Control": "max-age=86400"}
        return Response(packed(), media_type="text/javascript", headers=headers)

    guard = (
        Middleware(TrustedHostMiddleware, allowed_hosts=list(LOOPBACK))
        if token is None
        else Middleware(Token, token=token)
    )
    routes = [
        Route("/", home), Route("/plotly.js", script), Route("/api/runs", runs), Route("/run/{name}", live),
        Route("/run/{name}/report", report), Route("/api/run/{name}", run), Route("/api/run/{name}/changes", changes),
    ]  # fmt: skip
    return Starlette(routes=routes, middleware=[guard, Middleware(Headers)])


class Token:
    """Refuses requests without the token. The address that was printed carries it once; a cookie does from then on."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        given = request.query_params.get("token")
        answer: ASGIApp
        if given is not None and self._right(given):
            answer = RedirectResponse(request.url.path, 303)
            answer.set_cookie(COOKIE, given, httponly=True, samesite="strict")
        elif self._right(request.cookies.get(COOKIE, "")) or self._right(_bearer(request)):
            answer = self.app
        else:
            answer = Response("This page needs the token that `eigen2 dashboard` printed.", 401)
        await answer(scope, receive, send)

    def _right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())


class Headers:
    """Nothing from elsewhere is loaded, and nobody frames the page."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff"),
                                      (b"x-frame-options", b"DENY"), (b"referrer-policy", b"no-referrer")]  # fmt: skip
            await send(message)

        await self.app(scope, receive, with_headers)


async def _changes(path: Path, request: Request) -> AsyncIterator[str]:
    """A line whenever the run's files have changed."""
    before, silent = None, 0
    while not await request.is_disconnected():
        now = await run_in_threadpool(_signature, path)
        silent += 1
        if now != before or silent >= HEARTBEAT:
            yield f"data: {json.dumps(now != before)}\n\n"
            before, silent = now, 0
        await asyncio.sleep(LOOK_SECONDS)


def _signature(path: Path) -> tuple[Any, ...]:
    found = []
    for name in (
        "metrics.jsonl",
        "events.jsonl",
        "evaluations.jsonl",
        "memory.jsonl",
        "run.json",
        "lock",
        PHASE,
    ):
        try:
            facts = os.lstat(path / name)
            found.append((facts.st_size, facts.st_mtime_ns, facts.st_ino))
        except OSError:
            found.append((0, 0, 0))
    return tuple(found)


def _bearer(request: Request) -> str:
    return request.headers.get("authorization", "").removeprefix("Bearer ")


def _json(value: Any) -> Response:
    return Response(
        json.dumps(plain(value), allow_nan=False),
        media_type="application/json",
        headers={"Cache-Control": "no-store"},
    )


def _template(name: str, **values: Any) -> str:
    templates = Environment(loader=PackageLoader("eigen2.report", "templates"), autoescape=True)
    return templates.get_template(name).render(**values)

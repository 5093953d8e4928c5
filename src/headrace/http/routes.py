"""What a path leads to, asked of the kit's own list.

A request that is refused before the framework has looked for its route is counted by the same pattern as others, and
who asks for a method that is not there is told all that are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

UNMATCHED = "unmatched"


class Routes:
    """The routes of an application in their order, each with what stands before its pattern."""

    def __init__(self) -> None:
        self._routes: list[tuple[str, Route]] = []

    def add(self, routes: Iterable[BaseRoute], prefix: str = "") -> None:
        self._routes += [(prefix, route) for route in routes if isinstance(route, Route)]

    def pattern(self, scope: Scope) -> str:
        """The pattern of the route that answers, or that would answer another method."""
        found = list(self._found(scope))
        fitting = [route for route in found if scope["method"] in (route.methods or ())]
        return next((route.path for route in (*fitting, *found)), UNMATCHED)

    def methods(self, scope: Scope) -> list[str]:
        """Every method that the path takes. Where there is GET there is HEAD."""
        methods = {method for route in self._found(scope) for method in route.methods or ()}
        return sorted(methods | ({"HEAD"} if "GET" in methods else set()))

    def _found(self, scope: Scope) -> Iterator[Route]:
        path = str(scope["path"]).removeprefix(scope.get("root_path", ""))
        for prefix, route in self._routes:
            if path.startswith(prefix) and route.path_regex.match(path[len(prefix) :]):
                yield route


def route_of(scope: Scope) -> str:
    """The pattern that matched; never the path itself, which holds ids."""
    if "route" in scope:
        return str(getattr(scope["route"], "path", UNMATCHED))
    return routes_of(scope).pattern(scope)


def routes_of(scope: Scope) -> Routes:
    """The list of the application that was asked."""
    routes: Routes = scope["app"].state.routes
    return routes


class Heads:
    """HEAD is GET without a body. What would make the body is ended before it begins: a stream would never end."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD" or "GET" not in routes_of(scope).methods(scope):
            await self.app(scope, receive, send)
            return

        async def sender(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b""})
                raise _Enough

        try:
            await self.app({**scope, "method": "GET"}, receive, sender)
        except _Enough:
            return


class _Enough(Exception):
    """The answer to HEAD is complete."""

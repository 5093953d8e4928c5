"""An application with routes of its own: requests are checked by their declarations, and OpenAPI describes them.

Apart from the rest, because what does both takes 12 MB of memory: a service without such routes does not import it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route

from headrace.http.openapi import complete
from headrace.http.options import Options
from headrace.http.problems import on_http_exception, on_invalid
from headrace.http.routes import Routes


class Described(FastAPI):
    """An application whose description is completed when it is first asked for."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            complete(super().openapi())
        return super().openapi()


def described_application(
    options: Options,
    layers: Sequence[Middleware],
    observing: Sequence[Route],
    routers: Sequence[APIRouter],
    prefix: str,
) -> FastAPI:
    """Every router is there as it is and under the prefix."""
    app = Described(
        title=options.name,
        version=options.version,
        middleware=layers,
        openapi_url=f"{prefix}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={HTTPException: on_http_exception, RequestValidationError: on_invalid},
    )
    app.router.routes.extend(observing)
    app.state.routes = known = Routes()
    known.add(app.routes)
    for router in routers:
        if router.include_in_schema:
            app.include_router(router, prefix=prefix)
            known.add(router.routes, prefix)
        app.include_router(router, include_in_schema=False)
        known.add(router.routes)
    return app

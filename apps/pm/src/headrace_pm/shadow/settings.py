"""What the environment says of the shadow."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.errors import CallerError
from headrace.services import Sources, read
from headrace_pm.kafka.settings import PREFIX
from headrace_pm.settings import PmSettings


def database_url(environment: Mapping[str, str]) -> str:
    """Where production and shadow are; `CallerError` if there is no MySQL: a shadow is beside something."""
    settings = read(PmSettings, Sources(PREFIX, environment))
    if settings.is_embedded:
        raise CallerError("PM_MYSQL_DSN is not set", "a shadow and its production are in one MySQL or MariaDB database")
    return settings.tables_url

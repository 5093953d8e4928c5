"""What the routes work with."""

from __future__ import annotations

from dataclasses import dataclass

from headrace_matching.assets.asset_store import AssetStore
from headrace_matching.assets.match_store import MatchStore
from headrace_matching.phases.jobs import Jobs
from headrace_matching.phases.transitions import Transitions
from headrace_matching.settings import MatchingSettings


@dataclass(frozen=True, slots=True)
class ApiDesk:
    """Everything that the Main API can do, by what it is done to."""

    settings: MatchingSettings
    jobs: Jobs
    transitions: Transitions
    assets: AssetStore
    matches: MatchStore

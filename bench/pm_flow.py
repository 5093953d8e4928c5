"""How long do files take from the server into both sinks and into the archive? With the two designs before it.

`old` is the two-flow design that the text replaces, `text` the text's own shape (see their files), `raw` the servers of
both sinks and nothing else: these get a share of the files, and their time is extrapolated. `headrace` is `pm all` as
it is installed, in both forms of records. Clocks start when the files appear in the folder, and stop when the last one
is in `Done/`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pm_old_flow
import pm_raw_flow
import pm_text_flow
from pm_flow_site import Contender, FlowCost, FlowSite, records
from pm_service import MOVED, running

# What waits between stages is left out of the baselines, and should not be measured here.
QUICK = {"PM_SCAN_INTERVAL_S": "1", "PM_SETTLE_S": "0.5", "PM_MOVE_INTERVAL_S": "1"}
BASELINES: dict[str, Contender] = {"old": pm_old_flow.run, "text": pm_text_flow.run, "raw": pm_raw_flow.run}
# The old flow sends every row twice, once from each of its parts; the raw limit sends batches.
RECORDS_PER_ROW = {"old": 2, "text": 1}


@dataclass(frozen=True, slots=True)
class FlowSizes:
    """How many files of how many counters, in which forms of records; the baselines get a share of them."""

    files: int
    counters: int
    share: float
    forms: tuple[str, ...]


class FlowBench:
    """One site, and everybody who takes in its files."""

    def __init__(self, site: FlowSite, sizes: FlowSizes) -> None:
        self._site, self._sizes = site, sizes
        self._walls: dict[str, float] = {}

    def results(self) -> Iterator[dict[str, object]]:
        few = max(1, round(self._sizes.files * self._sizes.share))
        self._site.make(self._sizes.files, self._sizes.counters)
        for who, contender in BASELINES.items():
            yield self._baseline(self._site, who, contender, few)
        for form in self._sizes.forms:
            yield self._ours(self._site, form)

    def _baseline(self, site: FlowSite, who: str, contender: Contender, count: int) -> dict[str, object]:
        with site.place() as place:
            site.make_tables(place)
            cost = site.measured(contender, place, count)
            rows = site.rows(place)
            if who in RECORDS_PER_ROW:
                assert records(place.topic) == rows * RECORDS_PER_ROW[who]
        return self._told(site, who, count, rows, cost)

    def _ours(self, site: FlowSite, form: str) -> dict[str, object]:
        count = self._sizes.files
        with site.place() as place:
            staged = site.stage(count)
            with running(site, place, **QUICK, PM_KAFKA_FORM=form) as service:
                with site.counting() as cost:
                    site.appear(staged)
                    service.until(MOVED, count)
                peak_mb = service.memory.peak_mb
            taken = replace(cost(), peak_mb=peak_mb)
            rows = site.rows(place)
            if form == "json":
                assert records(place.topic) == rows
        return self._told(site, f"headrace {form}", count, rows, taken)

    def _told(self, site: FlowSite, who: str, count: int, rows: int, cost: FlowCost) -> dict[str, object]:
        wall_s = cost.wall_s * self._sizes.files / count
        self._walls[who] = wall_s
        others = [other for other in BASELINES if other in self._walls and other != who]
        return {
            "who": who,
            "files": count,
            "rows": rows,
            "wall_s": round(cost.wall_s, 2),
            "wall_s_of_all": round(wall_s, 1),
            "rows_per_s": round(rows / cost.wall_s),
            "client_cpu_s": round(cost.client_cpu_s, 2),
            **{f"{name}_cpu_s": round(took_s, 2) for name, took_s in cost.server_cpu_s.items()},
            "rows_per_cpu_s": round(rows / (cost.client_cpu_s + sum(cost.server_cpu_s.values()))),
            "peak_mb": cost.peak_mb,
            "logins_per_file": round(cost.logins / count, 3),
            "bytes_per_byte": round(cost.fetched_bytes / site.sizes(count), 2),
            **{f"times_{other}": round(self._walls[other] / wall_s, 1) for other in others},
        }

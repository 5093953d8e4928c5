"""`headrace verify`: recount the account from chunks and bit planes, on a live store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace import control
from headrace.cli.failures import Exit
from headrace.cli.session import of
from headrace.core.jobs import JobFilter

if TYPE_CHECKING:
    from headrace.runtime.engine import Engine


def register(app: typer.Typer) -> None:
    app.command()(verify)


def verify(
    context: typer.Context,
    job: Annotated[str | None, typer.Argument(metavar="JOB", help="Only this job: its id, or its end.")] = None,
) -> int:
    """Recount every job from its items.

    Says what is wrong, what is open and why; exit code 1 if anything is wrong. Works on a live store.
    """
    session = of(context)

    async def work(engine: Engine) -> list[control.Verified]:
        if job is not None:
            return [await control.verify(engine.store, await control.find_job(engine.store, job))]
        which = JobFilter(tenant=session.flags.get("tenant"), limit=0)
        return [result async for result in control.verify_all(engine.store, which)]

    results = session.call(work)
    findings = [_finding(result.job, finding) for result in results for finding in result.findings]
    still_open = [{"job": result.job, "why": list(result.open)} for result in results if result.open]
    dropped = sum(result.dropped for result in results)
    thinned = sum(result.dropped > 0 for result in results)
    recounted = sum(result.readable for result in results)
    document = {
        "clean": not findings,
        "jobs": len(results),
        "recounted": recounted,
        "items_dropped": dropped,
        "findings": findings,
        "open": still_open,
    }

    def show(console: Any) -> None:
        for line in findings:
            console.print(f"{line['job']}  {line['invariant']}  {line['what']}  ({line['where']})", markup=False)
        for entry in still_open:
            for why in entry["why"]:
                console.print(f"{entry['job']}  open: {why}", markup=False)
        word = "clean" if not findings else f"{len(findings):,} findings"
        console.print(f"{recounted:,} jobs recounted: {word}")
        if dropped:
            console.print(
                f"{dropped:,} items of {thinned:,} jobs could not be recounted: retention dropped them, and only their "
                "tallies were checked"
            )

    session.answer(document, show)
    return Exit.FAILED if findings else Exit.OK


def _finding(job: str, finding: Any) -> dict[str, str]:
    return {"job": job, "invariant": finding.invariant, "what": finding.what, "where": finding.where}

"""`headrace scheduler rca`: what went wrong lately, why, and what may be done."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands import of

if TYPE_CHECKING:
    from datetime import timedelta

    from headrace_scheduler.rca.rca_report import RcaReport

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def register(app: typer.Typer) -> None:
    app.command()(rca)


def rca(
    context: typer.Context,
    since: Annotated[str, typer.Option("--since", help="How far back to look: 90s, 30m, 2h, 1d.")] = "30m",
    log: Annotated[
        list[Path] | None, typer.Option("--log", help="A file with log lines of a service; repeatable.")
    ] = None,
    prometheus: Annotated[str, typer.Option("--prometheus", help="The address of a Prometheus with the series.")] = "",
    output: Annotated[Path, typer.Option("--output", "-o", help="A directory for rca.md and rca.html.")] = Path("."),
) -> None:
    """Find out what went wrong, and write a report.

    Runs, dead jobs, locks and what was done by hand are read from the tables, log lines from files, series from a
    Prometheus; what is missing is named in the report. Rules look for a node that is down, a hot resource, a clock that
    is off, a handler that fails and workers that are saturated. Nothing is changed.

    With RCA_LLM_URL and RCA_LLM_MODEL (and RCA_LLM_KEY) a language model phrases the causes; names are replaced before
    they are sent.
    """
    import asyncio

    from headrace.errors import writing_to
    from headrace.pages import save
    from headrace_scheduler.rca.rca_page import page
    from headrace_scheduler.rca.rca_report import markdown

    report = asyncio.run(_reported(span_of(since), log or [], prometheus))
    with writing_to(output, "name another by --output"):
        output.mkdir(parents=True, exist_ok=True)
        (output / "rca.md").write_text(markdown(report), encoding="utf-8")
        save(page(report), output / "rca.html")
    document = _document(report, output)
    of(context).answer(document, lambda console: console.print(_told(report, output), markup=False))


def span_of(text: str) -> timedelta:
    """`30m` as a span of time."""
    from datetime import timedelta

    from headrace.errors import CallerError

    number, unit = text[:-1], text[-1:]
    if unit not in UNITS or not number.isdecimal() or not 0 < int(number) <= 100_000:
        raise CallerError(f"--since {text} is no span of time", "write 90s, 30m, 2h or 1d")
    return timedelta(**{UNITS[unit]: int(number)})


async def _reported(span: timedelta, logs: list[Path], prometheus: str) -> RcaReport:
    from dataclasses import replace
    from datetime import UTC, datetime

    from headrace.errors import HeadraceError, OperatorError
    from headrace_scheduler.frame import FRAME
    from headrace_scheduler.parts import open_parts
    from headrace_scheduler.rca.collection import WhereToLook, collect, logged, missed
    from headrace_scheduler.rca.language_model import LanguageModelSettings, phrase
    from headrace_scheduler.rca.rca_report import report_on

    phrasing = LanguageModelSettings.of(os.environ)
    now = datetime.now(UTC)
    where = WhereToLook(now - span, now, logs, prometheus)
    try:
        async with open_parts(FRAME.load(os.environ)) as parts:
            evidence = await collect(parts, where)
    except HeadraceError as error:
        # A report is wanted most when the tables do not answer: the logs may say why.
        if not error.heals or not logs:
            raise
        evidence = missed(logged(where), f"tables: {type(error).__name__}")
    report = report_on(evidence)
    if not phrasing.llm_url:
        return report
    try:
        return replace(report, phrased=await phrase(phrasing, evidence, report.causes))
    except OperatorError as error:
        return replace(report, evidence=missed(evidence, str(error)))


def _document(report: RcaReport, output: Path) -> dict[str, Any]:
    causes = [
        {
            "cause": str(each.cause),
            "subject": each.subject,
            "since": each.began_at.isoformat(),
            "signs": list(each.signs),
            "actions": list(each.actions),
        }
        for each in report.causes
    ]
    written = [str(output / name) for name in ("rca.md", "rca.html")]
    return {"headline": report.headline, "causes": causes, "missing": list(report.evidence.missing), "files": written}


def _told(report: RcaReport, output: Path) -> str:
    signs = [f"  {sign}" for each in report.causes for sign in each.signs]
    return "\n".join([report.headline, *signs, f"{output / 'rca.html'}, {output / 'rca.md'}"])

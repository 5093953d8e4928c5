"""`headrace silver put` and `headrace silver sample`: the producer's side."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands import Exit, Session, of
from headrace.errors import CallerError
from headrace_silver.commands.opened_stores import opened_store

if TYPE_CHECKING:
    from headrace_silver.queue.producer import Put
    from headrace_silver.sample.files import SampleTally
    from headrace_silver.sample.generator import SamplePlan

FORMATS = ("jsonl", "csv", "parquet")


def register(app: typer.Typer) -> None:
    app.command()(put)
    app.command()(sample)


def put(
    context: typer.Context,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE…", help="JSON lines, CSV or Parquet, also .gz; - is stdin.")
    ],
    kind: Annotated[str | None, typer.Option(help="ta.bar or sa.article; else the fields tell.")] = None,
    form: Annotated[str | None, typer.Option("--format", help="jsonl, csv or parquet; else the name tells.")] = None,
    priority: Annotated[int, typer.Option(help="Smaller is more urgent.")] = 100,
) -> int:
    """Put files of bars or articles into the queue.

    A file goes in whole or not at all: a broken line is told with its number, nothing of its file is put, and the
    other files are. Exit code 1 if a file was left out.
    """
    from headrace_silver.queue.producer import put_file
    from headrace_silver.records.record_files import FileReading

    session = of(context)
    _check_choice("--format", form, FORMATS)
    _check_choice("--kind", kind, ("ta.bar", "sa.article"))
    results = []
    with opened_store(session, create=True) as store:
        for path in files:
            with _bar(session, path) as progress:
                results.append(put_file(store, path, FileReading(kind, form, progress), priority))
            if results[-1].error:
                session.say(f"nothing put: {results[-1].error}")
    session.answer([_put_document(each) for each in results], lambda console: _show_put(console, results))
    return Exit.FAILED if any(each.error for each in results) else Exit.OK


def sample(
    context: typer.Context,
    to: Annotated[str, typer.Argument(metavar="[DIR|-]", help="Where the files go; - is stdout.")] = ".",
    symbols: Annotated[int, typer.Option(min=0, help="How many symbols.")] = 100,
    days: Annotated[int, typer.Option(min=1, max=2_000, help="How many trading days.")] = 250,
    articles: Annotated[int, typer.Option(min=0, help="How many articles.")] = 2_000,
    bad: Annotated[list[str] | None, typer.Option(metavar="SHARE|RULE=SHARE", help="How much is bad: 0.05.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed and last day give the same sample.")] = 1,
    until: Annotated[
        str | None, typer.Option(metavar="DATE", help="The last day; else the last closed session.")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="jsonl, csv or parquet.")] = "jsonl",
    put_it: Annotated[bool, typer.Option("--put", help="Straight into the queue instead of files.")] = False,
) -> None:
    """Make a realistic sample of a Vietnamese market.

    It has bars, articles and bad rows, which carry the rule that they break in the field _breaks; no rule looks at it.
    Among the symbols are a few real funds, covered warrants and tickers with digits that the default pattern refuses;
    --bad 0 leaves them out.
    """
    from headrace_silver.sample.generator import SamplePlan

    session = of(context)
    _check_choice("--format", form, FORMATS)
    loose = put_it or form == "jsonl"
    plan = SamplePlan(_last_day(until), symbols, days, articles, _shares(bad or ["0.05"]), seed, loose)
    tally = _make(session, plan, None if put_it else to, form)
    if to == "-" and not put_it:
        return
    document = {
        "rows": dict(tally.kinds),
        "bad": dict(tally.bad),
        "files": tally.files,
        "until": plan.until.isoformat(),
    }
    session.answer(document, lambda console: _show_sample(console, tally))


def _make(session: Session, plan: SamplePlan, to: str | None, form: str) -> SampleTally:
    """Put the sample (no place) or write it."""
    from headrace_silver.queue.producer import put_tasks
    from headrace_silver.sample import files
    from headrace_silver.sample.generator import sample as make

    tally = files.SampleTally()
    samples = tally.counting(make(plan))
    if to is None:
        with opened_store(session, create=True) as store:
            put_tasks(store, files.incoming(samples))
    elif to == "-":
        if form != "jsonl":
            raise CallerError(
                f"two kinds of rows do not fit into one stream of {form}", "--format jsonl, or a directory"
            )
        files.write_lines(samples, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    else:
        tally.files = files.write_folder(samples, Path(to), form)
    return tally


def _last_day(stated: str | None) -> date:
    from headrace_silver.market.calendar import last_closed_day

    if stated is None:
        return last_closed_day(datetime.now(UTC))
    try:
        return date.fromisoformat(stated)
    except ValueError:
        raise CallerError(f"--until {stated} is not a day", "--until 2026-01-30") from None


def _shares(stated: list[str]) -> float | dict[str, float]:
    """`0.05`, or shares by rule."""
    try:
        if len(stated) == 1 and "=" not in stated[0]:
            return float(stated[0])
        return {rule: float(share) for rule, share in (each.split("=") for each in stated)}
    except ValueError:
        raise CallerError(
            f"--bad {' --bad '.join(stated)} is not understood", "--bad 0.05, or --bad ta_price=0.01 --bad sa_text=0.02"
        ) from None


def _check_choice(option: str, value: str | None, choices: tuple[str, ...]) -> None:
    if value is not None and value not in choices:
        raise CallerError(f"{option} {value} is not known", f"one of {', '.join(choices)}")


@contextmanager
def _bar(session: Session, path: str) -> Iterator[Callable[[int], None]]:
    """Hears how many bytes of a file were read; shows them on a terminal."""
    if session.json or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as progress:
        size = Path(path).stat().st_size if Path(path).is_file() else None
        bar = progress.add_task(Path(path).name, total=size)
        yield lambda done: progress.update(bar, completed=done)
        progress.update(bar, completed=size)


def _put_document(put: Put) -> dict[str, Any]:
    return {"file": put.file, "put": put.count, "kinds": dict(put.kinds), "error": put.error}


def _show_put(console: Any, results: list[Put]) -> None:
    for each in results:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in each.kinds.items()) or "nothing"
        console.print(f"{each.file}: {kinds}", markup=False)


def _show_sample(console: Any, tally: SampleTally) -> None:
    for name in tally.files:
        console.print(name, markup=False)
    console.print(", ".join(f"{count:,} {kind}" for kind, count in tally.kinds.items()) or "nothing")
    if tally.bad:
        console.print(
            f"{tally.bad.total():,} bad: " + ", ".join(f"{label} {n:,}" for label, n in sorted(tally.bad.items()))
        )

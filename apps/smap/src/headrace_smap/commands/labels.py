"""Analysis that learns: `labels export` gives posts to label, `train` makes a model of labels, `quality` measures."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headrace.commands import command_group, of
from headrace.errors import CallerError
from headrace_smap.commands.operators import known_project, with_desk

if TYPE_CHECKING:
    from headrace_smap.analytics.modules import ModuleOptions, Pipeline
    from headrace_smap.analytics.trainer.label_export import LabelCandidate
    from headrace_smap.analytics.trainer.label_file import LabelRows
    from headrace_smap.analytics.trainer.score import Score
    from headrace_smap.analytics.trainer.trainer import Trained
    from headrace_smap.project.operations import ProjectOperations

MODULES = {"sentiment": "sentiment", "intent": "intent", "aspect": "aspects"}
"""What people call the modules that can learn, and what they are called here."""
Learning = Annotated[Literal["sentiment", "intent", "aspect"], typer.Option("--module", help="What the labels are of.")]
Text = Annotated[str, typer.Option("--text", help="The column of texts.")]
Label = Annotated[str, typer.Option("--label", help="The column of labels.")]
Names = Annotated[str, typer.Option("--map", help="What labels are called there: 0=negative,1=positive.")]


def register(app: typer.Typer) -> None:
    app.command()(train)
    app.command()(quality)
    labels = command_group("labels", "Posts for people to label.")
    labels.command("export")(export)
    app.add_typer(labels)


def train(
    context: typer.Context,
    files: Annotated[
        list[Path] | None, typer.Argument(help="CSV files with texts and labels; of a text the last label holds.")
    ] = None,
    module: Learning = "sentiment",
    to: Annotated[Path | None, typer.Option("--to", help="The model's file; else MODULE.model.")] = None,
    folds: Annotated[int, typer.Option("--folds", min=2, max=20, help="Parts of the cross-validation.")] = 5,
    shipped: Annotated[bool, typer.Option("--shipped", help="Learn from the labelled posts of ours as well.")] = False,
    text: Text = "text",
    label: Label = "label",
    names: Names = "",
) -> None:
    """Train a model of labelled posts, and say how it does beside the rules on posts that it has not seen.

    SMAP_MODELS adopts the file. Rows whose label is empty are left out.
    """
    from headrace_smap.analytics.modules import pipeline
    from headrace_smap.analytics.modules.linear.model_file import write
    from headrace_smap.analytics.quality import shipped as shipped_labels
    from headrace_smap.analytics.trainer.trainer import train as trained_on

    session, name, path = of(context), MODULES[module], to or Path(f"{module}.model")
    rules = _without_models(_options())
    if not files and not shipped:
        raise CallerError("there is nothing to learn from", "name a file with labels; --shipped adds posts of ours")
    rows = _rows(files or [], name, (text, label, names))
    also = shipped_labels(name) if shipped else []
    found = trained_on(rows.texts, name, pipeline(options=rules), folds, also)
    model = write(path, found.model)
    document = {
        "module": module,
        "posts": found.posts,
        "rules": asdict(found.rules),
        "model": asdict(found.adopted),
        "uncertain": found.uncertain,
        "certain": found.certain,
        "left_out": found.left_out,
        "labels": model.trained_on,
        "unlabelled": rows.unlabelled,
        "repeated": rows.repeated,
        "shipped": len(also),
        "folds": min(folds, found.posts),
        "digest": model.digest,
        "file": str(path),
    }
    session.answer(document, lambda console: console.print(_told(found, rows, path)))


def quality(
    context: typer.Context,
    files: Annotated[list[Path] | None, typer.Argument(help="CSV files with labels; else posts of ours.")] = None,
    module: Learning = "sentiment",
    text: Text = "text",
    label: Label = "label",
    names: Names = "",
) -> None:
    """How well the modules do on labelled posts, with the models of SMAP_MODELS beside the rules alone.

    Without a file these are the posts that come with the package, and all modules are asked.
    """
    from headrace_smap.analytics import quality as measure

    session, (rules, adopted) = of(context), _pipelines(_options())
    if files:
        rows, name = _rows(files, MODULES[module], (text, label, names)), MODULES[module]
        scores = {"rules": measure.scores(rows.texts, name, rules)}
        if adopted:
            scores["models"] = measure.scores(rows.texts, name, adopted)
        document: Any = {"module": module, "posts": len(rows.texts)}
        document |= {key: asdict(score) for key, score in scores.items()}
        session.answer(document, lambda console: console.print(_table(scores, rows)))
        return
    document = [asdict(figures) for figures in measure.assess(measure.HELD_OUT, rules)]
    if adopted:
        for told, figures in zip(document, measure.assess(measure.HELD_OUT, adopted), strict=True):
            told["models"] = {"accuracy": figures.accuracy, "macro_f1": figures.macro_f1}
    session.answer(document, lambda console: console.print(measure.rendered(rules, adopted)))


def export(
    context: typer.Context,
    projects: Annotated[list[str] | None, typer.Argument(help="Of these projects; else of all.")] = None,
    module: Learning = "sentiment",
    uncertain: Annotated[bool, typer.Option("--uncertain", help="Those worth a label, most uncertain first.")] = False,
    posts_max: Annotated[int, typer.Option("--posts-max", min=1, max=100_000, help="At most so many.")] = 200,
    to: Annotated[Path, typer.Option("--to", help="A new file.")] = Path("labels.csv"),
) -> None:
    """Write stored posts as a CSV file for people to label, and for `train` to learn from.

    Fill in the column `label` of the rows that you have read, also where the answer is right.
    """
    from headrace_smap.analytics.trainer.label_export import LabelChoice, candidates, write_labels

    choice = LabelChoice(MODULES[module], tuple(projects or ()), uncertain, posts_max)

    async def work(desk: ProjectOperations) -> list[LabelCandidate]:
        for project in choice.projects:
            await known_project(desk, project)
        return await candidates(desk.parts.database, choice)

    found = with_desk(work, new=False)
    told = f"{len(found):,} posts in {to}; fill in its column label"
    if found:
        write_labels(to, found)
    else:
        told = f"no post is {'uncertain' if uncertain else 'there'}: nothing is written"
    document = {"file": str(to) if found else None, "posts": len(found)}
    of(context).answer(document, lambda console: console.print(told))


def _options() -> ModuleOptions:
    from headrace_smap.analytics.modules import ModuleOptions

    return ModuleOptions.read(os.environ)


def _without_models(options: ModuleOptions) -> ModuleOptions:
    return replace(options, models=(), sentiment_model=None)


def _pipelines(options: ModuleOptions) -> tuple[Pipeline, Pipeline | None]:
    """The rules alone, and with the models that are set, if any are."""
    from headrace_smap.analytics.modules import pipeline

    rules = _without_models(options)
    return pipeline(options=rules), pipeline(options=options) if options != rules else None


def _rows(files: list[Path], module: str, columns: tuple[str, str, str]) -> LabelRows:
    from headrace_smap.analytics.modules.aspects import known_aspects
    from headrace_smap.analytics.trainer.label_file import LabelColumns, labels_in

    rows = labels_in(files, module, LabelColumns.of(*columns), known_aspects(_options()))
    if files and not rows.texts:
        raise CallerError("no row has a label yet", f"fill in the column {columns[1]!r}")
    return rows


def _told(found: Trained, rows: LabelRows, path: Path) -> str:
    lines = []
    if found.posts:
        lines.append(_table({"rules": found.rules, "model": found.adopted}, rows))
        lines.append(f"uncertain: {found.uncertain:.0%} of them; of the others {found.certain:.1%} are right")
    else:
        lines.append(f"not measured: SMAP_MODELS={path} headrace smap quality does, on posts that were held out")
    if rows.unlabelled or rows.repeated:
        lines.append(f"left out: {rows.unlabelled:,} rows without a label, {rows.repeated:,} that a later one corrects")
    if found.left_out:
        lines.append(f"too few posts, left to the rules: {', '.join(found.left_out)}")
    if found.adopted.accuracy < found.rules.accuracy:
        lines.append("It is worse than the rules: label more posts before you adopt it.")
    lines.append(f"{path} is written. SMAP_MODELS={path} adopts it; headrace smap rerun PROJECT for stored posts.")
    return "\n".join(lines)


def _table(scores: dict[str, Score], rows: LabelRows) -> str:
    """A line per figure and a column per answer."""
    counts = Counter(label for row in rows.texts for label in row.labels)
    lines = [f"{'':<22}{'posts':>7}" + "".join(f"{name:>9}" for name in scores)]
    for what in ("accuracy", "macro_f1"):
        figures = "".join(f"{getattr(score, what):>9.3f}" for score in scores.values())
        lines.append(f"{what.replace('_f1', ' F1'):<22}{len(rows.texts):>7,}{figures}")
    for label in sorted(counts):
        figures = "".join(f"{score.recall[label]:>9.3f}" for score in scores.values())
        lines.append(f"{f'recall of {label}':<22}{counts[label]:>7,}{figures}")
    return "\n".join(lines)

"""Who is told of a project: shown and changed by operators."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands import of
from headrace.errors import CallerError
from headrace_smap.commands.operators import Project, fault_words, known_project, with_desk

if TYPE_CHECKING:
    from headrace_smap.project.operations import ProjectOperations
    from headrace_smap.receivers import Receivers

Mails = Annotated[list[str] | None, typer.Option("--mail", help="An address; may be repeated.")]
Users = Annotated[list[str] | None, typer.Option("--zalo", help="The id of a follower; may be repeated.")]
Hook = Annotated[str | None, typer.Option("--webhook", help="The address of a webhook.")]
SecretFile = Annotated[Path | None, typer.Option("--webhook-secret-file", help="A file with its secret, whsec_….")]


def register(app: typer.Typer) -> None:
    app.command()(receivers)


def receivers(
    context: typer.Context,
    project: Project,
    mail: Mails = None,
    zalo: Users = None,
    webhook: Hook = None,
    webhook_secret_file: SecretFile = None,
    settings: Annotated[bool, typer.Option("--settings", help="Those of the settings again, of every kind.")] = False,
) -> None:
    """Show who is told of a project, or say who is from now on: those that are named, and of kinds that are not named
    those of the settings."""
    named = received(mail, zalo, webhook, webhook_secret_file)
    if named is not None and settings:
        raise CallerError("--settings does not go with receivers", "name receivers, or --settings")

    async def work(desk: ProjectOperations) -> dict[str, Any] | None:
        await known_project(desk, project)
        if named is not None or settings:
            await desk.receivers.set(project, named)
        own = await desk.receivers.own(project)
        return own.shown() if own else None

    shown = with_desk(work)

    def show(console: Any) -> None:
        for kind, given in (shown or {}).items():
            each = [one if isinstance(one, str) else one["url"] for one in given]
            console.print(f"{kind}: {', '.join(each) or 'nobody'}")
        if not shown:
            console.print("those of the settings")

    of(context).answer({"project_id": project, "receivers": shown}, show)


def received(
    mail: list[str] | None, zalo: list[str] | None, webhook: str | None, secret_file: Path | None
) -> Receivers | None:
    """What the flags name; None: nobody."""
    from pydantic import ValidationError

    from headrace_smap.receivers import Receivers

    if bool(webhook) != bool(secret_file):
        raise CallerError("--webhook and --webhook-secret-file go together")
    given: dict[str, Any] = {name: value for name, value in (("mail", mail), ("zalo", zalo)) if value}
    if webhook and secret_file:
        given["webhook"] = [{"url": webhook, "secret": _secret(secret_file)}]
    try:
        return Receivers.model_validate(given) if given else None
    except ValidationError as wrong:
        raise CallerError("; ".join(map(fault_words, wrong.errors(include_input=False)))) from None


def _secret(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeError):
        raise CallerError(f"{path} cannot be read", "a file with one line, whsec_…") from None

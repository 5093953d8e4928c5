"""Groups of commands, all made alike: `headrace GROUP` shows its help, and no sentence of the list in it is cut."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

# Longer than any first sentence: a list folds what does not fit its line.
SENTENCE_CHARS_MAX = 1_000


class CommandGroup(TyperGroup):
    """A group whose list of commands has whole sentences; Typer's own ends them with dots where a line ends."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        named = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        listed = {name: command for name, command in named.items() if command is not None and not command.hidden}
        if listed:
            with formatter.section("Commands"):
                formatter.write_dl(
                    [(name, command.get_short_help_str(SENTENCE_CHARS_MAX)) for name, command in listed.items()]
                )


def command_group(name: str, sentence: str = "", *, epilog: str | None = None, completion: bool = True) -> typer.Typer:
    """A group of commands, to be filled and added to the tree."""
    return typer.Typer(
        name=name,
        cls=CommandGroup,
        help=sentence or None,
        epilog=epilog,
        no_args_is_help=True,
        add_completion=completion,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )

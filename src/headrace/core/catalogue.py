"""The statements of an application by name: each is looked up, and its values are checked, before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.core.errors import CallerError, NotFound
from headrace.core.placeholders import WrongPlaceholders, pyformat
from headrace.core.table_columns import Columns
from headrace.core.table_statements import Step, TableStatement


class Catalogue:
    """The statements that a program may name."""

    def __init__(self, statements: Mapping[str, TableStatement]) -> None:
        self._statements = statements

    def statement(self, name: str) -> TableStatement:
        statement = self._statements.get(name)
        if statement is None:
            raise NotFound(f"there is no statement {name}", "Statements(package) says where there are some")
        return statement

    def step(self, name: str, values: Sequence[Mapping[str, object]], expect: int | None = None) -> Step:
        """A statement with its values; refused here if they do not belong together."""
        statement = self.statement(name)
        try:
            taken = pyformat(statement.text)
            for each in (values.by_name,) if isinstance(values, Columns) else values:
                taken.check(each)
        except WrongPlaceholders as error:
            raise CallerError(f"{name}: {error}") from None
        return Step(statement, values, expect)

    def reading(self, name: str, values: Mapping[str, object]) -> Step:
        step = self.step(name, (values,))
        if not step.statement.reads:
            raise CallerError(f"{name} writes", "tx.run(…) in a block of engine.transaction()")
        return step

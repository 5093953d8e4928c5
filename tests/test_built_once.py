"""What exists once: the reader of settings, the backoff, and the rule whether an error heals."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from test_tidy import PRODUCT, name_of, text_of

# The reader of settings and the place of its file, what processes tell their children, and variables of other programs.
READS_ENVIRONMENT = {
    "src/headrace/services/settings.py",
    "src/headrace/settings.py",
    "src/headrace/cli/child.py",
    "src/headrace/cli/demo_flow.py",
    "src/headrace/runtime/programs.py",
    "src/headrace/testing/rig/golang.py",
    "src/headrace/testing/rig/needs.py",
    "src/headrace/testing/rig/places.py",
    "src/headrace/testing/rig/server.py",
    "apps/silver/src/headrace_silver/commands/opened_stores.py",
}
# Whether the same call may be right later is `HeadraceError.heals`: who lists these, drifts.
HEALING = {"ClockSkewed", "Unreachable", "StoreFull", "TryAgain", "Unknown", "Busy", "OperatorError"}


def lists_of_errors(tree: ast.AST) -> Iterator[int]:
    """Lines that name several of the healing errors at once: a tuple, a union, or the arguments of a call."""
    for node in ast.walk(tree):
        match node:
            case ast.Tuple(elts=named) | ast.Call(args=named):
                pass
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                named = [left, right]
            case _:
                continue
        names = [each.id if isinstance(each, ast.Name) else getattr(each, "attr", "") for each in named]
        if len(HEALING & set(names)) > 1:
            yield node.lineno


def environment_reads(tree: ast.AST) -> Iterator[int]:
    """Lines that ask the environment for a variable by name, instead of a declaration of settings."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=asked, attr="get"), args=[_, *_]):
                pass
            case ast.Subscript(value=asked, ctx=ast.Load()):
                pass
            case _:
                continue
        name = asked.id if isinstance(asked, ast.Name) else getattr(asked, "attr", "")
        if name in ("environ", "environment", "_environment"):
            yield node.lineno


@pytest.mark.parametrize(
    "asked",
    ["os.environ.get('X') or 1", "environment['X']", "self._environment.get(NAME, '')", "int(environment.get(name))"],
)
def test_a_second_reader_of_settings_is_found(asked: str) -> None:
    assert list(environment_reads(ast.parse(asked))) == [1]


def test_there_is_one_reader_of_settings() -> None:
    found = {name_of(path) for path in PRODUCT if list(environment_reads(ast.parse(text_of(path))))}
    assert found == READS_ENVIRONMENT


def growing_pauses(tree: ast.AST) -> Iterator[int]:
    """Lines with a backoff: a duration that is multiplied or raised to a power up to a limit, a sleep of a duration
    times a count, or pauses that are listed one by one."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="min"), args=arguments) if _grows_to_a_limit(arguments):
                yield node.lineno
            case ast.Call(func=ast.Attribute(attr="sleep"), args=[ast.BinOp(ast.Name(), ast.Mult(), ast.Name())]):
                yield node.lineno
            case ast.For(target=ast.Name(id="pause_s" | "wait_s")):
                yield node.lineno


def _grows_to_a_limit(arguments: list[ast.expr]) -> bool:
    inside = [each for argument in arguments for each in ast.walk(argument)]
    names = [each.id if isinstance(each, ast.Name) else getattr(each, "attr", "") for each in inside]
    grows = any(
        isinstance(each, ast.BinOp)
        and (isinstance(each.op, ast.Pow) or (isinstance(each.op, ast.Mult) and _is_number(each.right)))
        for each in inside
    )
    return grows and any(re.search(r"_s$|_S_M(IN|AX)$", name) for name in names)


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


@pytest.mark.parametrize(
    "grown",
    [
        "self._pause_s = min(self._pause_s * 2, PAUSE_S_MAX)",
        "wait_s = min(RESEND_S_MAX, RESEND_S_MIN * 2**attempt)",
        "look_s = min(LOOK_S_MAX, look_s * 1.5)",
        "return min(most_s, least_s * 2.0 ** min(times - 1, 30))",
        "time.sleep(PAUSE_S * attempt)",
        "for pause_s in (0.05, 0.25): pass",
    ],
)
def test_a_second_backoff_is_found(grown: str) -> None:
    assert list(growing_pauses(ast.parse(grown.replace("return", "x =")))) == [1]


def test_there_is_one_backoff() -> None:
    found = {name_of(path): list(growing_pauses(ast.parse(text_of(path)))) for path in PRODUCT}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "listed",
    [
        "try: pass\nexcept (TryAgain, Unreachable): pass",
        "PASSING = (errors.TryAgain, errors.OperatorError)",
        "with suppress(Unreachable, StoreFull): pass",
        "isinstance(error, Unknown | Busy)",
    ],
)
def test_a_list_of_healing_errors_is_found(listed: str) -> None:
    assert list(lists_of_errors(ast.parse(listed))) != []


def test_whether_an_error_heals_is_listed_nowhere() -> None:
    """Ask `error.heals`, or write `with suppress_healing()`."""
    listed = [f"{name_of(path)}:{line}" for path in PRODUCT for line in lists_of_errors(ast.parse(text_of(path)))]
    assert listed == []

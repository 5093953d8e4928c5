"""What a page shows is run as its reader would: files are saved, programs started, commands typed, in order.

A Python block begins with the name of its file (`# app.py`) and is started if it has a main part; a `text` block after
it is what it prints. In a `sh` block `JOB=$(headrace …)` keeps an answer for `$JOB`. A `sql` block that begins with
the name of its file is saved; any other goes to whoever has a server.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

import pytest

ROOT = Path(__file__).resolve().parent.parent
Command = Callable[..., "subprocess.CompletedProcess[str]"]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\w+\.py)\n")
_SQLITE_URL = re.compile(r"sqlite:///(\w+)\.db")
_SQL_FILE = re.compile(r"-- (\S+/\w+\.sql)\n")
_KEEPS = re.compile(r"(\w+)=\$\((.*)\)")


def blocks(page: str) -> list[tuple[str, str]]:
    """(language, text) in order."""
    return _BLOCK.findall((ROOT / page).read_text("utf-8"))


def block(page: str, language: str, number: int = 0) -> str:
    return [text for kind, text in blocks(page) if kind == language][number]


@dataclass
class Reader:
    """Somebody who does what a page says, in a directory of their own. `variables` that are set before stay so.

    With `moved` they keep everything elsewhere: it gives the URL that stands for a SQLite file's name. What the page
    does to the file itself, with SQLite's own tools, is left out then.
    """

    folder: Path
    command: Command
    output: pytest.CaptureFixture[str]
    query: Callable[[str], None] | None = None
    variables: dict[str, str] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    moved: Callable[[str], str] | None = None

    def follow(self, page: str) -> None:
        printed = ""
        for language, shown in blocks(page):
            if self.moved is not None and language == "sh" and "apsw" in shown:
                continue
            text = self.with_urls(shown)
            self.seen.append(language)
            if language == "python":
                printed = self.save(text)
            elif language == "sh":
                printed = "".join(self.type(line) for line in lines(text))
            elif language == "sql" and (named := _SQL_FILE.match(text)):
                (self.folder / named[1]).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / named[1]).write_text(text)
            elif language == "sql":
                assert self.query is not None, f"{page} needs a server"
                self.query(text)
            elif language == "text":
                assert printed == text, f"{page} shows something else than {printed!r}"

    def with_urls(self, text: str) -> str:
        moved = self.moved
        return text if moved is None else _SQLITE_URL.sub(lambda found: moved(found[1]), text)

    def save(self, text: str) -> str:
        """Save a file; the output of one that is a program."""
        named = _FILE.match(text)
        assert named, f"a block does not say which file it is:\n{text}"
        (self.folder / named[1]).write_text(text)
        if "__main__" not in text:
            return ""
        self.output.readouterr()
        os.environ.update(self._exported())
        sys.path.insert(0, str(self.folder))
        with chdir(self.folder):
            runpy.run_path(named[1], run_name="__main__")
        sys.path.remove(str(self.folder))
        # A folder of statements is a package without a file, which nobody else forgets.
        for folder in (entry.name for entry in self.folder.iterdir() if entry.is_dir()):
            sys.modules.pop(folder, None)
        return self.output.readouterr().out

    def type(self, line: str) -> str:
        """Type one command; what it prints."""
        keeps = _KEEPS.fullmatch(line)
        name, value = line.removeprefix("export ").split("=", 1) if line.startswith("export ") else ("", "")
        if name:
            self.variables.setdefault(name, value)
            return ""
        words = shlex.split(Template(keeps[2] if keeps else line).substitute(self.variables))
        done = self._run(words)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        if keeps:
            self.variables[keeps[1]] = done.stdout.strip()
        return done.stdout

    def _run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        if words[0] == "headrace":
            return self.command(*words[1:], **self._exported())
        assert words[0] == "python", f"only headrace and python are at hand: {words}"
        line = [sys.executable, *words[1:]]
        environment = {**os.environ, **self._exported()}
        return subprocess.run(line, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)

    def _exported(self) -> dict[str, str]:
        return {name: value for name, value in self.variables.items() if name.startswith("HEADRACE_")}


def lines(text: str) -> Iterator[str]:
    """The commands of a block, without comments."""
    for line in text.splitlines():
        command = re.sub(r"(^|\s)#.*$", "", line).strip()
        if command:
            yield command

"""The command line's door. `--version` answers before anything heavy is imported."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    # While modules are imported nothing is begun that would have to be undone: an interrupt just ends the process.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.argv[1:] in (["--version"], ["-V"]):
        from headrace import __version__

        print(f"headrace {__version__}")
        return
    if sys.argv[1:] and not sys.argv[1].startswith("-"):
        _import_structlog_alone()
    from headrace.cli.app import run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(run(sys.argv[1:]))


def _import_structlog_alone() -> None:
    """Without rich, which it imports to draw tracebacks wherever it is installed: a tenth of a second of every process
    that is started, and our lines have tracebacks as text."""
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog  # noqa: F401 - it is the first who imports it that decides
    finally:
        del sys.modules["rich"]


if __name__ == "__main__":
    main()

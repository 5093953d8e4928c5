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
    from headrace.cli.app import run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()

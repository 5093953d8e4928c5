"""The command line's door. `--version` answers before anything heavy is imported."""

from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:] in (["--version"], ["-V"]):
        from headrace import __version__

        print(f"headrace {__version__}")
        return
    from headrace.cli.app import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()

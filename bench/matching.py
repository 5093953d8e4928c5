"""How fast and how good is matching? One part at a time, as JSON lines: `python bench/matching.py events --json`."""

from __future__ import annotations

import argparse
import importlib

PARTS = {"events": "matching_events"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = parser.add_subparsers(required=True)
    for name, module in PARTS.items():
        part = importlib.import_module(module)
        own = parts.add_parser(name, description=part.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        own.add_argument("--json", action="store_true", help="only JSON lines on stdout")
        part.options(own)
        own.set_defaults(run=part.run)
    given = parser.parse_args()
    given.run(given)


if __name__ == "__main__":
    main()

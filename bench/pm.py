"""How fast are performance files taken in? One part for each stage, with its raw limit and the usual way beside it.

    bench/pm.py [PART…] [--counters 100000] [--rounds 5] [--json]

`parse`: the text's nested shape, objects with 100 counters each.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from pm_parse import ParseBench
from rig import tell

Part = Callable[[argparse.Namespace], Iterator[dict[str, object]]]


def parse(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    with ParseBench(options.counters) as bench:
        yield from bench.results(options.rounds)


PARTS: dict[str, Part] = {"parse": parse}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; else all")
    parser.add_argument("--counters", type=int, default=100_000, help="in a file")
    parser.add_argument("--rounds", type=int, default=5, help="of which the best counts")
    parser.add_argument("--json", action="store_true", help="only JSON lines on stdout")
    options = parser.parse_args()
    unknown = sorted(set(options.parts) - set(PARTS))
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    for name in options.parts or PARTS:
        for result in PARTS[name](options):
            tell({"part": name, **result}, options.json)


if __name__ == "__main__":
    main()

"""How fast are performance files taken in? One part for each stage, with its raw limit and the usual way beside it.

    bench/pm.py [PART…] [--counters 100000] [--rows 1000000] [--rounds 5] [--json]

`parse`: the text's nested shape, objects with 100 counters each. `scan`: a look at a folder of many names, with many
more that are known. `transfers`: files from a server into the spool, beside other clients. `kafka`: batches to a real
broker, acknowledged, and from there into chDB. `flow`: files from the server into both sinks and the archive, as the
two designs before it do it. `compare`: two tables of counters with one difference in a real MariaDB.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from pm_compare import CompareBench
from pm_flow import FlowBench, FlowSizes
from pm_kafka import KafkaBench
from pm_parse import ParseBench
from pm_scan import ScanBench
from pm_transfers import TransferBench, TransferSizes
from rig import tell

Part = Callable[[argparse.Namespace], Iterator[dict[str, object]]]


def parse(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    with ParseBench(options.counters) as bench:
        yield from bench.results(options.rounds)


def scan(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    yield from ScanBench(options.names, options.known).results(options.rounds)


def transfers(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    sizes = TransferSizes(options.files, options.bytes, options.connections, options.latency)
    yield from TransferBench(sizes).results(options.rounds)


def kafka(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    yield from KafkaBench(options.counters, options.rows).results(options.rounds)


def flow(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    yield from FlowBench(FlowSizes(options.flow_files, options.flow_counters, options.share)).results()


def compare(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    yield from CompareBench(options.compared).results(options.rounds)


PARTS: dict[str, Part] = {
    "parse": parse,
    "scan": scan,
    "transfers": transfers,
    "kafka": kafka,
    "flow": flow,
    "compare": compare,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; else all")
    parser.add_argument("--counters", type=int, default=100_000, help="in a file")
    parser.add_argument("--names", type=int, default=5_000, help="in a folder")
    parser.add_argument("--known", type=int, default=500_000, help="names in Redis")
    parser.add_argument("--files", type=int, default=300, help="to transfer")
    parser.add_argument("--bytes", type=int, default=50_000, help="in each of them")
    parser.add_argument("--connections", type=int, default=10, help="to transfer them by")
    parser.add_argument("--latency", type=float, default=0.01, help="seconds each way, of a server far away")
    parser.add_argument("--rows", type=int, default=1_000_000, help="that are sent to Kafka")
    parser.add_argument("--flow-files", type=int, default=1_000, help="that are taken in from end to end")
    parser.add_argument("--flow-counters", type=int, default=5_000, help="in each of them")
    parser.add_argument("--share", type=float, default=0.05, help="of them for the designs before it")
    parser.add_argument("--compared", type=int, default=10_000_000, help="rows in each of two tables")
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

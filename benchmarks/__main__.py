"""Run benchmarks: `python -m benchmarks [NAME...] [--data DIR] [--out DIR]`.

Without a name the quick ones run, which need no data. Several run one after the other, each in a
process of its own, so that none finds another's memory or threads.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from pathlib import Path

from benchmarks import NAMES, QUICK, WITHOUT_DATA, benchmark, run


def names_in(text: str) -> list[str]:
    """Return the names that an option lists."""
    return text.split(",")


def parse(arguments: list[str]) -> argparse.Namespace:
    lines = [f"  {name:<16} {benchmark(name).__doc__.splitlines()[0]}" for name in NAMES]
    without = ", ".join((*QUICK, *WITHOUT_DATA))
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure distsvc and write tidy CSV files.",
        epilog="benchmarks:\n" + "\n".join(lines) + f"\n\nAll but {without} need --data.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="default: " + " ".join(QUICK))
    add("--data", type=Path, metavar="DIR", help="folder of data sets, DIR/GROUP/NAME.parquet")
    add("--out", type=Path, metavar="DIR", default=Path(__file__).parent / "results",
        help="where results go (default: %(default)s)")  # fmt: skip
    add("--work", type=Path, metavar="DIR", help="tables and runs (default: a temporary folder)")
    add("--repeats", type=int, metavar="N", help="timed repeats")
    add("--seeds", type=int, metavar="N", default=5, help="seeds; kills: how many (default: 5)")
    add("--permutations", type=int, metavar="N", default=10,
        help="mdh_table, mdh_order: orders of the rows, 3 at most of large sets (default: 10)",
        )  # fmt: skip
    add("--sets", type=names_in, metavar="A,B", help="only these data sets; "
        "realistic: names that contain one of these")  # fmt: skip
    add("--group", type=names_in, metavar="A,B",
        help="realistic: generated, added, one-class, real")  # fmt: skip
    add(
        "--half",
        choices=("tune", "confirm"),
        help="realistic, mdh_disturbed, mdh_null: only this half",
    )
    add("--methods", type=names_in, metavar="A,B",
        help="blind, blind_large, categories, given_k, outliers, realistic, stability: only these "
        "methods (an unknown name lists all); calls: only names with this beginning",
        )  # fmt: skip
    add("--against", action="append", metavar="NAME=DIR",
        help="calls: a checkout of another version to measure beside this one (repeatable)",
        )  # fmt: skip
    add("--processes", "--jobs", type=int, metavar="N", default=2,
        help="blind, categories, flag, given_k, mdh_disturbed, mdh_table, realistic, stability, "
        "structureless: fits at a time (default: %(default)s)")  # fmt: skip
    add("--rows", type=int, default=20_000_000,
        help="beside_k_means, big, mdh_big, levels_big, linear_big, kills, assign, lazy, stream: "
        "rows (default: 20e6)",
        )  # fmt: skip
    add("--partitions", type=int, default=20_000, help="many: partitions (default: 20e3)")
    add("--gamma", type=lambda text: text if text == "auto" else float(text), default=2.0,
        help="big: the kernel's width, or auto (default: %(default)s)")  # fmt: skip
    add("--match", type=float, default=0.5,
        help="nights, nights_real: least Jaccard index (default: %(default)s)")  # fmt: skip
    add("--table", type=Path, metavar="FILE", help="forecast: only a job on this table")
    options = parser.parse_args(arguments)
    options.names = options.names or list(QUICK)
    for name in options.names:
        if name not in NAMES:
            parser.error(f"no benchmark {name!r}; there are {', '.join(NAMES)}")
        if name not in (*QUICK, *WITHOUT_DATA) and options.data is None:
            parser.error(f"{name} needs --data DIR, a folder of data sets (see --help)")
    return options


def main(arguments: list[str]) -> int:
    if arguments[:1] in (["papers"], ["datasets"]):
        from benchmarks.cli import commands

        return commands(arguments, prog_name="python -m benchmarks")
    options = parse(arguments)
    failed = 0
    for name in options.names:
        process = multiprocessing.get_context("spawn").Process(target=run, args=(name, options))
        process.start()
        process.join()
        failed += process.exitcode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

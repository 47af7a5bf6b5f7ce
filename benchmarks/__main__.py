"""Run benchmarks: `python -m benchmarks [NAME...] [--data DIR] [--out DIR]`.

Without a name the quick ones run, which need no data. Several run one after the other, each in a
process of its own, so that none finds another's memory or threads.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from importlib import import_module
from pathlib import Path

QUICK = ("kernels", "visual", "mdh_null", "structureless")
LEVELS = ("levels_speed", "levels_big", "levels_workers")
MDH = ("mdh_table", "mdh_speed", "mdh_cost", "mdh_order", "mdh_big")
LINEAR = ("linear_exactness", "linear_speed", "linear_big", "linear_outliers")
BLIND = ("blind", "blind_large")
BASELINES = ("bico", "divisive")
WITH_DATA = (
    "exactness",
    "objective",
    "shuttle",
    "big",
    *BLIND,
    *LEVELS,
    *MDH,
    *LINEAR,
    *BASELINES,
)


def parse(arguments: list[str]) -> argparse.Namespace:
    lines = [
        f"  {name:<14} {(import_module(f'benchmarks.{name}').__doc__ or '').splitlines()[0]}"
        for name in (*QUICK, *WITH_DATA)
    ]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure distsvc and write tidy CSV files.",
        epilog="benchmarks:\n" + "\n".join(lines) + "\n\nAll but the first four need --data.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: " + " ".join(QUICK))
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="data sets: DIR/bsgd/NAME.parquet; for mdh_*, blind*, bico and divisive "
        "DIR/imdh and DIR/shapes too; "
        "for linear_* DIR/linear/NAME_train.svm and DIR/outliers/NAME.parquet",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        default=Path(__file__).parent / "results",
        help="where results go (default: %(default)s)",
    )
    parser.add_argument(
        "--work", type=Path, metavar="DIR", help="tables and runs (default: a temporary folder)"
    )
    parser.add_argument("--repeats", type=int, metavar="N", help="timed repeats")
    parser.add_argument("--seeds", type=int, metavar="N", default=5, help="seeds (default: 5)")
    parser.add_argument(
        "--permutations",
        type=int,
        metavar="N",
        default=10,
        help="mdh_table, mdh_order: orders of the rows, 3 at most of large sets (default: 10)",
    )
    parser.add_argument(
        "--sets", type=lambda text: text.split(","), metavar="A,B", help="only these data sets"
    )
    parser.add_argument(
        "--methods",
        type=lambda text: text.split(","),
        metavar="A,B",
        help="blind, blind_large: only these of ours, hdbscan, kmeans",
    )
    parser.add_argument(
        "--rows",
        type=int,
        default=20_000_000,
        help="big, mdh_big, levels_big, linear_big: rows of the large table (default: 20e6)",
    )
    parser.add_argument(
        "--gamma",
        type=lambda text: text if text == "auto" else float(text),
        default=2.0,
        help="big: the kernel's width, or auto (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    options.names = options.names or list(QUICK)
    for name in options.names:
        if name not in QUICK + WITH_DATA:
            parser.error(f"no benchmark {name!r}; there are {', '.join(QUICK + WITH_DATA)}")
        if name in WITH_DATA and options.data is None:
            parser.error(f"{name} needs --data DIR, a folder of data sets (see --help)")
    return options


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    failed = 0
    for name in options.names:
        run = import_module(f"benchmarks.{name}").run
        process = multiprocessing.get_context("spawn").Process(target=run, args=(options,))
        process.start()
        process.join()
        failed += process.exitcode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Changes single things in schedule, engine and selection, and counts those that the unit tests miss.

PYTHONPATH=test python3 -m mutate                       # every change: hours
PYTHONPATH=test python3 -m mutate --sample 40 engine    # 40 of the engine
"""

import argparse
import os
import sys
import tempfile

from mutate import ROOMS, Bench, sample

ENOUGH = 0.9  # of the changes that compile are to be caught


def main():
    parser = argparse.ArgumentParser(
        prog="mutate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "rooms", nargs="*", default=list(ROOMS), help=f"of {', '.join(ROOMS)} (all)"
    )
    parser.add_argument("--sample", type=int, default=0, help="changes of each room (all)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (1)")
    parser.add_argument(
        "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="at a time (cores)"
    )
    parser.add_argument("--folder", help="keeps the copy of the tree there, for the next time")
    parser.add_argument("--verbose", action="store_true", help="print all, not those alone that survive")
    arguments = parser.parse_args()
    for room in arguments.rooms:
        if room not in ROOMS:
            parser.error(f"no room {room}; there are {', '.join(ROOMS)}")
    missed = False
    with tempfile.TemporaryDirectory(prefix="gpuar-mutate-") as folder:
        bench = Bench(arguments.folder or folder, arguments.jobs, arguments.rooms)
        for room in arguments.rooms:
            missed = not run(bench, room, arguments) or missed
    return 1 if missed else 0


def run(bench, room, arguments):
    bench.check(room)
    counts = dict.fromkeys(("caught", "too slow", "survived", "no program"), 0)
    mutants = sample(room, arguments.sample, arguments.seed)
    for mutant, verdict in bench.try_mutants(room, mutants):
        counts[verdict] += 1
        if verdict == "survived" or arguments.verbose:
            print(f"{verdict.upper()} {mutant}", flush=True)
    caught = counts["caught"] + counts["too slow"]
    tried = caught + counts["survived"]
    share = caught / tried if tried else 0
    print(
        f"{room}: {caught} of {tried} changes are caught, {share:.0%}, "
        f"{counts['too slow']} of them by time; {counts['no program']} do not compile",
        flush=True,
    )
    return share >= ENOUGH


if __name__ == "__main__":
    sys.exit(main())

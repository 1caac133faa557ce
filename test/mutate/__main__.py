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
        "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="to build (cores)"
    )
    arguments = parser.parse_args()
    for room in arguments.rooms:
        if room not in ROOMS:
            parser.error(f"no room {room}; there are {', '.join(ROOMS)}")
    missed = False
    with tempfile.TemporaryDirectory(prefix="gpuar-mutate-") as folder:
        bench = Bench(folder, arguments.jobs)
        for room in arguments.rooms:
            missed |= not run(bench, room, arguments)
    return 1 if missed else 0


def run(bench, room, arguments):
    if not bench.passes(room):
        sys.exit(f"the tests of {room} fail as they are")
    counts, last = {"caught": 0, "survived": 0, "no program": 0}, None
    for mutant in sample(room, arguments.sample, arguments.seed):
        if last and last.path != mutant.path:
            bench.restore(room, last)
        verdict = bench.try_out(room, mutant)
        counts[verdict] += 1
        last = mutant
        if verdict == "survived":
            print(f"SURVIVED {mutant}", flush=True)
    if last:
        bench.restore(room, last)
    tried = counts["caught"] + counts["survived"]
    share = counts["caught"] / tried if tried else 0
    print(
        f"{room}: {counts['caught']} of {tried} changes are caught, {share:.0%}; "
        f"{counts['no program']} do not compile",
        flush=True,
    )
    return share >= ENOUGH


if __name__ == "__main__":
    sys.exit(main())

"""The long run of the fuzzer, and single jobs of it.

    PYTHONPATH=test python3 -m fuzz --calls 1000000 --seed 1
    PYTHONPATH=test python3 -m fuzz --ranks 3 --mca algorithm ring seed=7 first=12 last=12

The first form runs jobs of random set-ups until so many calls were compared. The second runs one
job in the set-up that it names, with the program's options (see test/fuzz/fuzz.cpp). A failure is
shrunk to a line of the second form.
"""

import argparse
import sys
import time

import fuzz
from lanes import Failure


def main():
    parser = argparse.ArgumentParser(
        prog="fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=1_000_000, help="calls to compare (1000000)")
    parser.add_argument("--seed", type=int, default=1, help="of the set-ups and their jobs (1)")
    parser.add_argument("--seconds", type=int, default=20, help="of each job (20)")
    parser.add_argument("--ranks", type=int, help="run one job, of so many ranks")
    parser.add_argument(
        "--mca", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"), help="of gpuar"
    )
    parser.add_argument("--memory", default="", help="as test/mpi/on_device/settings.h has it")
    parser.add_argument("--device-limit", type=int, default=0, help="in bytes (0)")
    parser.add_argument("options", nargs="*", metavar="NAME=VALUE", help="of the program")
    arguments = parser.parse_args()
    return one(arguments) if arguments.ranks else many(arguments)


def one(arguments):
    options = dict(word.split("=", 1) for word in arguments.options)
    set_up = fuzz.SetUp(
        arguments.ranks, dict(arguments.mca), arguments.memory, arguments.device_limit
    )
    why = fuzz.attempt(set_up, options, float(options.get("seconds", 10)) + 120)
    print(why or "no difference")
    return 1 if why else 0


def many(arguments):
    done, jobs, begin = 0, 0, time.monotonic()
    try:
        for set_up, seed, calls in fuzz.campaign(
            arguments.seed, arguments.calls, arguments.seconds
        ):
            done, jobs = done + calls, jobs + 1
            print(f"{done:9} calls, {calls} by {set_up.command({'seed': seed})}", flush=True)
    except Failure as failure:
        print(failure)
        print(f"after {done} calls in {jobs} jobs without a difference")
        return 1
    minutes = (time.monotonic() - begin) / 60
    print(f"{done} calls compared in {jobs} jobs and {minutes:.0f} minutes: no difference")
    return 0


if __name__ == "__main__":
    sys.exit(main())

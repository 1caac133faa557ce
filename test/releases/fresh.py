"""test/fresh: a minimal Debian, the sources, the README's two commands, and nothing else."""

import argparse
import re
import resource
import sys
import time

import releases
from lanes import Failure, Skip, require

RELEASES = ("bookworm", "trixie")
TABLE = re.compile(r"^ *size +gpuar µs", re.MULTILINE)
FIRST_TABLE = 600  # seconds, packages and compiling included
SOME = "unit,selection,mpi_agreement,symbols"  # lanes
USER = "someone"
OF_ROOT, OF_USER = "/srv/gpuar", f"/home/{USER}/gpuar"  # the sources, for each


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="test/fresh",
        description="Runs bench/run and test/run in minimal roots of Debian releases, as root and then "
        "as a user without. Takes root.",
    )
    parser.add_argument(
        "releases", metavar="RELEASE", nargs="*", help=f"default: {' '.join(RELEASES)}"
    )
    lanes = parser.add_mutually_exclusive_group()
    lanes.add_argument(
        "--only", metavar="LANE,…", default=SOME, help="lanes of test/run (default: %(default)s)"
    )
    every = "every lane: an hour or two for each release"
    lanes.add_argument("--all", dest="only", action="store_const", const="", help=every)
    return parser.parse_args()


def bench(root, folder, user=None):
    """bench/run, whose table must come in time. Returns how long it took."""
    start, busy = time.monotonic(), processor_seconds()
    result = root.shell(f"cd {folder} && bench/run", user=user, timeout=4 * FIRST_TABLE)
    seconds, busy = time.monotonic() - start, processor_seconds() - busy
    took = f"{seconds:.0f} s to the table, {busy:.0f} s of processors' time"
    require(result.status == 0, f"bench/run ended with status {result.status}\n{result.tail()}")
    require(TABLE.search(result.output), f"bench/run shows no table\n{result.tail()}")
    require(seconds < FIRST_TABLE, took)
    return took


def processor_seconds():
    """Of all processes that this one has started and that have ended: on a machine that does other
    things besides, what a quiet one would take."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tests(root, folder, only, user=None):
    """test/run; what needs root is skipped for a user, what fails is a failure for both."""
    words = f"--only {only}" if only else ""
    result = root.shell(f"cd {folder} && test/run {words}", user=user, timeout=7200)
    require(result.status == 0, f"test/run ended with status {result.status}\n{result.tail()}")
    return result.tail(1)


def steps(release, only):
    """(what is done, how): each builds on what the one before left."""
    with releases.temporary(release) as root:
        root.copy_tree(OF_ROOT)
        yield "bench/run", lambda: bench(root, OF_ROOT)
        yield "test/run", lambda: tests(root, OF_ROOT, only)
        made = root.shell(f"useradd --create-home {USER}", timeout=60)
        require(made.status == 0, made.output)
        root.copy_tree(OF_USER)
        made = root.shell(f"chown -R {USER}: {OF_USER}", timeout=60)
        require(made.status == 0, made.output)
        yield "bench/run without root", lambda: bench(root, OF_USER, USER)
        yield "test/run without root", lambda: tests(root, OF_USER, only, USER)


def tried(release, only):
    """Prints a line per step; False if one failed. What follows a failure is not tried."""
    what = "the root"
    try:
        for what, do in steps(release, only):
            print(f"PASS {release}: {what}: {do()}", flush=True)
    except Skip as why:
        print(f"SKIP {release}: {why}")
    except Failure as why:
        print(f"FAIL {release}: {what}: {why}")
        return False
    return True


def main():
    arguments = parse_arguments()
    verdicts = [tried(release, arguments.only) for release in arguments.releases or RELEASES]
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())

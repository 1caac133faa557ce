"""test/fresh: a minimal Debian, the sources, the README's two commands, and nothing else."""

import argparse
import re
import sys
import time

import releases
from lanes import Failure, Skip, require

RELEASES = ("bookworm", "trixie")
TABLE = re.compile(r"^ *size +gpuar µs", re.MULTILINE)
FIRST_TABLE = 600  # seconds, packages and compiling included
USER = "someone"
OF_ROOT, OF_USER = "/srv/gpuar", f"/home/{USER}/gpuar"  # the sources, for each


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="test/fresh",
        description="Runs bench/run and test/run in minimal roots of Debian releases, as root and then "
        "as a user without. Takes root and, with every test, an hour or two for each.",
    )
    parser.add_argument(
        "releases", metavar="RELEASE", nargs="*", help=f"default: {' '.join(RELEASES)}"
    )
    parser.add_argument("--only", metavar="LANE,…", help="these lanes of test/run alone")
    return parser.parse_args()


def bench(root, folder, user=None):
    """bench/run, whose table must come in time. Returns the seconds."""
    start = time.monotonic()
    result = root.shell(f"cd {folder} && bench/run", user=user, timeout=2 * FIRST_TABLE)
    seconds = time.monotonic() - start
    require(result.status == 0, f"bench/run ended with status {result.status}\n{result.tail()}")
    require(TABLE.search(result.output), f"bench/run shows no table\n{result.tail()}")
    require(seconds < FIRST_TABLE, f"bench/run took {seconds:.0f} s")
    return f"{seconds:.0f} s to the table"


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

"""test/matrix: the MPI lanes with the Open MPI of this machine and of other Debian releases."""

import argparse
import subprocess
import sys

from lanes import ROOT, Failure, Skip
from releases import matrix


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="test/matrix",
        description="Builds gpuar and runs the MPI lanes here and in roots of other Debian releases, "
        "which are made by mmdebstrap and kept in $XDG_CACHE_HOME/gpuar/roots. Takes root.",
    )
    parser.add_argument(
        "places",
        metavar="PLACE",
        nargs="*",
        choices=["here", *matrix.RELEASES, []],
        help=f"here, or a release: {', '.join(matrix.RELEASES)} (default: all)",
    )
    parser.add_argument("--core", action="store_true", help="the core of the lanes alone")
    return parser.parse_args()


def here(core):
    """The lanes of this machine's own Open MPI, as they print themselves."""
    lanes = "selection,mpi_semantics,mpi_agreement" if core else ",".join(matrix.LANES)
    return subprocess.run([ROOT / "test" / "run", "--only", lanes], check=False).returncode == 0


def there(release, core):
    try:
        found = (matrix.core if core else matrix.whole)(release)
    except Skip as why:
        found = [matrix.Verdict("SKIP", "all", str(why))]
    except Failure as why:
        found = [matrix.Verdict("FAIL", "all", str(why))]
    for verdict in found:
        print(f"{verdict.word} {release}: {verdict.name}{': ' * bool(verdict.why)}{verdict.why}")
    counts = {word: sum(v.word == word for v in found) for word in ("PASS", "FAIL", "SKIP")}
    print(f"{release}: {', '.join(f'{n} {word}' for word, n in counts.items())}", flush=True)
    return not counts["FAIL"]


def main():
    arguments = parse_arguments()
    good = True
    for place in arguments.places or ["here", *matrix.RELEASES]:
        good = (here(arguments.core) if place == "here" else there(place, arguments.core)) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

"""gpuar with the Open MPI of another Debian release. The whole of it is test/matrix."""

from functools import partial

from lanes import Skip, lane
from releases import matrix


def lanes():
    return {"matrix_trixie": matrix_trixie}


@lane(takes_long=True)
def matrix_trixie():
    "Open MPI 5.0 in a root of Debian 13: built there, and the core of the MPI lanes"
    try:
        found = matrix.core("trixie")
    except Skip as skip:
        yield "a root of Debian 13", partial(matrix.judge, matrix.Verdict("SKIP", "", str(skip)))
        return
    for verdict in found:
        if verdict.word == "SKIP" and "Open MPI 6.0" in verdict.why:
            continue  # not of this release
        yield verdict.name, partial(matrix.judge, verdict)

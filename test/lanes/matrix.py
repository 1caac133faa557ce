"""gpuar with the Open MPI of another Debian release. The whole of it is test/matrix."""

from functools import partial

import lanes as package
from lanes import lane
from releases import matrix


def lanes():
    return {"matrix_trixie": matrix_trixie}


@lane()
def matrix_trixie():
    "Open MPI 5.0 in a root of Debian 13: built there, and some MPI tests, with --long their core"
    form = matrix.core if package.long_form else matrix.short
    found = []
    yield "built and run in a root of Debian 13", lambda: found.extend(form("trixie"))
    for verdict in found:
        if verdict.word == "SKIP" and "Open MPI 6.0" in verdict.why:
            continue  # not of this release
        yield verdict.name, partial(matrix.judge, verdict)

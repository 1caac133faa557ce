"""Proof that the lanes would notice if gpuar served nothing."""

import lanes as package
from lanes import Failure, lane, mpi

OF_EACH_LANE = 6  # as the tests of a lane mostly share what asserts; --long takes all of them


def lanes():
    return {"mutant_fallback": mutant_fallback}


@lane()
def mutant_fallback():
    "every MPI lane again with a gpuar that always declines: each test must fail its counters"
    from lanes.__main__ import all_lanes

    for lane_name, function in all_lanes().items():
        if not getattr(function, "gpuar", False):
            continue
        if function.takes_long and not package.long_form:
            continue
        for name, body in chosen(list(function())):
            yield f"{lane_name}: {name}", lambda body=body: must_fail(body)


def chosen(tests):
    """All, or some that lie evenly in the list."""
    if package.long_form or len(tests) <= OF_EACH_LANE:
        return tests
    return [tests[index * len(tests) // OF_EACH_LANE] for index in range(OF_EACH_LANE)]


def must_fail(body):
    mpi.extra_mca = {"coll_gpuar_test_fault": "decline"}
    try:
        body()
    except mpi.NotServed:
        return
    finally:
        mpi.extra_mca = {}
    raise Failure("passes although gpuar declined every communicator")

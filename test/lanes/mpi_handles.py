"""The handles of gpuar.h: 16-bit types and the average, with gpuar, without, and where it declines."""

from lanes import lane, mpi, mpi_semantics, require

RESULTS = mpi_semantics.PROGRAMS / "handles"
ERRORS = mpi_semantics.PROGRAMS / "handle_errors"
# What gpuar.h does by itself; no average.
ALONE = ["half_ops", "other_unit", "derived_types", "average=0"]
DECLINE = {"coll_gpuar_test_fault": "decline"}


def lanes():
    return {"mpi_handles": mpi_handles, "mpi_handles_alone": mpi_handles_alone}


@lane(gpuar=True)
def mpi_handles():
    "gpuar.h: fp16, bf16 and the average in all forms, and datatypes that do not fit"
    for ranks in (2, 3, 4):
        yield f"{ranks} ranks", lambda ranks=ranks: mpi_semantics.run_program("handles", ranks)
    yield "in many segments", lambda: segments("ring")
    yield "in many segments, by halves", lambda: segments("rabenseifner")
    yield (
        "progress thread",
        lambda: mpi_semantics.run_program("handles", 2, mca={"coll_gpuar_progress_thread": 1}),
    )
    yield "errors", lambda: mpi_semantics.run_program("handle_errors", 3)


def segments(algorithm):
    mca = {"coll_gpuar_segment_size": 500, "coll_gpuar_algorithm": algorithm}
    mpi_semantics.run_program("handles", 3, mca=mca)


@lane()
def mpi_handles_alone():
    "gpuar.h where gpuar does not serve: right, or a clear error, never a sum for an average"
    for ranks in (2, 3):
        yield f"not loaded, {ranks} ranks", lambda ranks=ranks: stock(ranks, RESULTS, *ALONE)
    yield "not loaded: no average", lambda: stock(2, ERRORS, "average_refused")
    yield "not loaded: the job ends and says why", not_loaded
    yield "declined", lambda: declined(3, RESULTS, *ALONE, "one_rank")
    yield "declined: no average", lambda: declined(3, ERRORS, "average_declined")
    yield "declined: no average of MPI_Reduce", lambda: declined(2, ERRORS, "average_by_reduce")
    yield "declined: the job ends and says why", declined_and_fatal


def stock(ranks, *argv):
    mpi.succeed(mpi.mpirun(ranks, argv, "stock"), argv[0].name)


def declined(ranks, *argv):
    result = mpi.succeed(mpi.mpirun(ranks, argv, mca=DECLINE), argv[0].name)
    for rank, count in mpi.counters(result.output).items():
        require(count["fallbacks"] >= 1, f"rank {rank} declined nothing\n{result.tail()}")


def not_loaded():
    result = mpi.mpirun(2, [ERRORS, "average_fatal"], "stock")
    require(result.status != 0, "the job ended well")
    require("needs the gpuar component" in result.output, result.tail())


def declined_and_fatal():
    result = mpi.mpirun(2, [ERRORS, "average_fatal"], mca=DECLINE)
    require(result.status != 0, "the job ended well")
    words = "GPUAR_AVERAGE in a call that gpuar does not serve"
    require(words in result.output, f"nothing says {words!r}\n{result.tail()}")

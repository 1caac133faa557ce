"""gpuar's own progress thread, which moves messages beside the program's threads."""

from lanes import lane, mpi_semantics

THREAD = {"coll_gpuar_progress_thread": 1}
# Each with the operands that keep it short.
PROGRAMS = {"requests": [], "communicators": [], "threads": ["rounds=60"], "user_ops": []}


def lanes():
    return {"mpi_progress_thread": mpi_progress_thread}


@lane(gpuar=True)
def mpi_progress_thread():
    "requests, communicators, threads and operations with coll_gpuar_progress_thread"
    yield (
        "messages move while the program computes",
        lambda: mpi_semantics.run_program("threads", 4, ["moves_while_computing"], mca=THREAD),
    )
    for ranks in (2, 4):
        for program, operands in PROGRAMS.items():
            yield (
                f"{program}, {ranks} ranks",
                lambda program=program, ranks=ranks, operands=operands: mpi_semantics.run_program(
                    program, ranks, operands, mca=THREAD
                ),
            )
        yield (
            f"parent used while duplicated, {ranks} ranks",
            lambda ranks=ranks: mpi_semantics.parent_used_while_duplicated(ranks, mca=THREAD),
        )

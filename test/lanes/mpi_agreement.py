"""Ranks that are set up differently: all decline, one line says who and what, stock goes on."""

import socket

from lanes import lane, mpi, mpi_semantics, require

PROGRAM = mpi_semantics.PROGRAMS / "buffers"
CASES = ["counts=100", "every_count", "fewer_elements_than_ranks"]


def lanes():
    return {"mpi_agreement": mpi_agreement}


@lane()
def mpi_agreement():
    "gpuar missing, or set up differently, on one rank: everyone declines, nothing hangs"
    yield "gpuar excluded on rank 1", lambda: excluded(1)
    yield "gpuar excluded on rank 0", lambda: excluded(0)
    yield "gpuar not installed on rank 2", not_installed
    yield (
        "another segment size on rank 1",
        lambda: differing(1, {"OMPI_MCA_coll_gpuar_segment_size": 12345}, "segment_size"),
    )
    yield (
        "another algorithm on rank 0",
        lambda: differing(0, {"OMPI_MCA_coll_gpuar_algorithm": "ring"}, "algorithm"),
    )
    yield (
        "reproducible on rank 2",
        lambda: differing(2, {"OMPI_MCA_coll_gpuar_reproducible": 1}, "reproducible"),
    )
    yield (
        "a report on rank 1 alone",
        lambda: differing(1, {"OMPI_MCA_coll_gpuar_report": 1}, "report"),
    )
    yield (
        "a check's time-out that is none on rank 1",
        lambda: differing(
            1,
            {"OMPI_MCA_coll_gpuar_check": 1, "OMPI_MCA_coll_gpuar_check_timeout": 0},
            "check_timeout is 0",
        ),
    )
    yield "one line for many communicators, in any order of ranks", one_line
    yield "UCX unable on rank 1", lambda: differing(1, {"UCX_TLS": "nonsense"}, "UCX")
    yield "UCX unable on rank 0", lambda: differing(0, {"UCX_TLS": "nonsense"}, "UCX")


def run_with_one_different(odd_rank, settings, mca=None, argv=(PROGRAM, *CASES)):
    """Three ranks of one job with the parameters of `mca`; the settings are in the environment of
    one of them alone."""
    assignments = [f"{name}={value}" for name, value in settings.items()]
    script = f'[ "$OMPI_COMM_WORLD_RANK" = {odd_rank} ] && exec env {" ".join(assignments)} "$@"; exec "$@"'
    argv = ["sh", "-c", script, "sh", *argv, "limit=30"]
    mca = {"mpi_yield_when_idle": 1, "coll_gpuar_verbose": 1, "coll": None} | (mca or {})
    result = mpi.mpirun(3, argv, mca=mca, timeout=60)
    mpi.succeed(result, "the program")
    return result


def check_declined(result, words, loaded):
    """The ranks that have gpuar served nothing and counted a fallback each, and exactly one line
    speaks of MPI_COMM_WORLD: it has the words."""
    counters = mpi.counters(result.output)
    require(sorted(counters) == loaded, f"counters of {sorted(counters)}\n{result.tail()}")
    for rank, count in counters.items():
        served = count["blocking"] + count["nonblocking"] + count["persistent"]
        require(served == 0, f"rank {rank} served {served} calls\n{result.tail()}")
        require(count["fallbacks"] >= 1, f"rank {rank} counted no fallback\n{result.tail()}")
        reasons = count["missing"] + count["refusing"] + count["different"]
        require(reasons == count["fallbacks"], f"rank {rank}: {count}")
    lines = [
        line
        for line in result.output.splitlines()
        if line.startswith("gpuar:") and "communicator MPI_COMM_WORLD" in line
    ]
    require(len(lines) == 1, f"{len(lines)} lines instead of one\n" + "\n".join(lines))
    for word in words:
        require(word in lines[0], f"the line does not say {word!r}\n{lines[0]}")


def one_line():
    """Reversed, interleaved and split ones: what keeps them from being served is one thing."""
    for odd_rank, settings in (
        (1, {"OMPI_MCA_coll": "^gpuar"}),
        (0, {"OMPI_MCA_coll": "^gpuar"}),
        (2, {"OMPI_MCA_coll_gpuar_algorithm": "ring"}),
        (1, {"UCX_TLS": "nonsense"}),
    ):
        program = [mpi_semantics.PROGRAMS / "communicators", "splits", "duplicates"]
        result = run_with_one_different(odd_rank, settings, argv=program)
        lines = [line for line in result.output.splitlines() if "does not serve comm" in line]
        require(len(lines) == 1, f"{settings}: {len(lines)} lines\n" + "\n".join(lines))


def excluded(odd_rank):
    result = run_with_one_different(odd_rank, {"OMPI_MCA_coll": "^gpuar"})
    loaded = [rank for rank in range(3) if rank != odd_rank]
    check_declined(result, [f"rank {odd_rank}", socket.gethostname(), "gpuar is not loaded"], loaded)


def not_installed():
    stock = {"OMPI_MCA_mca_base_component_path": mpi.stock_component_dir()}
    result = run_with_one_different(2, stock)
    check_declined(result, ["rank 2", socket.gethostname(), "gpuar is not loaded"], [0, 1])


def differing(odd_rank, settings, item):
    result = run_with_one_different(odd_rank, settings)
    check_declined(result, [f"rank {odd_rank}", socket.gethostname(), item], [0, 1, 2])

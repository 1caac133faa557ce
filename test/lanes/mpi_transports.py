"""gpuar over each of UCX's paths, beside each of Open MPI's."""

from functools import partial

from lanes import BUILD, lane, mpi, mpi_semantics, require

UCX_PATHS = ["tcp,self", "sysv,self", "posix,cma,self", "sysv,tcp,self"]
PML_UCX = {"pml": "ucx", "opal_common_ucx_tls": "any", "opal_common_ucx_devices": "any"}


def lanes():
    return {"mpi_transports": mpi_transports}


@lane(gpuar=True)
def mpi_transports():
    "shared memory, CMA and TCP under gpuar; pml ob1 and ucx beside it"
    for path in UCX_PATHS:
        yield f"UCX_TLS={path}", lambda path=path: both_programs(env={"UCX_TLS": path})
    for path, size, used in (
        ("sysv,self", 4096, True),
        ("posix,cma,self", 4096, True),
        ("all", 0, False),
        ("tcp,self", 4096, False),
    ):
        what = "mailboxes" if used else "no mailboxes"
        yield f"UCX_TLS={path}, of {size} bytes: {what}", partial(mailboxes, path, size, used)
    yield "short messages, without mailboxes", lambda: both_programs(
        mca={"coll_gpuar_mailbox_size": 0}
    )
    yield "pml ucx", lambda: both_programs(mca=PML_UCX)
    yield "pml ob1 over tcp", lambda: both_programs(mca={"pml": "ob1", "btl": "tcp,self"})


def mailboxes(path, size, used):
    argv = [BUILD / "bench" / "gpuar_bench", "--sizes", "4,1K,8K", "--iterations", 50]
    mca = {"coll_gpuar_verbose": 2, "coll_gpuar_mailbox_size": size}
    result = mpi.served(3, argv, mca=mca, env={"UCX_TLS": path})
    peers = [line for line in result.output.splitlines() if " to host " in line]
    require(peers, f"no line says how the peers were reached\n{result.tail()}")
    require(any(", mailbox" in line for line in peers) == used, "\n".join(peers))


def both_programs(**arguments):
    operands = ["counts=150", "power=17", "every_count", "around_powers_of_two"]
    mpi_semantics.run_program("buffers", 3, operands, **arguments)
    operands = ["calls=100", "many_outstanding_testsome", "many_outstanding_backwards"]
    mpi_semantics.run_program("requests", 3, operands, **arguments)

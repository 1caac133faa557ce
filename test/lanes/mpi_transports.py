"""gpuar over each of UCX's paths, beside each of Open MPI's."""

from lanes import lane, mpi_semantics

UCX_PATHS = ["tcp,self", "sysv,self", "posix,cma,self", "sysv,tcp,self"]
PML_UCX = {"pml": "ucx", "opal_common_ucx_tls": "any", "opal_common_ucx_devices": "any"}


def lanes():
    return {"mpi_transports": mpi_transports}


@lane(gpuar=True)
def mpi_transports():
    "shared memory, CMA and TCP under gpuar; pml ob1 and ucx beside it"
    for path in UCX_PATHS:
        yield f"UCX_TLS={path}", lambda path=path: both_programs(env={"UCX_TLS": path})
    yield "pml ucx", lambda: both_programs(mca=PML_UCX)
    yield "pml ob1 over tcp", lambda: both_programs(mca={"pml": "ob1", "btl": "tcp,self"})


def both_programs(**arguments):
    operands = ["counts=150", "power=17", "every_count", "around_powers_of_two"]
    mpi_semantics.run_program("buffers", 3, operands, **arguments)
    operands = ["calls=100", "many_outstanding_testsome", "many_outstanding_backwards"]
    mpi_semantics.run_program("requests", 3, operands, **arguments)

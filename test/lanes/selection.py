"""Every way in which a user names coll components."""

from functools import partial

from lanes import BUILD, Failure, lane, mpi, require

PROGRAM = [BUILD / "bench" / "gpuar_bench", "--sizes", "8,4K,1M", "--iterations", 5]


TEXTS = "test_node_size tuning_file report trace test_fault".split()


def lanes():
    return {"selection": selection, "not_selected": not_selected}


@lane(gpuar=True)
def selection():
    "each selection that names gpuar, or names nothing, is served by it; nothing is printed"
    for name, coll, env in (
        ("--mca coll gpuar", "gpuar", {}),
        ("OMPI_MCA_coll=gpuar", None, {"OMPI_MCA_coll": "gpuar"}),
        ("--mca coll gpuar,basic,libnbc,self", "gpuar,basic,libnbc,self", {}),
        ("--mca coll gpuar,tuned", "gpuar,tuned", {}),
        ("no selection", None, {}),
        ("texts that are empty", "gpuar", {f"OMPI_MCA_coll_gpuar_{name}": "" for name in TEXTS}),
    ):
        yield name, partial(is_served, coll, env)


def is_served(coll, env):
    result = mpi.served(2, PROGRAM, mca={"coll": coll}, env=env)
    require("other" not in result.output, f"not all calls were served\n{result.tail()}")
    extra = [
        line
        for line in result.output.splitlines()
        if "gpuar" in line and not line.startswith(("gpuar: counters: ", "#", " "))
    ]
    require(not extra, f"a successful run printed: {extra}")


@lane()
def not_selected():
    "--mca coll ^gpuar and a list without gpuar leave everything to Open MPI"
    yield "--mca coll ^gpuar", partial(is_stock, "^gpuar")
    yield "--mca coll basic,libnbc,self,tuned", partial(is_stock, "basic,libnbc,self,tuned")


def is_stock(coll):
    result = mpi.succeed(mpi.mpirun(2, PROGRAM, mca={"coll": coll, "coll_gpuar_counters": None}))
    if "gpuar\n" in result.output or "other" not in result.output:
        raise Failure(f"gpuar served calls\n{result.tail()}")

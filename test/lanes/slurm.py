"""The job scripts of docs/slurm/, submitted to a Slurm of two nodes on this machine."""

import contextlib
from pathlib import Path

import slurm as slurms
from lanes import BUILD, ROOT, Skip, lane, mpi, on_device, require
from lanes.cluster import made

SCRIPTS = ROOT / "docs" / "slurm"
BENCH = [BUILD / "bench" / "gpuar_bench", "--sizes", "8,64K", "--iterations", "3"]
NODES = [2, 2]  # CPUs


def lanes():
    return {"slurm": slurm}


@lane()
def slurm():
    "the job scripts of docs/slurm/: sbatch, srun --mpi=pmix, mpirun, an array, on two nodes of Slurm's"
    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(made(NODES))
            service = stack.enter_context(slurms.Slurm(cluster))
        except (Skip, slurms.Unavailable) as problem:
            why = str(problem)
            yield "Slurm on two nodes", lambda: unavailable(why)
            return
        tried = set()
        for name, test in (
            ("cpu.sh", cpu),
            ("nodes.sh", nodes),
            ("mpirun.sh", by_mpirun),
            ("gpu.sh", gpu),
            ("array.sh", array),
        ):
            tried.add(name)
            title = (test.__doc__ or name).splitlines()[0]
            yield f"{name}: {title}", lambda name=name, test=test: test(service, SCRIPTS / name)
        yield "every script was tried", lambda: all_tried(tried)
        for selection in ("gpuar", "^gpuar"):
            name = f"OMPI_MCA_coll={selection} srun --mpi=pmix"
            yield name, lambda selection=selection: by_srun(service, selection)
    yield "nothing is left behind", lambda: nothing_left(service)


def unavailable(why):
    raise Skip(why)


def settings():
    """For gpuar as it is built, and for mpirun as root."""
    return {
        "OMPI_MCA_mca_base_component_path": f"{BUILD / 'components'}:{mpi.stock_component_dir()}",
        "OMPI_MCA_coll_gpuar_counters": 1,
        "OMPI_MCA_mpi_yield_when_idle": 1,
        "OMPI_ALLOW_RUN_AS_ROOT": 1,
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": 1,
    }


def submit(service, script, *program, env=None, outputs=1):
    """Submits it; it must complete. Returns the text of its output files, in the order of names."""
    states, files = service.submit([script, *(program or BENCH)], env=settings() | (env or {}))
    shown = "\n".join(f"{name}:\n{text}" for name, text in sorted(files.items()))
    require(states == ["COMPLETED"] * outputs, f"{script.name} ended as {states}\n{shown}")
    require(len(files) == outputs, f"{script.name} wrote {sorted(files)}")
    return [text for _, text in sorted(files.items())]


def check_served(text, ranks):
    return mpi.check_served(ranks, mpi.Result(0, text, 0.0))


def cpu(service, script):
    "two ranks of one node are served"
    (text,) = submit(service, script)
    check_served(text, 2)


def nodes(service, script):
    "ranks of two nodes are served, and the report knows the nodes"
    (text,) = submit(service, script, env={"OMPI_MCA_coll_gpuar_verbose": 1})
    check_served(text, 4)
    require("gpuar report" in text.lower(), f"no report\n{text}")
    require("2 hosts" in text or "2 nodes" in text, f"not two nodes\n{text}")


def by_mpirun(service, script):
    "mpirun starts its ranks on the nodes of the allocation"
    (text,) = submit(service, script, env={"OMPI_MCA_coll_gpuar_verbose": 1})
    check_served(text, 4)
    require("2 hosts" in text or "2 nodes" in text, f"not two nodes\n{text}")


def gpu(service, script):
    "one rank per GPU; on the simulated driver, calls on device memory"
    machine = on_device.staged()
    (text,) = submit(service, script, *BENCH, "--memory", "device", env=machine.environment(None, {}))
    for rank, count in check_served(text, 2).items():
        require(count["device_calls"], f"rank {rank} made no call on device memory\n{text}")


def array(service, script):
    "two jobs, each with its algorithm"
    texts = submit(service, script, env={"OMPI_MCA_coll_gpuar_verbose": 1}, outputs=2)
    for text in texts:
        check_served(text, 2)
    asked = ["asked for" in text for text in texts]
    require(asked == [False, True], "\n".join(texts))


def by_srun(service, selection):
    """As docs/site.md shows it: outside a script."""
    words = ["srun", "--mpi=pmix", "--ntasks=2", *BENCH]
    answer = service.run(words, env=settings() | {"OMPI_MCA_coll": selection}, check=False)
    text = answer.stdout + answer.stderr
    require(answer.returncode == 0, text)
    if selection == "gpuar":
        check_served(text, 2)
    else:
        require(not mpi.counters(text) and "other" in text, f"gpuar served it\n{text}")


def all_tried(tried):
    missing = {path.name for path in SCRIPTS.glob("*.sh")} - tried
    require(not missing, f"no test for {sorted(missing)}")


def nothing_left(service):
    require(not service.folder.exists(), f"{service.folder} is still there")
    for stat in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            require(str(service.folder).encode() not in stat.read_bytes(), f"{stat.parent} still runs")

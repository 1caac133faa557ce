"""Machines that are described in files: what gpuar makes of GPUs, network ports and packages."""

import contextlib
import os
import re
import tempfile

from lanes import BUILD, Skip, lane, mpi, mpi_semantics, require

MACHINE_XML = BUILD / "test" / "topo" / "machine_xml"


def lanes():
    return {"topology": topology}


@lane(gpuar=True)
def topology():
    "machines from files: UCX is told which ports are near, and ranks go along their packages"
    yield "the ports near each rank's GPU", near_ports
    yield "the user's choice counts", users_choice
    yield "ranks bound to two packages", two_packages
    yield "ranks dealt round to two packages", dealt_packages


@contextlib.contextmanager
def machine(name):
    """What mpirun needs for ranks that believe to sit on a machine of test/topo."""
    with tempfile.NamedTemporaryFile("w", suffix=".xml", prefix="gpuar-") as file:
        file.write(mpi.succeed(mpi.run([MACHINE_XML, name], timeout=20)).output)
        file.flush()
        yield ["-x", f"HWLOC_XMLFILE={file.name}"]


def on_dgx(env):
    """Two ranks, the third and the sixth GPU visible."""
    with machine("dgx_like") as settings:
        settings += ["-x", "CUDA_VISIBLE_DEVICES=2,5"]
        mca = {"coll_gpuar_verbose": 2}
        result = mpi_semantics.run_program(
            "buffers", 2, ["hundred_chars"], mca=mca, options=settings, env=env, timeout=60
        )
    require("2 GPUs, at most 1 of the ranks on one" in result.output, f"no GPUs\n{result.tail()}")
    return result.output


def near_ports():
    output = on_dgx({})
    wanted = ((0, "hca2:1, hca3:1", "0000:18"), (1, "hca4:1, hca5:1", "0000:20"))
    for rank, ports, gpu in wanted:
        line = rf"gpuar: rank {rank} \(host \S+\): UCX uses {ports}, behind the same .* GPU {gpu}"
        require(re.search(line, output), f"no line \"{line}\"\n{output}")
        first = ports.split(",")[0]
        require(
            re.search(rf"UCX +WARN .*{first}.* not available", output),
            f"UCX does not complain that there is no {first}\n{output}",
        )


def users_choice():
    output = on_dgx({"UCX_NET_DEVICES": "lo"})
    require("is set and decides" in output, f"no word about UCX_NET_DEVICES\n{output}")
    require("WARN" not in output, f"UCX was told something else\n{output}")


def bound(rule, algorithm):
    """Four ranks with gpuar, each bound to the core of that number: a shell expression of $rank."""
    if not {0, 1} <= os.sched_getaffinity(0):
        raise Skip("needs the cores 0 and 1")
    bind = f'rank=$OMPI_COMM_WORLD_RANK; exec taskset -c $(({rule})) "$0" "$@"'
    with machine("two_cores") as settings:
        result = mpi_semantics.run_program(
            "buffers",
            4,
            ["counts=60", "every_count", "around_powers_of_two"],
            mca={"coll_gpuar_verbose": 1, "coll_gpuar_algorithm": algorithm},
            options=[*settings, "-x", "HWLOC_THISSYSTEM=1", "sh", "-c", bind],
        )
    require("; 2 packages, 2 NUMA domains" in result.output, f"no packages\n{result.tail()}")
    return result.output


def two_packages():
    for algorithm, across in (("deep_hierarchy:ring", "ring"), ("deep_leaders:tree", "tree")):
        output = bound("rank / 2", algorithm)
        require("by place" not in output, f"ranks are in order\n{output}")
        used = f": {algorithm.partition(':')[0]} with {across} across"
        require(used in output, f"no \"{used}\"\n{output}")


def dealt_packages():
    """The ring is 0, 2, 1, 3; the packages are groups of ranks that are no neighbours."""
    for algorithm in ("ring", "deep_hierarchy:ring"):
        require("; ring by place" in bound("rank % 2", algorithm), "not by place")

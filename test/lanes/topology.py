"""Machines that are described in files: what gpuar makes of GPUs and network ports."""

import re
import tempfile

from lanes import BUILD, lane, mpi, mpi_semantics, require

MACHINE_XML = BUILD / "test" / "topo" / "machine_xml"


def lanes():
    return {"topology": topology}


@lane(gpuar=True)
def topology():
    "a machine with 8 GPUs and 8 HCAs, from a file: UCX is told which ports are near"
    yield "the ports near each rank's GPU", near_ports
    yield "the user's choice counts", users_choice


def on_dgx(env):
    """Two ranks that believe to sit on the machine, the third and the sixth GPU visible."""
    with tempfile.NamedTemporaryFile("w", suffix=".xml", prefix="gpuar-") as file:
        file.write(mpi.succeed(mpi.run([MACHINE_XML, "dgx_like"], timeout=20)).output)
        file.flush()
        settings = ["-x", f"HWLOC_XMLFILE={file.name}", "-x", "CUDA_VISIBLE_DEVICES=2,5"]
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

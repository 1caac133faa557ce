"""gpuar_info: what it says of a job, and each of its warnings, provoked."""

import json
import os
import re
import socket
import tempfile
from functools import partial

import cluster as clusters
from lanes import BUILD, Skip, cluster, lane, mpi, on_device, require

INFO = BUILD / "bench" / "gpuar_info"
MACHINE_XML = BUILD / "test" / "topo" / "machine_xml"
ON_ONE_HOST = {"UCX_TLS": "sysv,cma,tcp,self"}


def lanes():
    return {"info": info}


@lane()
def info():
    "gpuar_info: place, devices, transports, choices with their reasons; every warning is provoked"
    yield "a job of 4 ranks, for programs", as_json
    yield "a job of 4 ranks, for people", as_text
    yield "alone", alone
    yield "between hosts", between_hosts
    yield "a bound job on this machine has no warnings", no_warnings
    for name, wanted, arguments in (
        ("TCP beside an active port", "tcp_beside_rdma", {"env": {"UCX_TLS": "tcp,self"}, "mca": {"coll_gpuar_mailbox_size": 0}}),
        ("no GPUDirect module", "no_gpudirect", {}),
        ("a UCX that does not carry device memory", "ucx_without_cuda", {}),
        ("one port for all", "one_port_for_all", {"env": {"UCX_NET_DEVICES": "hca0:1,lo"}}),
        ("another pml beside an active port", "pml", {"mca": {"pml": "ob1"}}),
    ):
        yield name, partial(on_described_machine, wanted, arguments)
    yield "another UCX than gpuar was built for", another_ucx
    yield "ranks that are not bound", unbound
    yield "more ranks than hardware threads", oversubscribed
    yield "gpuar declines", declined
    yield "without gpuar", without


def run(np, *operands, component="gpuar", **arguments):
    # The process counters at the end are not part of what it prints.
    mca = {"coll_gpuar_counters": None} | arguments.pop("mca", {})
    argv = [INFO, *operands]
    return mpi.mpirun(np, argv, component, mca=mca, timeout=60, **arguments)


def job(np, **arguments):
    result = mpi.succeed(run(np, "--json", **arguments), "gpuar_info")
    # gpuar's own lines go to standard error, which the runner puts together with the output
    text = result.output[result.output.index("\n{\n") if not result.output.startswith("{") else 0 :]
    return json.JSONDecoder().raw_decode(text.lstrip())[0], result


def warned(found):
    return {warning["id"]: warning for warning in found["warnings"]}


def as_json():
    found, _ = job(4, env=ON_ONE_HOST)
    require(found["served"] and found["pml"], f"{found}")
    require(found["hosts"][0]["name"] == socket.gethostname(), f"{found['hosts']}")
    require(found["hosts"][0]["ranks"] == [0, 1, 2, 3], f"{found['hosts']}")
    for process in found["processes"]:
        for peer, transports in enumerate(process["peers"]):
            want = "" if peer == process["rank"] else "sysv/memory"
            require(transports.startswith(want), f"rank {process['rank']} to {peer}: {transports}")
        require("tcp/lo" in process["ucx"]["transports"], f"{process['ucx']}")
        require(process["ucx"]["memory"] == ["host"], f"{process['ucx']}")
    small, large = found["choices"][0], found["choices"][-1]
    require(small["bytes"] == 8 and large["bytes"] == 64 << 20, f"{found['choices']}")
    for choice in found["choices"]:
        require(choice["algorithm"] and "least predicted time" in choice["why"], f"{choice}")
    found, _ = job(2, mca={"coll_gpuar_algorithm": "tree", "coll_gpuar_segment_size": 8192})
    for choice in found["choices"]:
        require("asked for" in choice["why"] and choice["algorithm"] == "tree", f"{choice}")
    require(found["choices"][-1]["segment_bytes"] == 8192, f"{found['choices'][-1]}")


def as_text():
    result = mpi.succeed(run(4, mca={"coll_gpuar_test_node_size": 2}), "gpuar_info")
    host = socket.gethostname()
    for words in (
        "in Open MPI v",
        "4 ranks on 1 host",
        f"+- {host}: {os.cpu_count()} hardware threads ",
        "messages go by\n  in a host ",
        "64 MiB  ",
        "otherwise",
    ):
        require(words in result.output, f"no \"{words}\"\n{result.output}")
    ways = map(int, re.findall(r"^  in a host .*: (\d+) ways, such as", result.output, re.M))
    require(sum(ways) == 12, f"not 12 ways in all\n{result.output}")


def alone():
    mca = {"OMPI_MCA_coll": "gpuar"}
    answer = mpi.succeed(mpi.run([INFO], timeout=60, env=mpi.environment("gpuar") | mca), "alone")
    require("1 rank on 1 host" in answer.output, answer.output)


def between_hosts():
    with cluster.made([2, 1]) as built:
        settings = built.mpirun()
        settings["mca"]["coll_gpuar_counters"] = None
        result = mpi.mpirun(3, [INFO, "--json"], timeout=60, **settings)
        found = json.JSONDecoder().raw_decode(result.output[result.output.index("{\n") :])[0]
        text = mpi.mpirun(3, [INFO], timeout=60, **settings).output
    require([host["name"] for host in found["hosts"]] == built.names, f"{found['hosts']}")
    require(found["processes"][0]["peers"][2].startswith("tcp/eth0"), f"{found['processes'][0]}")
    require("tcp" not in found["processes"][0]["peers"][1], f"{found['processes'][0]}")
    for words in ("3 ranks on 2 hosts", "between hosts  tcp/eth0: 4 ways, such as 0 to 2"):
        require(words in text, f"no \"{words}\"\n{text}")


def no_warnings():
    found, result = job(2, options=["--bind-to", "core"])
    require(not found["warnings"], f"{found['warnings']}")
    text = mpi.succeed(run(2, options=["--bind-to", "core"]), "gpuar_info").output
    require("no warnings" in text, text)


def has_what_it_takes(wanted, found):
    """Where the machine that runs the test really has what a warning finds missing."""
    process = found["processes"][0]
    if wanted == "no_gpudirect" and process["gpudirect"]:
        raise Skip("this machine has the module of GPUDirect")
    if wanted == "ucx_without_cuda" and "device" in process["ucx"]["memory"]:
        raise Skip("this UCX carries device memory")


def another_ucx():
    libraries, why = on_device.cuda_aware_ucx()
    if not libraries or mpi.build_option("ucx"):
        raise Skip(why or "this build has a UCX of its own choice")
    found, _ = job(2, options=["-x", f"LD_LIBRARY_PATH={libraries}"])
    require("other_ucx" in warned(found), f"{found['warnings']}")
    told = warned(found)["other_ucx"]
    require("gpuar was built for UCX" in told["what"], f"{told}")


def on_described_machine(wanted, arguments):
    """Two ranks that believe to sit on a machine with 8 GPUs and 8 ports that are up."""
    with tempfile.NamedTemporaryFile("w", suffix=".xml", prefix="gpuar-") as file:
        file.write(mpi.succeed(mpi.run([MACHINE_XML, "dgx_like"], timeout=20)).output)
        file.flush()
        options = ["-x", f"HWLOC_XMLFILE={file.name}", "-x", "UCX_WARN_UNUSED_ENV_VARS=n"]
        found, result = job(2, options=options, **arguments)
        has_what_it_takes(wanted, found)
        said = warned(found)
        require(wanted in said, f"not warned of {wanted}, but of {list(said)}\n{result.tail()}")
        require(len(said[wanted]["try"]) > 10, f"no remedy: {said[wanted]}")
        text = mpi.succeed(run(2, options=options, **arguments), "gpuar_info").output
    require(f"warning: {said[wanted]['what']}" in text, f"not in the text\n{text}")
    require("GPU 0000:" in text and "InfiniBand hca0:1" in text, f"no devices\n{text}")
    if wanted == "no_gpudirect":  # the other way round: without cause there is no such warning
        found, _ = job(2, options=["--bind-to", "core"])
        require(not warned(found), f"warned here, too: {found['warnings']}")


def unbound():
    found, _ = job(2, options=["--bind-to", "none"])
    require("not_bound" in warned(found), f"{found['warnings']}")
    require("ranks 0, 1 of" in warned(found)["not_bound"]["what"], f"{found['warnings']}")


def oversubscribed():
    np = os.cpu_count() + 1
    found, _ = job(np)
    said = warned(found)
    require("oversubscribed" in said and "not yield" not in said["oversubscribed"]["what"], f"{said}")
    found, _ = job(np, mca={"mpi_yield_when_idle": 0})
    said = warned(found)
    require("mpi_yield_when_idle 1" in said["oversubscribed"]["try"], f"{said}")


def declined():
    found, result = job(2, mca={"coll_gpuar_test_fault": "decline"})
    require(not found["served"] and "not_served" in warned(found), f"{found['warnings']}")
    require("does not serve communicator" in result.output, result.tail())


def without():
    result = run(2, component="stock", mca={"coll_gpuar_counters": None})
    require(result.status != 0 and "select it by mpirun --mca coll gpuar" in result.output, result.tail())

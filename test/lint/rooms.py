"""Checks who includes what: the walls between the rooms.

    rooms.py check FILE…     lists every breach
    rooms.py --self-test     shows each rule a breach and asserts that it is caught
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')

# What only one room may include, and what that is called.
OWNED = [
    ("coll_gpuar/component/", re.compile(r"^(mpi\.h|mpi-ext\.h|ompi|opal|orte|pmix)"), "Open MPI"),
    ("ucx_bridge/", re.compile(r"^(ucp|uct|ucs|ucm)/"), "UCX"),
    ("cuda_reduce/", re.compile(r"^(cuda(\.h|_runtime|_fp|_bf|Typedefs|/)|cub/|nvml|nvtx)"), "CUDA"),
    ("topo/", re.compile(r"^hwloc"), "hwloc"),
]
ROOM = re.compile(
    r"^(coll_gpuar/(?:component|algorithms|schedule|engine|selection|agreement|report|check)"
    r"|coll_gpuar|ucx_bridge|cuda_reduce|topo|test|bench)/"
)
# What the rooms may include of each other, besides themselves. The core's own files
# (coll_gpuar/*.cpp) put the rooms together and may include all but the component.
SHARED = {"coll_gpuar/status.h", "cuda_reduce/types.h"}
MAY_INCLUDE = {
    "coll_gpuar/algorithms": ("coll_gpuar/schedule/",),
    "coll_gpuar/schedule": (),
    "coll_gpuar/engine": (
        "coll_gpuar/schedule/",
        "coll_gpuar/report/",
        "ucx_bridge/transport.h",
        "ucx_bridge/staging.h",
        "cuda_reduce/reduce.h",
        "cuda_reduce/memory.h",
        "cuda_reduce/gpu.h",
        "cuda_reduce/host_room.h",
    ),
    "coll_gpuar/selection": ("coll_gpuar/schedule/", "coll_gpuar/algorithms/", "topo/"),
    "coll_gpuar/agreement": ("topo/",),
    "coll_gpuar/report": ("coll_gpuar/schedule/",),
    "coll_gpuar/check": ("coll_gpuar/schedule/",),
    "coll_gpuar/component": ("coll_gpuar/core.h",),
    "ucx_bridge": ("cuda_reduce/memory.h", "cuda_reduce/gpu.h", "cuda_reduce/host_room.h"),
    "cuda_reduce": (),
    "topo": (),
}


def room_of(path):
    match = ROOM.match(path)
    return match.group(1) if match else None


def breach(file, included):
    """Why `file` may not include `included`; None if it may."""
    room = room_of(file)
    if room in ("test", "bench"):
        return None
    for owner, headers, name in OWNED:
        if headers.match(included) and not file.startswith(owner):
            return f"only {owner} may include {name}"
    target = room_of(included)
    if target is None or target == room or included in SHARED:
        return None
    if target in ("test", "bench"):
        return "no product code may include tests or tools"
    if room == "coll_gpuar":
        return "only Open MPI calls the component" if target == "coll_gpuar/component" else None
    if included.startswith(MAY_INCLUDE[room]):
        return None
    return f"{room} may include {', '.join(MAY_INCLUDE[room]) or 'no other room'}"


def check(files):
    found = 0
    for file in files:
        path = str(Path(file).resolve().relative_to(ROOT))
        for number, line in enumerate(Path(file).read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            why = breach(path, match.group(1)) if match else None
            if why:
                print(f"{path}:{number}: includes {match.group(1)}: {why}")
                found += 1
    return found


def self_test():
    """The number of rules that let a breach pass, or refuse what is allowed."""
    breaches = [
        ("coll_gpuar/core.cpp", "mpi.h"),
        ("ucx_bridge/ucx_transport.cpp", "ompi/op/op.h"),
        ("coll_gpuar/engine/engine.h", "ucp/api/ucp.h"),
        ("coll_gpuar/engine/engine.h", "ucx_bridge/ucx_transport.h"),
        ("ucx_bridge/ucx_transport.h", "cuda.h"),
        ("coll_gpuar/component/module.c", "hwloc.h"),
        ("coll_gpuar/component/module.c", "coll_gpuar/engine/engine.h"),
        ("coll_gpuar/algorithms/ring.cpp", "topo/layout.h"),
        ("coll_gpuar/schedule/builder.cpp", "coll_gpuar/algorithms/view.h"),
        ("coll_gpuar/core.cpp", "coll_gpuar/component/coll_gpuar.h"),
        ("topo/layout.cpp", "coll_gpuar/schedule/schedule.h"),
        ("cuda_reduce/host_reduce.cpp", "topo/layout.h"),
        ("topo/place.cpp", "test/catch.h"),
    ]
    allowed = [
        ("coll_gpuar/component/module.c", "mpi.h"),
        ("ucx_bridge/ucx_transport.cpp", "ucp/api/ucp.h"),
        ("topo/place.cpp", "hwloc.h"),
        ("coll_gpuar/algorithms/ring.cpp", "coll_gpuar/schedule/sink.h"),
        ("coll_gpuar/core.cpp", "ucx_bridge/ucx_transport.h"),
        ("coll_gpuar/engine/run.h", "coll_gpuar/status.h"),
        ("bench/served.h", "mpi.h"),
    ]
    missed = [f"not caught: {file} includes {header}" for file, header in breaches
              if not breach(file, header)]
    refused = [f"refused: {file} includes {header}" for file, header in allowed
               if breach(file, header)]
    print("\n".join(missed + refused))
    return len(missed + refused)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments == ["--self-test"]:
        sys.exit(bool(self_test()))
    if len(arguments) > 1 and arguments[0] == "check":
        sys.exit(bool(check(arguments[1:])))
    sys.exit(__doc__)

"""What the component shows to, and wants from, the process that loads it."""

import shutil

from lanes import BUILD, Skip, lane, mpi, require

COMPONENT = BUILD / "mca_coll_gpuar.so"


def lanes():
    return {"symbols": symbols}


@lane()
def symbols():
    "the component exports one symbol, needs no CUDA and no C++ library, and stays loaded"
    for name in ("nm", "readelf"):
        if not shutil.which(name):
            raise Skip(f"{name} is not installed (package binutils)")
    yield "exports", exports
    yield "needed libraries", needed_libraries
    yield "never unloaded", never_unloaded


def output(*argv):
    return mpi.succeed(mpi.run(argv, timeout=60), argv[0]).output


def exports():
    lines = output("nm", "-D", "--defined-only", COMPONENT).splitlines()
    names = [line.split()[-1] for line in lines]
    require(names == ["mca_coll_gpuar_component"], f"exports {names}")


def needed_libraries():
    dynamic = output("readelf", "-d", COMPONENT)
    needed = [line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "(NEEDED)" in line]
    for name in ("libcuda", "libcudart", "libstdc++", "libgcc_s"):
        require(not any(library.startswith(name) for library in needed), f"needs {needed}")
    major = mpi.tool("ompi_info") and output(mpi.tool("ompi_info"), "--version").split("v")[1]
    library = "libmpi." if int(major.split(".")[0]) < 6 else "libopen_mpi."
    require(any(name.startswith(library) for name in needed), f"does not need {library}so: {needed}")


def never_unloaded():
    dynamic = output("readelf", "-d", COMPONENT)
    require("NODELETE" in dynamic, "lacks -z nodelete: UCX's hooks would call into a hole")

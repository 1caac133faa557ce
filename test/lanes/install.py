"""Installing and removing, without touching the system."""

import re
import tempfile
from pathlib import Path

from lanes import BUILD, ROOT, lane, mpi, on_device, parameters, require

TOOLS = ("gpuar_bench", "gpuar_info", "gpuar_sim", "gpuar_tune")  # that are compiled
SCRIPTS = ("gpuar_trace",)
OWN_BUILD = BUILD / "for-install"  # without kernels; kept, so that the second time is quick


def lanes():
    return {"install": install}


@lane()
def install():
    "meson install and uninstall; Open MPI sees the component and its parameters"
    yield "component_dir", component_dir
    yield "built without the CUDA toolkit: device memory is right, and carried by the host", no_kernels
    yield "DESTDIR", destdir
    yield "a component built for another Open MPI", foreign
    yield "ompi_info: every parameter has unit and default", parameters.have_help
    yield "docs/parameters.md is that of ompi_info", parameters.are_documented


def succeed(*argv, env=None):
    return mpi.succeed(mpi.run(argv, timeout=900, env=env), " ".join(map(str, argv)))


def files(folder):
    return sorted(path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())


def component_dir():
    """A build that installs to a user's own folder, from which Open MPI then loads it."""
    prefix, components = OWN_BUILD / "prefix", OWN_BUILD / "components"
    options = [f"-Dprefix={prefix}", f"-Dcomponent_dir={components}"]
    options += ["-Doptimization=0", "-Ddebug=false", "-Dcuda=disabled"]
    options += [f"-D{name}={mpi.build_option(name)}" for name in ("openmpi", "openmpi_source", "ucx")]
    if (OWN_BUILD / "build.ninja").exists():
        succeed("meson", "configure", OWN_BUILD, *options)
    else:
        succeed("meson", "setup", OWN_BUILD, ROOT, *options)
    succeed("ninja", "-C", OWN_BUILD, "mca_coll_gpuar.so", *(f"bench/{tool}" for tool in TOOLS))
    succeed("meson", "install", "-C", OWN_BUILD, "--no-rebuild")
    require(files(components) == [components / "mca_coll_gpuar.so"], f"has {files(components)}")
    header_alone(prefix / "include")
    modules = [path for path in files(prefix / "share" / "modulefiles") if path.parent.name == "gpuar"]
    require(len(modules) == 2, f"not a module file for each of two systems: {modules}")
    for module in modules:
        wanted = f"{components}:{mpi.stock_component_dir()}"
        require(wanted in module.read_text(), f"{module} does not name {wanted}")
    bench = prefix / "bin" / "gpuar_bench"
    argv = [bench, "--sizes", "8,64K", "--iterations", 3]
    env = {"OMPI_MCA_mca_base_component_path": f"{components}:{mpi.stock_component_dir()}"}
    mpi.served(2, argv, env=env)
    succeed("ninja", "-C", OWN_BUILD, "uninstall")
    require(not files(components) and not files(prefix), "uninstall left files behind")


def no_kernels():
    """With a driver and a device all the same: the memory is recognised, and said to be carried."""
    machine = on_device.staged()
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "mca_coll_gpuar.so").symlink_to(OWN_BUILD / "mca_coll_gpuar.so")
        env = {"OMPI_MCA_mca_base_component_path": f"{name}:{mpi.stock_component_dir()}"}
        mca = {"coll_gpuar_verbose": 1}
        result = machine.run(2, "mix", ["rounds=2"], env=env, mca=mca)
    require("this build has no kernels" in result.output, f"it does not say so\n{result.tail()}")
    for rank, count in mpi.counters(result.output).items():
        require(count["through_host"] == count["device_calls"], f"rank {rank}: {count}")
        require(count["launches"] == 0, f"rank {rank}: {count}")


def header_alone(folder):
    """gpuar.h compiles strictly as C and as C++, wherever it was installed, with nothing beside it."""
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "program.c"
        source.write_text(
            '#include "gpuar.h"\n'
            "int main(void) { MPI_Op op; MPI_Datatype type;\n"
            "  return gpuar_op(GPUAR_AVERAGE, &op) + gpuar_type(GPUAR_BF16, &type); }\n"
        )
        strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{folder}", "-c", source]
        strict += ["-o", Path(name) / "program.o"]
        succeed(mpi.tool("mpicc"), "-std=c99", *strict)
        succeed(mpi.tool("mpicxx"), "-x", "c++", "-std=c++11", "-DOMPI_SKIP_MPICXX", *strict)


def foreign():
    """In a folder that several Open MPI builds search: one line says so, and stock goes on."""
    image = (BUILD / "mca_coll_gpuar.so").read_bytes()
    built_for = re.findall(rb"Open MPI v\d\.\d\.\0", image)
    require(len(built_for) == 1, f"the component says that it was built for {built_for}")
    with tempfile.TemporaryDirectory() as name:
        other = Path(name) / "mca_coll_gpuar.so"
        other.write_bytes(image.replace(built_for[0], b"Open MPI v9.9.\0"))
        env = {"OMPI_MCA_mca_base_component_path": f"{name}:{mpi.stock_component_dir()}"}
        argv = [BUILD / "bench" / "gpuar_bench", "--sizes", "8,64K", "--iterations", 3]
        result = mpi.mpirun(2, argv, mca={"coll": None, "coll_gpuar_counters": None}, env=env)
    mpi.succeed(result)
    lines = [line for line in result.output.splitlines() if line.startswith("gpuar: ")]
    require(len(lines) == 1 and "built for Open MPI v9.9.x" in lines[0], f"it said {lines}")
    require("  other\n" in result.output and "  gpuar\n" not in result.output, result.tail())


def destdir():
    """The way of packages: the tree that would be installed, under another root."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        succeed("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", folder)
        found = [path.relative_to(folder) for path in files(folder)]
    wanted = Path(mpi.stock_component_dir().lstrip("/")) / "mca_coll_gpuar.so"
    if mpi.build_option("component_dir") == "":
        require(wanted in found, f"the component is not at {wanted}: {found}")
    require(any(path.name == "gpuar.h" for path in found), f"no gpuar.h in {found}")
    for tool in TOOLS + SCRIPTS:
        require(any(path.name == tool for path in found), f"no {tool} in {found}")

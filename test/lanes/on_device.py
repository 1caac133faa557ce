"""Runs MPI programs on device memory: the simulated CUDA driver (test/simgpu), the library that moves
a program's buffers there (test/mpi/on_device), and a UCX with or without CUDA."""

import re
from dataclasses import dataclass
from functools import cache

from lanes import BUILD, Skip, mpi, require, toolkit, wheels

PROGRAMS = BUILD / "test" / "mpi"
MOVER = PROGRAMS / "libon_device.so"
SIMULATOR = BUILD / "test" / "simgpu"
DRIVER = SIMULATOR / "driver"
KERNELS = BUILD / "test" / "cuda_reduce" / "device" / "libgpuar_simkernels.so"
WHEEL = "libucx-cu13==1.22.0"

MOVED = re.compile(r"on_device: rank (\d+): calls=(.*)")
UCX = re.compile(r"gpuar: UCX (\S+) \((\S+)\) carries (.*)")
GPU = re.compile(r"gpuar: device memory of .*\((GPU-\S+),")
# Kinds of memory that gpuar takes for the device's.
ON_DEVICE = ("device", "managed", "pool")

# Quick and strict: work is done in the call that posts it, and gpuar must not misuse the driver nor
# leave anything behind.
INLINE = {"SIMGPU_INLINE": 1, "SIMGPU_POISON": 4096, "SIMGPU_STRICT": "mca_coll_gpuar"}
# Work ends late, at times that the seed gives.
DELAYED = {"SIMGPU_INLINE": 0, "SIMGPU_DELAY_US": 300}


@dataclass(frozen=True)
class Machine:
    """What the loader finds: a driver, and perhaps another UCX than the build's."""

    name: str
    libraries: tuple  # folders, searched first
    carries: str  # what UCX must say that it carries

    def environment(self, memory, gpu):
        values = {"GPUAR_TEST_MEMORY": memory} if memory else {}
        values |= {"LD_LIBRARY_PATH": ":".join(str(folder) for folder in self.libraries)}
        values |= {"LD_PRELOAD": MOVER} if memory else {}
        return values | {"SIMGPU_KERNELS": KERNELS} | INLINE | (gpu or {})

    def launch(self, np, argv, *, memory, limit=0, gpu=None, mca=None, **arguments):
        """Runs it, whatever its end. `memory` is GPUAR_TEST_MEMORY's (see settings.h), None for a
        program that has device memory of its own; `limit` is coll_gpuar_device_limit, in bytes,
        None for the default; `gpu` are settings of the simulator."""
        options = []
        for name, value in self.environment(memory, gpu).items():
            options += ["-x", f"{name}={value}"]
        mca = {"mpi_yield_when_idle": 1, "coll_gpuar_device_limit": limit} | (mca or {})
        return mpi.mpirun(np, argv, mca=mca, options=options, **arguments)

    def run(self, np, program, operands=(), *, memory="device", **arguments):
        """Runs a program of test/mpi on device memory. It must end well, its calls must have been
        moved, and gpuar must have served them as calls on device memory."""
        argv = [PROGRAMS / program, *operands]
        result = mpi.succeed(self.launch(np, argv, memory=memory, **arguments), program)
        self.check(np, result, memory)
        return result

    def check(self, np, result, memory):
        """Every rank was served, and gpuar saw device memory exactly where there was some."""
        moved = moved_calls(result.output) if memory else {}
        for rank, count in sorted(mpi.check_served(np, result).items()):
            if memory and memory != "host":
                require(rank in moved, f"rank {rank} says not what it moved\n{result.tail()}")
            expected = not memory or any(moved[rank][kind] for kind in ON_DEVICE)
            # Elements with gaps are packed from the device: copies, but no call on device memory.
            seen = count["device_calls"] + count["copies"] > 0
            require(
                seen == expected,
                f"rank {rank}: device memory was {'' if expected else 'not '}used, and gpuar counted "
                f"{count['device_calls']} calls on it and {count['copies']} copies\n{result.tail()}",
            )


def moved_calls(output):
    """What each rank moved: {rank: {"calls": N, "device": N, …, "driver": "loaded"}}."""
    ranks = {}
    for rank, fields in MOVED.findall(output):
        pairs = (field.split("=") for field in f"calls={fields}".split())
        ranks[int(rank)] = {name: int(text) if text.isdigit() else text for name, text in pairs}
    return ranks


@cache
def lacks():
    """Why there is no simulated driver, or an empty string."""
    if not (DRIVER / "libcuda.so.1").exists():
        return toolkit.lacking(
            "there is no simulated CUDA driver: it needs x86-64 and cuda.h of CUDA 13"
        )
    if not KERNELS.exists():
        return "the reductions were not compiled for the simulated driver"
    return ""


def staged():
    """The UCX of the build, which has no CUDA where it is a distribution's."""
    if lacks():
        raise Skip(lacks())
    return Machine("staged", (DRIVER,), "host memory")


def cuda_aware_ucx():
    """The folder of a UCX with CUDA: PyPI's, fetched once into the build folder. None if it cannot
    be had, and why."""
    folder, why = wheels.fetch("libucx", WHEEL)
    return folder and folder / "libucx" / "lib", why


def direct():
    """A UCX that carries device memory itself."""
    if lacks():
        raise Skip(lacks())
    libraries, why = cuda_aware_ucx()
    if not libraries:
        raise Skip(why)
    return Machine("direct", (libraries, DRIVER, SIMULATOR / "nvml"), "CUDA memory")

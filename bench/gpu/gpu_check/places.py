"""Where programs come from, and how ranks are started: the bundle that bench/gpu/prepare made, or
this build with the machine's own Open MPI."""

import json
import os
import re
import shutil
from pathlib import Path

from lanes import BUILD, ROOT, Failure, Skip, mpi, on_device, require

BUNDLE = ROOT / "build-gpu-bundle"
MANIFEST = "bundle.json"
COMPONENT = "mca_coll_gpuar.so"
BENCH = "bench/gpuar_bench"
KERNEL_TIMES = "bench/gpu/kernel_times"
ON_DEVICE = "test/mpi/libon_device.so"
REDUCTIONS = "test/cuda_reduce/device/device_tests"
# What the bundle takes of the build: all that is there, and at least what is needed.
PACKED = (COMPONENT, BENCH, KERNEL_TIMES, ON_DEVICE, REDUCTIONS, "test/mpi/[a-z]*[a-z]")
NEEDED = (COMPONENT, BENCH, KERNEL_TIMES, ON_DEVICE, "test/mpi/buffers")

# Of the caller's environment, what ranks on other nodes need too.
FORWARDED = ("LD_LIBRARY_PATH", "UCX_", "SIMGPU_", "CUDA_")


class Place:
    """A way to run programs. `log` gets every command and the end of what it said."""

    def __init__(self, build, log):
        self.build = build
        self.log = log
        self.extra_mca = {}
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OMPI_", "PMIX_", "PMI_", "OPAL_"))
        }

    def program(self, name):
        path = self.build / name
        if not path.exists():
            raise Skip(f"{name} is not there: this build lacks it")
        return path

    def library_path(self, *folders):
        """Puts folders before those where the loader looks first."""
        known = self.environment.get("LD_LIBRARY_PATH", "")
        words = [*map(str, folders), *filter(None, [known])]
        self.environment["LD_LIBRARY_PATH"] = ":".join(words)

    def use_simulator(self, devices):
        require(not on_device.lacks(), on_device.lacks())
        self.library_path(on_device.DRIVER, on_device.SIMULATOR / "nvml")
        settings = {"SIMGPU_DEVICES": devices, "SIMGPU_KERNELS": on_device.KERNELS}
        settings |= {"SIMGPU_INLINE": 1, "SIMGPU_POISON": 4096}
        self.environment |= {name: str(value) for name, value in settings.items()}

    def run(self, argv, timeout):
        """One process, no MPI."""
        result = mpi.run(argv, timeout=timeout, env=self.environment)
        self.note(argv, result)
        return result

    def ranks(self, count, argv, side, timeout, env=None, mca=None):
        """Runs a program on `count` ranks, with gpuar ("gpuar") or without ("stock"). Settings
        travel in front of the program, which every launcher and every Open MPI understands."""
        parameters = {"coll": "^gpuar"}
        if side == "gpuar":
            parameters = {"coll": "gpuar", "coll_gpuar_counters": 1}
            parameters["mca_base_component_path"] = self.component_path()
        parameters |= (mca or {}) | (self.extra_mca if side == "gpuar" else {})
        settings = {f"OMPI_MCA_{name}": value for name, value in parameters.items()} | (env or {})
        settings = [f"{name}={value}" for name, value in settings.items()]
        return self.run([*self.launch(count), "env", *settings, *argv], timeout)

    def note(self, argv, result):
        words = " ".join(map(str, argv))
        self.log.write(f"$ {words}\nstatus {result.status}, {result.seconds:.1f} s\n")
        self.log.write(result.tail(200) + "\n\n")
        self.log.flush()


def local_mpirun(mpirun, count):
    words = [mpirun, "-n", count, "--oversubscribe", "--bind-to", "none"]
    if os.geteuid() == 0:
        words.append("--allow-run-as-root")
    if count > len(os.sched_getaffinity(0)):
        words += ["--mca", "mpi_yield_when_idle", 1]
    return words


class Bundle(Place):
    """All from one folder, for a machine without an Open MPI."""

    def __init__(self, folder, log):
        super().__init__(folder / "build", log)
        require(
            (folder / MANIFEST).exists(),
            f"{folder} is no bundle: make one with bench/gpu/prepare where gpuar was built",
        )
        self.folder = folder
        self.manifest = json.loads((folder / MANIFEST).read_text())
        openmpi = folder / "openmpi"
        self.environment |= {
            "OPAL_PREFIX": str(openmpi),
            "OPAL_BINDIR": str(openmpi / "bin"),
            "OPAL_LIBDIR": str(folder / "lib"),
            "OPAL_PKGLIBDIR": str(openmpi / "components"),
            "OPAL_DATADIR": str(openmpi / "share"),
            "OPAL_PKGDATADIR": str(openmpi / "share" / "openmpi"),
            "OPAL_SYSCONFDIR": str(openmpi / "etc"),
            "PMIX_INSTALL_PREFIX": str(openmpi),
            "PMIX_MCA_pcompress_base_silence_warning": "1",
            "OMPI_MCA_plm": "isolated",
            "OMPI_MCA_pml": "ob1",
            "OMPI_MCA_btl": "self,vader",
        }
        self.library_path(folder / "ucx" / "libucx" / "lib", folder / "lib")
        if self.run([self.program(BENCH), "--help"], timeout=60).status:
            # No C++ library here, or too old a one. Otherwise other programs may need the newer.
            self.library_path(folder / "compiler")

    def describe(self):
        return f"bundle of {self.manifest['commit']}: {self.manifest['openmpi']}, {self.manifest['ucx']}"

    def component_path(self):
        return f"{self.components_only()}:{self.folder / 'openmpi' / 'components'}"

    def components_only(self):
        """A folder with the component and nothing else, as Open MPI wants it."""
        folder = self.build / "components"
        folder.mkdir(exist_ok=True)
        link = folder / COMPONENT
        if not link.is_symlink():
            link.symlink_to(f"../{COMPONENT}")
        return folder

    def launch(self, count):
        return local_mpirun(self.folder / "openmpi" / "bin" / "mpirun", count)


class BuildTree(Place):
    """This build with the Open MPI that it was built for, on this machine alone."""

    def __init__(self, log):
        super().__init__(BUILD, log)
        require(
            (BUILD / "components" / COMPONENT).exists(),
            "gpuar is not built here: bench/run or test/run builds it",
        )

    def describe(self):
        return mpi.run([mpi.tool("ompi_info"), "--version"], timeout=60).output.splitlines()[0]

    def component_path(self):
        return f"{BUILD / 'components'}:{mpi.stock_component_dir()}"

    def launch(self, count):
        return local_mpirun(mpi.tool("mpirun"), count)


class Site(BuildTree):
    """This build with the site's own Open MPI and UCX, inside an allocation."""

    def __init__(self, log, launcher, per_node):
        super().__init__(log)
        self.per_node = per_node
        self.launcher = launcher or ("srun" if self.only_srun() else "mpirun")

    @staticmethod
    def only_srun():
        return "SLURM_JOB_ID" in os.environ and shutil.which("srun") and not shutil.which("mpirun")

    def launch(self, count):
        per_node = min(count, self.per_node)
        if self.launcher == "srun":
            return ["srun", "--mpi=pmix", "-n", count, f"--ntasks-per-node={per_node}"]
        words = local_mpirun(mpi.tool("mpirun"), count)
        words += ["--map-by", f"ppr:{per_node}:node"]
        for name in self.environment:
            if name.startswith(FORWARDED):
                words += ["-x", name]
        return words


ASK = (
    "import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); n = ctypes.c_int(); "
    "assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(n)) == 0; "
    "print('GPUs:', n.value)"
)


def gpus_here(place, launch=()):
    """How many GPUs a process sees; the fewest, if a launcher starts several. Asked in processes of
    their own: this one stays without CUDA."""
    answer = place.run([*launch, "python3", "-c", ASK], timeout=60)
    found = [int(number) for number in re.findall(r"GPUs: (\d+)", answer.output)]
    if answer.status or not found:
        raise Failure(f"no CUDA driver that works here\n{answer.tail(3)}")
    return min(found)

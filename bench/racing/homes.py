"""Where MPIs live: what starts their jobs."""

import os
import re
import time

from lanes import BUILD, mpi
from racing import roots
from racing.job import Job, Out

RACERS = BUILD / "bench" / "racing"
WORDS_SECONDS = 3  # until what a rank has printed has come through
CORES = len(os.sched_getaffinity(0))


def racer(program, matrix, socket):
    return [program, socket, *(["pinned"] if matrix.pinned else [])]


def chosen(job, component):
    """The job, if this component of coll serves MPI_COMM_WORLD there; Open MPI says so, later than
    the ranks do."""
    chooses = re.compile(rf"selecting +{component}, priority")
    deadline = time.monotonic() + WORDS_SECONDS
    while component and not chooses.search(printed := job.printed()):
        if time.monotonic() > deadline:
            job.end()
            why = re.findall(rf"coll:{component}:comm_query \(.*MPI_COMM_WORLD\): (.*)", printed)
            raise Out(f"Open MPI does not choose it: {why[-1] if why else 'it declines'}")
        time.sleep(0.05)
    return job


def verbose(setting):
    return {"coll_base_verbose": 10} if setting.component else {}


def crowded(matrix):
    """Open MPI is told when ranks have to share cores."""
    return {"mpi_yield_when_idle": 1} if matrix.ranks > CORES else {}


class NativeOpenMPI:
    """The Open MPI that gpuar was built for, on this machine or on a cluster that is made on it."""

    def __init__(self, cluster=None):
        self.cluster = cluster

    def job(self, name, setting, matrix, folder):
        def start(socket):
            return self._start(setting, matrix, socket)

        return chosen(Job(name, matrix.ranks, start, folder), setting.component)

    def _start(self, setting, matrix, socket):
        where = self.cluster.mpirun() if self.cluster else {"options": ["--bind-to", "none"]}
        words = [
            *where.get("prefix", []),
            mpi.tool("mpirun"),
            "-n",
            matrix.ranks,
            "--oversubscribe",
        ]
        words += ["--allow-run-as-root"] if os.geteuid() == 0 else []
        for name, value in (
            crowded(matrix) | verbose(setting) | where.get("mca", {}) | setting.mca
        ).items():
            words += ["--mca", name, value]
        words += [*where["options"], *racer(RACERS / "race_racer", matrix, socket)]
        component = "gpuar" if setting.mca.get("coll") == "gpuar" else "stock"
        return words, mpi.environment(component) | setting.env


class Copies:
    """Stands for an allreduce that does nothing but copy what must move: 2 (P - 1) / P of the
    vector to each of P ranks, all cores copying at once."""

    mpi = "memory copies"

    def __init__(self, probe):
        self.probe = probe

    def job(self, _name, _setting, matrix, _folder):
        self.ranks = matrix.ranks
        return self

    def ask(self, _form, _type, _op, size, _seconds, _warmup):
        at_once = min(self.ranks, CORES)
        us = 2 * (self.ranks - 1) * size / at_once / self.probe.copy_rate(size) * 1e-3
        return {"min_us": us, "median_us": us, "preempted": 0, "gpuar": False}

    def end(self):
        pass


class InRoot:
    """An MPI in the root folder of another release."""

    def __init__(self, root, name, libraries):
        self.root = root
        self.program = roots.racer(root, name, libraries).name

    def job(self, name, setting, matrix, folder):
        bound = [(folder, "/race"), (RACERS, "/racers")]

        def start(socket):
            words = [
                *self.launcher(setting, matrix),
                *racer(f"/racers/{self.program}", matrix, socket),
            ]
            return self.root.enter(words, bound), self.environment(setting)

        return chosen(Job(name, matrix.ranks, start, folder, "/race"), setting.component)

    @staticmethod
    def environment(setting):
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {"PATH": path, "HOME": "/tmp", "LC_ALL": "C.UTF-8"} | setting.env


class RootOpenMPI(InRoot):
    def __init__(self, root):
        super().__init__(root, "openmpi", ["libmpi.so.40", "libopen_mpi.so.40"])
        listed = roots.said(root, "ompi_info", "--parsable")
        fields = [line.split(":") for line in listed.splitlines()]
        self.version = next(line[3] for line in fields if line[:3] == ["ompi", "version", "full"])
        self.components = {line[2] for line in fields if line[:2] == ["mca", "coll"]}

    @staticmethod
    def launcher(setting, matrix):
        words = ["mpirun.openmpi", "-n", matrix.ranks, "--map-by", ":OVERSUBSCRIBE"]
        words += ["--bind-to", "none", "--allow-run-as-root"]
        # Without tcp, which takes its time to find that there is no network.
        besides = {"btl": "self,sm"} | crowded(matrix) | verbose(setting)
        for name, value in (besides | setting.mca).items():
            words += ["--mca", name, value]
        return words


class RootMPICH(InRoot):
    def __init__(self, root):
        super().__init__(root, "mpich", ["libmpich.so.12"])
        self.version = roots.said(root, "mpichversion").split("Version:")[1].split()[0]

    @staticmethod
    def launcher(_setting, matrix):
        return ["mpiexec.mpich", "-launcher", "fork", "-n", matrix.ranks]

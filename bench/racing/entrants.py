"""Who takes part: gpuar, and every peer by default and at the settings that may suit it best.

A peer is a library that serves allreduce, a column of the table. Its best setting is the one that
is fastest at a size."""

from dataclasses import dataclass, field

from lanes import Skip
from racing import roots
from racing.homes import Copies, RootMPICH, RootOpenMPI
from racing.roots import MPICH, OPEN_MPI, UCC

FORMS = ("blocking", "nonblocking", "persistent")
BLOCKING, OTHERS = FORMS[:1], FORMS[1:]
DEFAULT = "default"
LARGE = 64 << 10  # from here on copies are what an allreduce takes
GPUAR = "gpuar"
AGAIN = "again"  # gpuar once more, at the end of a round: what differs is noise
BOUND = "bound"  # not an MPI: what the copies alone would take


@dataclass(frozen=True)
class Setting:
    name: str = DEFAULT
    mca: dict = field(default_factory=dict)  # Open MPI's parameters
    env: dict = field(default_factory=dict)
    component: str = ""  # of coll, that has to serve

    def __or__(self, other):
        name = ", ".join(name for name in (self.name, other.name) if name != DEFAULT) or DEFAULT
        component = self.component or other.component
        return Setting(name, self.mca | other.mca, self.env | other.env, component)


@dataclass(frozen=True)
class Entrant:
    peer: str
    setting: Setting
    home: object  # where its MPI lives: starts jobs
    forms: tuple = FORMS
    least: int = 0  # bytes

    @property
    def name(self):
        return f"{self.peer}: {self.setting.name}"

    @property
    def is_gpuar(self):
        return self.setting.mca.get("coll") == "gpuar"


# Memory that is freed stays with the process: temporaries made for each call fault no pages in.
KEPT = Setting(
    "kept memory",
    env={
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(8 << 30),
        "MALLOC_TOP_PAD_": str(64 << 20),
    },
)
PML_UCX = Setting(
    "pml ucx",
    {"pml": "ucx", "opal_common_ucx_tls": "any", "opal_common_ucx_devices": "any"},
)


def eager(btl):
    """Eager up to 32 KiB over Open MPI's shared memory; its name changed with version 5."""
    return Setting(
        "eager 32 KiB", {f"btl_{btl}_eager_limit": 32768 + 64, f"btl_{btl}_max_send_size": 65536}
    )


def tuned_algorithm(name, number):
    return Setting(
        name, {"coll_tuned_use_dynamic_rules": 1, "coll_tuned_allreduce_algorithm": number}
    )


def libnbc_algorithm(name):
    return Setting(name.replace("_", " "), {"coll_libnbc_iallreduce_algorithm": name})


def first(component, **more):
    """Gives a component of coll the first place."""
    return Setting(mca={f"coll_{component}_priority": 100} | more, component=component)


def tuned(btl):
    plain = Setting()
    return [
        plain,
        KEPT,
        eager(btl) | KEPT,
        PML_UCX,
        PML_UCX | KEPT,
        tuned_algorithm("recursive doubling", 3) | KEPT,
        tuned_algorithm("Rabenseifner", 6) | KEPT,
        PML_UCX | tuned_algorithm("Rabenseifner", 6) | KEPT,
    ]


def libnbc(btl):
    algorithms = [libnbc_algorithm(name) for name in ("recursive_doubling", "rabenseifner")]
    return [
        Setting(),
        KEPT,
        eager(btl) | KEPT,
        PML_UCX | KEPT,
        *(algorithm | KEPT for algorithm in algorithms),
    ]


def entrants(peer, home, forms, settings):
    return [Entrant(peer, setting, home, forms) for setting in settings]


def also(setting, *more):
    """The setting as it is, and with each of more."""
    return [setting, *(setting | other for other in more)]


def with_gpuar(home, peers):
    """All that run, in the order of a round."""
    chosen = Setting(mca={"coll": "gpuar"})
    return [Entrant(GPUAR, chosen, home), *peers, Entrant(AGAIN, chosen, home)]


def bound(probe):
    return Entrant(BOUND, Setting(), Copies(probe), BLOCKING, LARGE)


def native(home):
    """What the Open MPI of this machine has, version 4.1."""
    fragments = Setting("fragments of 128 KiB", {"coll_sm_fragment_size": 131072})
    return [
        *entrants("tuned 4.1", home, BLOCKING, tuned("vader")),
        *entrants("han 4.1", home, BLOCKING, also(first("han"), KEPT, PML_UCX | KEPT)),
        *entrants("sm 4.1", home, BLOCKING, also(first("sm"), KEPT, fragments | KEPT)),
        *entrants("libnbc 4.1", home, OTHERS, libnbc("vader")),
    ]


def on_cluster(home):
    """Open MPI 4.1 between hosts. Variables of the environment stay on the first of them."""
    return [
        *entrants("tuned 4.1", home, BLOCKING, [Setting(), PML_UCX]),
        *entrants("han 4.1", home, BLOCKING, also(first("han"), PML_UCX)),
        *entrants("libnbc 4.1", home, OTHERS, [Setting(), PML_UCX]),
    ]


def ucc():
    """coll/ucc, for which UCC itself has settings, too."""

    def algorithm(name):
        return Setting(name, env={"UCC_TL_UCP_TUNE": f"allreduce:0-inf:@{name}"})

    algorithms = (algorithm("knomial") | KEPT, algorithm("sra_knomial") | KEPT)
    return also(first("ucc", coll_ucc_enable=1), KEPT, *algorithms)


NO_SINGLE_COPY = Setting("no single copy", {"smsc": "^cma"})  # with CMA, xhc dies beyond 4 KiB

# Components that some versions have, with the forms that they serve.
MORE_COMPONENTS = {
    "han": (BLOCKING, also(first("han"), KEPT)),
    # It leaves communicators of fewer than 16 ranks to others, unless it is told.
    "acoll": (BLOCKING, also(first("acoll", coll_acoll_comm_size_thresh=2), KEPT)),
    "xhc": (BLOCKING, also(first("xhc"), KEPT, NO_SINGLE_COPY | KEPT)),
    "ucc": (FORMS[:2], ucc()),
}


def open_mpi(home):
    """What an Open MPI of version 5 or later has; a component that it lacks is named."""
    version = ".".join(home.version.split(".")[:2])
    found = entrants(f"tuned {version}", home, BLOCKING, tuned("sm"))
    found += entrants(f"libnbc {version}", home, OTHERS, libnbc("sm"))
    skipped = []
    for name, (forms, settings) in MORE_COMPONENTS.items():
        if name in home.components:
            found += entrants(f"{name} {version}", home, forms, settings)
        else:
            skipped.append((f"{name} {version}", f"Open MPI {home.version} as packaged lacks it"))
    return found, skipped


def mpich(home):
    def algorithm(name, variables):
        return Setting(name, env={f"MPIR_CVAR_{key}": value for key, value in variables.items()})

    settings = [
        Setting(),
        KEPT,
        algorithm("recursive doubling", {"ALLREDUCE_INTRA_ALGORITHM": "recursive_doubling"}) | KEPT,
        algorithm("Rabenseifner", {"ALLREDUCE_INTRA_ALGORITHM": "reduce_scatter_allgather"}) | KEPT,
        algorithm("release gather", {"ALLREDUCE_POSIX_INTRA_ALGORITHM": "release_gather"}) | KEPT,
    ]
    version = ".".join(home.version.split(".")[:2])
    return entrants(f"MPICH {version}", home, FORMS, settings)


def stable(log, make):
    """Debian 13: its MPIs, and what it lacks."""
    try:
        root = roots.root("trixie", OPEN_MPI + MPICH, log, make)
        found, skipped = open_mpi(RootOpenMPI(root))
        return found + mpich(RootMPICH(root)), skipped
    except Skip as why:
        return [], [("Debian 13: Open MPI 5.0, MPICH", str(why))]


def testing(log, make):
    """Debian testing, if it has another Open MPI than the stable release."""
    try:
        home = RootOpenMPI(roots.root("forky", OPEN_MPI + UCC, log, make))
        if home.version.startswith("5."):
            raise Skip(f"it still has {home.version}")
        return open_mpi(home)
    except Skip as why:
        return [], [("Debian testing: Open MPI 6.0 with acoll, xhc, UCC", str(why))]


def everyone(home, log, make):
    """All peers, and who cannot be one."""
    found, skipped = native(home), []
    for release in (stable, testing):
        more, lacking = release(log, make)
        found += more
        skipped += lacking
    return found, skipped

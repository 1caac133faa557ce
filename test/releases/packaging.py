"""test/packaging: what docs/packaging has is built, installed and used in roots of Debian 12."""

import shutil
import sys

import releases
from lanes import ROOT, require
from lanes.__main__ import Report

RELEASE = "bookworm"
PACKAGING = ROOT / "docs" / "packaging"
OWN = "/packaging"  # the tree's copy that the Debian package is built in
TOOLS = "build-essential debhelper help2man lintian"
MPIRUN = "mpirun -n 2 --oversubscribe --allow-run-as-root --mca mpi_yield_when_idle 1"
PROGRAM = f"{MPIRUN} --mca coll_gpuar_counters 1 gpuar_bench --sizes 8,64K --iterations 3"
# Both ranks say that they were served.
SERVED = f"test $({PROGRAM} 2>&1 | tee /dev/stderr | grep -c 'blocking=[1-9]') = 2"
IMAGES = "buildah --storage-driver=vfs"


def do(root, *lines, timeout=600):
    """Runs these lines of a script in the root, which must end well; returns what it printed."""
    script = "\n".join(["set -e -o pipefail", "export DEBIAN_FRONTEND=noninteractive", *lines])
    result = root.shell(script, timeout=timeout)
    require(result.status == 0, f"it ended with status {result.status}\n{result.tail()}")
    return result.output


def installing(words):
    return f"apt-get install -y -q --no-install-recommends {words}"


def workshop():
    """A kept root with what packages are built with."""
    root = releases.kept(RELEASE)
    root.copy_tree(OWN)
    known = f"dpkg --status {TOOLS} >/dev/null 2>&1"
    do(root, f"{known} || {{ apt-get update -q; {installing(TOOLS)}; }}")
    return root


def build_package(root):
    """dpkg-buildpackage, with what the package says that it needs. Returns the package's file."""
    do(
        root,
        f"rm -rf {OWN}/debian /gpuar_* && cp -r {OWN}/docs/packaging/debian {OWN}/debian",
        f"cd {OWN} && apt-get build-dep -y -q --no-install-recommends ./",
        "dpkg-buildpackage --no-sign --build=binary",
        timeout=2700,
    )
    (package,) = root.folder.glob("gpuar_*.deb")
    return package


def lintian(root):
    check = "lintian --allow-root --fail-on error,warning --tag-display-limit 0"
    text = do(root, f"{check} /gpuar_*.changes")
    require(not text.strip(), text)


def use_package(package):
    """Installed, run and purged in a root that has nothing else."""
    with releases.temporary(RELEASE) as root:
        shutil.copy(package, root.folder / "srv")
        do(root, "apt-get update -q", installing(f"/srv/{package.name}"))
        do(root, SERVED)
        do(root, "apt-get purge -y -q gpuar")
        left = do(root, "find / -xdev -name '*gpuar*' -not -path '/srv/*'").split()
        require(not left, f"purge left {left}")


def install_aside(root):
    """gpuar in a folder of its own, as modules are for."""
    options = "-Dprefix=/opt/gpuar -Dcomponent_dir=/opt/gpuar/lib/openmpi"
    do(
        root,
        f"cd {OWN} && . test/setup.sh && need_packages test/packages-build",
        "test -f /aside/build.ninja ||",
        f"  meson setup /aside . {options} -Dtests=false -Dcuda=disabled",
        "meson install -C /aside",
        timeout=2700,
    )


# By the folder of the module files: the package, which excludes the other, and its command.
MODULES = {
    "lmod": ("lmod", "/usr/share/lmod/lmod/libexec/lmod bash"),
    "tcl": ("environment-modules", "/usr/lib/x86_64-linux-gnu/modulecmd.tcl bash"),
}


def use_module(root, kind):
    """Loaded it serves a program; unloaded it leaves nothing in the environment."""
    package, command = MODULES[kind]
    do(root, installing(package))
    do(
        root,
        f"export MODULEPATH=/opt/gpuar/share/modulefiles/{kind}",
        f'module() {{ eval "$({command} "$@")"; }}',
        "before=$PATH",
        "name=$(cd $MODULEPATH && ls -d gpuar/* | sed 's/[.]lua$//')",
        "module load $name",
        SERVED,
        "module unload $name",
        'test "$PATH" = "$before" && test -z "${OMPI_MCA_mca_base_component_path-}"',
    )


def build_container():
    """By buildah, whose base image is a minimal root: it needs no service, and no registry."""
    root = releases.kept(RELEASE)
    root.copy_tree(OWN)
    shutil.copy(releases.minimal(RELEASE), root.folder / "base.tar")
    do(root, installing("buildah"))
    build = f"{IMAGES} build --isolation=chroot"
    trust = '{"default": [{"type": "insecureAcceptAnything"}]}'
    recipe = f"{OWN}/docs/packaging/container/Containerfile"
    do(
        root,
        f"mkdir -p /etc/containers && echo '{trust}' >/etc/containers/policy.json",
        "mkdir -p /base && mv /base.tar /base",
        "printf 'FROM scratch\\nADD base.tar /\\n' >/base/Containerfile",
        f"{build} --tag localhost/debian:12 /base",
        f"sed 's,FROM debian:12,FROM localhost/debian:12,' {recipe} >/Containerfile",
        f"{build} --file /Containerfile --tag gpuar {OWN}",
        f"name=$({IMAGES} from localhost/gpuar)",
        f'gpuar() {{ {IMAGES} run --isolation=chroot "$name" -- {PROGRAM}; }}',
        "test $(gpuar 2>&1 | tee /dev/stderr | grep -c 'blocking=[1-9]') = 2",
        timeout=3600,
    )


def packaging():
    root = workshop()
    packages = []
    yield "the Debian package is built", lambda: packages.append(build_package(root))
    yield "lintian is content", lambda: lintian(root)
    yield "it is installed, used and purged", lambda: use_package(packages[0])
    yield "gpuar in a folder of its own", lambda: install_aside(root)
    for kind in MODULES:
        yield f"its module file: {kind}", lambda kind=kind: use_module(root, kind)
    yield "the container image", build_container


def main():
    report = Report([])
    report.lane("packaging", packaging)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())

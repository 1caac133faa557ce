# Set-up shared by test/run and bench/run: Debian packages, then the build. Sourced; sets `root`
# (the repository) and `build`. Quick when there is nothing to do.

root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
build=$root/build
export LC_ALL=C.UTF-8

fail() {
    echo "gpuar: $*" >&2
    exit 1
}

# quietly WHAT COMMAND…: the output is shown only if the command fails.
quietly() {
    local what=$1 log
    shift
    log=$(mktemp) || fail "no temporary file can be made"
    if ! "$@" >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        rm -f "$log"
        fail "$what failed: $*"
    fi
    rm -f "$log"
}

installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# need_packages FILE…: installs what these lists (one package a line, # comments) name and the
# machine lacks. On other systems than Debian the build says what is missing.
need_packages() {
    local package missing=()
    command -v dpkg-query >/dev/null || return 0
    for package in $(sed 's/#.*//' "$@"); do
        installed "$package" || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    [ "$(id -u)" = 0 ] || fail "packages are missing, run once as root or install: ${missing[*]}"
    echo "installing ${missing[*]}" >&2
    export DEBIAN_FRONTEND=noninteractive
    local install=(apt-get install -y -q --no-install-recommends)
    "${install[@]}" "${missing[@]}" >/dev/null 2>&1 && return 0
    quietly "reading the package lists" apt-get update -q
    quietly "installing packages" "${install[@]}" "${missing[@]}"
}

# Configures once (with $GPUAR_SETUP_OPTIONS) and compiles what changed. The folder build/components holds the component and
# nothing else, as Open MPI wants it of a folder that it searches.
build_gpuar() {
    local lock
    exec {lock}<"$root"
    flock "$lock"
    if [ ! -f "$build/build.ninja" ]; then
        echo "configuring $build" >&2
        # shellcheck disable=SC2086 # several options
        quietly "configuring" meson setup "$build" "$root" ${GPUAR_SETUP_OPTIONS-}
    fi
    if [ "$(ninja -C "$build" -n 2>/dev/null | tail -n 1)" != "ninja: no work to do." ]; then
        echo "compiling" >&2
        quietly "compiling" ninja -C "$build"
    fi
    mkdir -p "$build/components"
    ln -sfn ../mca_coll_gpuar.so "$build/components/mca_coll_gpuar.so"
    exec {lock}<&-
}

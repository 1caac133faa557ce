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

# locked COMMAND…: one at a time for all who use this tree.
locked() {
    local lock
    exec {lock}<"$root"
    flock "$lock"
    "$@"
    exec {lock}<&-
}

has_cuda_toolkit() {
    local prefix
    for prefix in /usr/local/cuda /usr/lib/cuda /opt/cuda; do
        [ -x "$prefix/bin/nvcc" ] && [ -f "$prefix/include/cuda.h" ] && return 0
    done
    nvcc --version >/dev/null 2>&1
}

# need_cuda_toolkit FILE: where the machine has none, fetches the Python wheels that FILE lists: the
# compiler and the headers. Where they cannot be had, the build goes without, and the lanes on
# devices say why. Tried once for a build folder.
need_cuda_toolkit() {
    locked fetch_cuda_toolkit "$1"
}

cuda_wheels=$build/cuda-wheels
fetch_cuda_toolkit() {
    local why=$build/no-cuda-toolkit pip
    [ ! -e "$cuda_wheels" ] && [ ! -e "$why" ] || return 0
    case " ${GPUAR_SETUP_OPTIONS-} " in
        *" -Dcuda=disabled "* | *" -Dtoolkit="*) return 0 ;;
    esac
    has_cuda_toolkit && return 0
    echo "fetching the CUDA compiler: this machine has none" >&2
    mkdir -p "$build"
    pip=(python3 -m pip install --quiet --no-deps --only-binary=:all: --disable-pip-version-check)
    pip+=(--root-user-action=ignore --retries 1 --timeout 20)
    rm -rf "$cuda_wheels.part"
    if ! "${pip[@]}" --target "$cuda_wheels.part" -r "$1" >"$why" 2>&1; then
        printf 'this machine has no CUDA toolkit, and pip cannot fetch it: %s\n' \
            "$(tail -n 1 "$why")" >"$why.part"
        mv "$why.part" "$why"
        return 0
    fi
    rm -f "$why"
    mv "$cuda_wheels.part" "$cuda_wheels"
    [ ! -f "$build/build.ninja" ] ||
        quietly "configuring" meson configure "$build" "-Dtoolkit=$(echo "$cuda_wheels"/nvidia/*)"
}

# build_gpuar [TARGET…]: configures (with $GPUAR_SETUP_OPTIONS) and compiles what changed, or of
# that the targets alone. The folder build/components holds the component and nothing else, as Open
# MPI wants it of a folder that it searches.
build_gpuar() {
    locked compile_gpuar "$@"
}

compile_gpuar() {
    if [ ! -f "$build/build.ninja" ]; then
        echo "configuring $build" >&2
        local fetched=()
        [ ! -e "$cuda_wheels" ] || fetched=("-Dtoolkit=$(echo "$cuda_wheels"/nvidia/*)")
        # shellcheck disable=SC2086 # several options
        quietly "configuring" meson setup "$build" "$root" "${fetched[@]}" ${GPUAR_SETUP_OPTIONS-}
    elif [ -n "${GPUAR_SETUP_OPTIONS-}" ] &&
        [ "$GPUAR_SETUP_OPTIONS" != "$(cat "$build/setup-options" 2>/dev/null)" ]; then
        # shellcheck disable=SC2086
        quietly "configuring" meson configure "$build" $GPUAR_SETUP_OPTIONS
    fi
    [ -z "${GPUAR_SETUP_OPTIONS-}" ] || echo "$GPUAR_SETUP_OPTIONS" >"$build/setup-options"
    if [ "$(ninja -C "$build" -n "$@" 2>/dev/null | tail -n 1)" != "ninja: no work to do." ]; then
        echo "compiling" >&2
        quietly "compiling" ninja -C "$build" "$@"
    fi
    mkdir -p "$build/components"
    ln -sfn ../mca_coll_gpuar.so "$build/components/mca_coll_gpuar.so"
}

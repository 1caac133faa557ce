"""cuda_reduce on a device: the simulated driver's, and what nvcc made of the kernels."""

import os
import re
import shutil

from lanes import BUILD, ROOT, Failure, Skip, lane, mpi, require, toolkit

TESTS = BUILD / "test" / "cuda_reduce" / "device" / "device_tests"
SIMULATOR = BUILD / "test" / "simgpu" / "driver"
KERNELS = TESTS.parent / "libgpuar_simkernels.so"
COMPILED = BUILD / "cuda_reduce"
STRICT = {"SIMGPU_STRICT": "device_tests"}


def lanes():
    return {"device": device, "device_mutants": mutants, "device_tsan": races, "kernels": kernels}


@lane()
def device():
    "cuda_reduce on the simulated CUDA driver: memory kinds, copies, reductions, pools, failures"
    yield "a program without CUDA", lambda: passes("[presence]")
    yield "a driver of CUDA 9", lambda: passes("[too_old]", {"LD_LIBRARY_PATH": str(TESTS.parent)})
    yield "operations at once", lambda: passes("[device]~[failure]", STRICT | {"SIMGPU_INLINE": "1"})
    for seed in range(1, 4):
        delays = STRICT | {"SIMGPU_DELAY_US": "1000", "SIMGPU_SEED": str(seed)}
        yield f"delayed, seed {seed}", lambda delays=delays: passes("[device]~[failure]", delays)
    old = STRICT | {"GPUAR_TEST_FAULT": "old_driver", "SIMGPU_DELAY_US": "500"}
    yield "a driver before CUDA 12", lambda: passes("[device]~[failure]~[reset]~[context_id]", old)
    yield "injected failures", lambda: passes("[failure]")
    yield "two devices", lambda: passes("[two_devices]", STRICT | {"SIMGPU_DEVICES": "2"})


@lane()
def mutants():
    "the device tests with a deliberate defect in cuda_reduce: they must fail"
    delays = {"SIMGPU_DELAY_US": "2000"}
    for fault, tests in (("skip_event_wait", "[data]"), ("skip_context_pop", "[context]")):
        env = delays | {"GPUAR_TEST_FAULT": fault}
        yield fault, lambda tests=tests, env=env: fails(tests, env)


def needs_simulator():
    for needed, what in ((TESTS, "no cuda.h"), (SIMULATOR, "no simulated driver")):
        if not needed.exists():
            raise Skip(toolkit.lacking(f"{what} in this build"))
    if not (COMPILED / "kernels.fatbin").exists():
        raise Skip(toolkit.lacking("this build has no kernels: it has no nvcc, or -Dcuda=disabled"))


def run(tests, env):
    needs_simulator()
    env = os.environ | {"LD_LIBRARY_PATH": str(SIMULATOR), "SIMGPU_KERNELS": str(KERNELS)} | env
    return mpi.run([TESTS, tests], timeout=120, env=env)


def passes(tests, env=None):
    result = mpi.succeed(run(tests, env or {}), "device_tests")
    require("All tests passed" in result.output, f"ran nothing\n{result.tail()}")


def fails(tests, env):
    result = run(tests, env)
    require(" failed" in result.output, f"passes with {env}\n{result.tail()}")


@lane()
def kernels():
    "the compiled kernels: no spills, 16-byte accesses in PTX and in machine code"
    yield "registers and spills", spills
    yield "PTX", lambda: wide_accesses(ptx_functions(), *WIDE_PTX)
    yield "machine code", lambda: wide_accesses(sass_functions(), *WIDE_SASS)


def compiled(name):
    path = COMPILED / name
    if not path.exists():
        raise Skip(toolkit.lacking("this build has no kernels: it has no nvcc, or -Dcuda=disabled"))
    return path


def spills():
    report = compiled("kernels.ptxas").read_text()
    found = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+)", report)
    registers = [int(number) for number in re.findall(r"Used (\d+) registers", report)]
    require(found and len(found) == len(registers), f"{len(found)} kernels in ptxas' report")
    bad = [line for line in found if line != ("0", "0", "0")]
    require(not bad, f"{len(bad)} of {len(found)} kernels spill or use the stack: {bad[:5]}")
    require(max(registers) <= 128, f"{max(registers)} registers: fewer than 2 blocks at once")
    print(f"kernels: {len(found)}, of {min(registers)} to {max(registers)} registers, none spills")


def ptx_functions():
    """The body of each kernel in the PTX, which lies in the image as text."""
    text = compiled("kernels.fatbin").read_bytes().decode("latin-1")
    parts = re.split(r"\.entry (gpuar_\w+)", text)[1:]
    return dict(zip(parts[::2], parts[1::2]))


def sass_functions():
    """The body of each kernel and generation in machine code."""
    image = compiled("kernels.fatbin")
    path = toolkit.disassembler()
    command = [shutil.which("cuobjdump", path=path), "--dump-sass", image]
    env = os.environ | {"PATH": path}
    text = mpi.succeed(mpi.run(command, timeout=120, env=env), "cuobjdump").output
    parts = re.split(r"Function : (gpuar_\w+)", text)[1:]
    return {f"{name} {i}": body for i, (name, body) in enumerate(zip(parts[::2], parts[1::2]))}


# A load and a store of 16 bytes.
WIDE_PTX = [rf"{verb}\.global\.v(4\.\w32|2\.\w64)" for verb in ("ld", "st")]
WIDE_SASS = [rf"{verb}\.E\.128" for verb in ("LDG", "STG")]

# Pairs with padding are written member by member; a division does not wait for memory.
NARROW = re.compile("float64_int|long_int|short_int|gpuar_divide_")


def wide_accesses(functions, load, store):
    require(len(functions) > 50, f"only {len(functions)} kernels found")

    def narrow(body):  # two inputs, two vectors of each at a time
        return len(re.findall(load, body)) < 4 or len(re.findall(store, body)) < 2

    bad = [name for name, body in functions.items() if not NARROW.search(name) and narrow(body)]
    if bad:
        raise Failure(f"{len(bad)} kernels do not load and store 16 bytes: {bad[:5]}")
    bad = [name for name, body in functions.items()
           if NARROW.search(name) and "divide" not in name and re.search(store, body)]
    require(not bad, f"padding is written: {bad}")


@lane()
def races():
    "cuda_reduce and the engine's calls on a device under ThreadSanitizer: what is not waited for"
    folder = ROOT / "build-tsan"
    yield "build", lambda: build_instrumented(folder)
    yield "the device tests have no race", lambda: finds_no_race(folder)
    for run in range(1, 6):
        yield f"a missing event wait is found, run {run}", lambda: finds_a_race(folder)


# At its first race: where one is in a copy, it would be reported for every byte.
SUPPRESSIONS = ROOT / "test" / "simgpu" / "tsan.supp"
TSAN = {
    "TSAN_OPTIONS": f"halt_on_error=1:handle_segv=0:history_size=7:suppressions={SUPPRESSIONS}",
    "SIMGPU_DELAY_US": "100",
}
RACE = "WARNING: ThreadSanitizer: data race"


def build_instrumented(folder):
    """Everything but the simulator, which declares itself what CUDA orders."""
    needs_simulator()
    if not (folder / "build.ninja").exists():
        setup = ["meson", "setup", folder, ROOT, "-Db_sanitize=thread", "-Db_lundef=false"]
        setup += ["-Doptimization=1", "-Ddebug=false"]
        options = ("openmpi", "openmpi_source", "ucx", "toolkit")
        setup += [f"-D{name}={mpi.build_option(name)}" for name in options]
        mpi.succeed(mpi.run(setup, timeout=120), "configuring")
    targets = ["device_tests", "libgpuar_simkernels.so"]
    targets = [f"test/cuda_reduce/device/{name}" for name in targets]
    targets.append("test/simgpu/driver/libcuda.so.1")
    mpi.succeed(mpi.run(["ninja", "-C", folder, *targets], timeout=1200), "compiling")


def run_instrumented(folder, tests, env):
    needs_simulator()
    tests_at = folder / "test" / "cuda_reduce" / "device"
    env = os.environ | TSAN | env | {
        "LD_LIBRARY_PATH": str(folder / "test" / "simgpu" / "driver"),
        "SIMGPU_KERNELS": str(tests_at / KERNELS.name),
    }
    require((tests_at / TESTS.name).exists(), "it is not built")
    return mpi.run([tests_at / TESTS.name, tests], timeout=300, env=env)


def finds_no_race(folder):
    result = run_instrumented(folder, "[data]", {})
    require(RACE not in result.output, f"a data race\n{result.output[:6000]}")
    mpi.succeed(result, "device_tests")
    require("All tests passed" in result.output, f"ran nothing\n{result.tail()}")


def finds_a_race(folder):
    result = run_instrumented(folder, "[data]", {"GPUAR_TEST_FAULT": "skip_event_wait"})
    require(RACE in result.output, f"no race is found\n{result.tail()}")

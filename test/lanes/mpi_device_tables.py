"""What the lanes device_staged and device_direct run."""

from lanes.on_device import DELAYED

SHORT = ["counts=40", "power=15", "every_count", "around_powers_of_two"]
SHORT += ["fewer_elements_than_ranks", "hundred_chars", "zero_count", "zero_size_type"]
SHORT += ["read_only_send_buffer"]

# Programs of test/mpi (see mpi_semantics), shorter. Every message goes to the device, whatever its
# size.
MATRIX = [
    ("buffers", 2, SHORT),
    ("buffers", 4, ["counts=20", "power=12", *SHORT[2:]]),
    ("buffers", 3, ["odd_alignment"]),
    ("predefined", 2, []),
    ("user_ops", 3, []),
    ("requests", 3, ["calls=60"]),
    ("communicators", 3, ["lives=300"]),
    ("threads", 2, ["rounds=40"]),
    ("errors", 3, []),
    ("bits", 3, ["most=3000"]),
    ("bits", 4, ["most=3000", "equal_on_every_rank"]),
    ("handles", 3, []),
    ("finalize", 4, []),
]

NAMED = [
    ("requests", 3, "communicator_freed_while_active"),
    ("requests", 3, "type_and_op_freed_after_init"),
    ("user_ops", 3, "negative_extent"),
    ("errors", 3, "counts_differ"),
    ("errors", 3, "healthy_after_broken"),
    ("first_call", 2, "nonblocking_small"),
    ("first_call", 3, "nonblocking_large"),
    ("first_call", 3, "persistent_large"),
    ("first_call", 3, "on_new_communicator"),
]

TWO = {"SIMGPU_DEVICES": 2}

# The program `mix`: name, ranks, and what differs (see mpi_device.set_up and on_device.Machine).
SET_UPS = [
    ("default limit", 3, {"limit": None, "through_host": True}),
    ("no limit", 3, {"through_host": False}),
    ("work ends late", 3, {"gpu": DELAYED}),
    ("work ends late, another seed", 2, {"gpu": DELAYED | {"SIMGPU_SEED": 7}, "limit": None}),
    ("odd ranks only", 3, {"memory": "odd=device"}),
    ("a kind per rank", 2, {"memory": "even=managed,odd=pool"}),
    ("device to host", 2, {"memory": "send=device,receive=host", "through_host": True}),
    ("host to device", 2, {"memory": "send=host,receive=device"}),
    ("managed to pinned", 2, {"memory": "send=managed,receive=pinned"}),
    ("pool to device", 2, {"memory": "send=pool,receive=device"}),
    ("pinned", 2, {"memory": "pinned"}),
    ("managed", 3, {"memory": "managed"}),
    ("pool", 3, {"memory": "pool", "gpu": DELAYED}),
    ("all kinds in turn", 3, {"memory": "device+managed+pool+pinned+host"}),
    ("two devices", 2, {"memory": "devices=2,device+managed+pool", "gpu": TWO}),
    ("two devices apart", 2, {"memory": "devices=2,device", "gpu": TWO | {"SIMGPU_PEER": 0}}),
    ("another context current", 2, {"memory": "devices=2,current=other,device", "gpu": TWO}),
    ("no context current", 2, {"memory": "current=none,device"}),
    ("driver up before MPI", 2, {"memory": "early,device"}),
    ("addresses reused", 2, {"memory": "reuse,device+managed+pool", "reused": True}),
    ("driver down before MPI", 2, {"memory": "shutdown,device"}),
    ("IPC refused", 3, {"gpu": {"SIMGPU_IPC": "0"}}),
    ("IPC refused by the other side", 2, {"gpu": {"SIMGPU_IPC": "open"}}),
    ("small pools", 2, {"mca": {"coll_gpuar_pool_size": 65536}, "gpu": DELAYED}),
    ("ranks ask each other", 3, {"memory": "odd=device", "mca": {"coll_gpuar_expect": "ask"}}),
    ("planned for devices", 2, {"mca": {"coll_gpuar_expect": "device"}}),
    ("progress thread", 2, {"mca": {"coll_gpuar_progress_thread": 1}}),
    ("no device memory left", 2, {"gpu": {"SIMGPU_FAIL": "cuMemAlloc@mca_coll_gpuar:1+"}}),
]

# Failures to inject (test/simgpu/driver/failures.h), and whether calls give an error then.
COPY = "cuMemcpyAsync@mca_coll_gpuar:5+"  # none are made where UCX carries device memory
FAILURES = [
    ("cuLaunchKernel@mca_coll_gpuar:1+", True),
    (COPY, True),
    ("cuEventRecord@mca_coll_gpuar:2+", True),
    ("cuStreamCreate@mca_coll_gpuar:1+", True),
    ("cuModuleLoadData@mca_coll_gpuar:1+", False),
    ("cuPointerGetAttributes@mca_coll_gpuar:3+", True),
]

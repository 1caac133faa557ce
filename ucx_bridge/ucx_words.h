// What UCX says about itself only in print. For this room only.
#pragma once

struct ucp_config;
struct ucp_context;

namespace gpuar {

// Whether the choice of network devices is ours: the user has set neither UCX_NET_DEVICES nor a
// UCX_TLS without InfiniBand (UCX warns of devices that it was told to use and does not).
bool leaves_net_devices(const ucp_config* config);

// Whether the length of fragments in shared memory is ours to set: the user has neither set it nor
// done without shared memory (UCX warns of settings that it has no use for).
bool leaves_shared_memory(const ucp_config* config);

// Whether UCX has opened InfiniBand or RoCE ports.
bool opens_infiniband(ucp_context* context);

}  // namespace gpuar

// What a process that is no gpuar, or another version of it, may send: dropped, said once.
#include <ucp/api/ucp.h>

#include "test/ucx_bridge/endpoint_pair.h"

using namespace gpuar;
using namespace gpuar::test;

namespace {

// UCX by hand: an endpoint to `address` that sends any header it is told to.
struct Stranger {
  ucp_context_h context = nullptr;
  ucp_worker_h worker = nullptr;
  ucp_ep_h endpoint = nullptr;

  explicit Stranger(std::span<const std::byte> address) {
    ucp_params_t params = {};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM;
    REQUIRE(ucp_init(&params, nullptr, &context) == UCS_OK);
    ucp_worker_params_t worker_params = {};
    REQUIRE(ucp_worker_create(context, &worker_params, &worker) == UCS_OK);
    ucp_ep_params_t ep_params = {};
    ep_params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    ep_params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    REQUIRE(ucp_ep_create(worker, &ep_params, &endpoint) == UCS_OK);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  ~Stranger() {
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
  }
  // True if the send ended well within some seconds while `transport` progressed.
  bool send(UcxTransport& transport, const void* header, std::size_t header_bytes,
            const Bytes& data, std::uint32_t flags) {
    ucp_request_param_t param = {};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = flags;
    void* const request =
        ucp_am_send_nbx(endpoint, 0, header, header_bytes, data.data(), data.size(), &param);
    REQUIRE_FALSE(UCS_PTR_IS_ERR(request));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    bool over = request == nullptr;
    while (!over && std::chrono::steady_clock::now() < deadline) {
      ucp_worker_progress(worker);
      transport.progress();
      over = ucp_request_check_status(request) != UCS_INPROGRESS;
    }
    if (request != nullptr) ucp_request_free(request);
    return over;
  }
};

}  // namespace

TEST_CASE("ucx transport: malformed messages are dropped and said once", "[ucx]") {
  Pair pair;
  Stranger stranger(pair.b.transport.address());
  const MessageHeader good;
  const Bytes none;
  const Bytes small(100);
  const Bytes large(1u << 20);
  for (const std::size_t header_bytes : {0, 1, 15, 17, 31})
    for (const Bytes* data : {&none, &small})
      CHECK(stranger.send(pair.b.transport, &good, header_bytes, *data, UCP_AM_SEND_FLAG_EAGER));
  CHECK(stranger.send(pair.b.transport, &good, 5, large, UCP_AM_SEND_FLAG_RNDV));
  CHECK(stranger.send(pair.b.transport, &good, sizeof good, small, UCP_AM_SEND_FLAG_EAGER));

  REQUIRE(pair.until([&] { return pair.b.receiver.arrived > 0; }));
  CHECK(pair.b.receiver.arrived == 1);  // the good one, sent last
  REQUIRE(logged_lines().size() == 1);
  CHECK(logged_lines().front().find("malformed") != std::string::npos);
  CHECK(logged_lines().front().find("0 bytes") != std::string::npos);

  pair.a.send(1, 100000);  // and the transport goes on
  REQUIRE(pair.until([&] { return pair.b.receiver.rendezvous == 1; }));
  pair.b.receiver.finish_kept_last_first();
  CHECK(pair.until([&] { return pair.a.sends_over(); }));
}

// Moves data between the memory of two processes by UCX, forth and back, and compares every byte:
//
//   transfer SENDER RECEIVER BYTES ROUNDS VERB      SENDER, RECEIVER: host, pinned, device, managed
//                                                   or pool; VERB: am, tag
//
// VERB,early: UCX comes up before there is a context, as it does in MPI_Init. VERB,detached: no
// context is current while UCX moves data.
//
// The types of memory are named to UCX, as gpuar does. Any UCX will do; where ucp_context_query
// does not report CUDA memory, device memory is refused with exit status 77.
#include <cuda.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace {

[[noreturn]] void fail(const std::string& what, const std::string& why) {
  fprintf(stderr, "transfer: %s: %s\n", what.c_str(), why.c_str());
  exit(1);
}

void check(CUresult result, const char* call) {
  const char* name = "unknown error";
  if (result != CUDA_SUCCESS) cuGetErrorName(result, &name);
  if (result != CUDA_SUCCESS) fail(call, name);
}

void check(ucs_status_t status, const char* call) {
  if (status != UCS_OK) fail(call, ucs_status_string(status));
}
#define CHECK(call) check(call, #call)

class Current {
 public:
  explicit Current(CUcontext context) { CHECK(cuCtxPushCurrent(context)); }
  ~Current() { cuCtxPopCurrent(nullptr); }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
};

// The buffer of one side.
class Buffer {
 public:
  Buffer(const std::string& kind, size_t size, CUcontext context)
      : kind_(kind), size_(size), context_(context) {
    const Current current(context);
    CUdeviceptr address = 0;
    if (kind == "host") {
      data = malloc(size);
    } else if (kind == "pinned") {
      CHECK(cuMemHostAlloc(&data, size, 0));
    } else if (kind == "managed") {
      CHECK(cuMemAllocManaged(&address, size, CU_MEM_ATTACH_GLOBAL));
    } else if (kind == "pool") {
      CHECK(cuMemAllocAsync(&address, size, nullptr));
      CHECK(cuStreamSynchronize(nullptr));
    } else if (kind == "device") {
      CHECK(cuMemAlloc(&address, size));
    } else {
      fail(kind, "no such kind of memory");
    }
    if (address != 0) data = reinterpret_cast<void*>(address);
  }
  ~Buffer() {
    const Current current(context_);
    if (kind_ == "host")
      free(data);
    else if (kind_ == "pinned")
      cuMemFreeHost(data);
    else
      cuMemFree(reinterpret_cast<CUdeviceptr>(data));
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  ucs_memory_type_t type() const {
    if (kind_ == "managed") return UCS_MEMORY_TYPE_CUDA_MANAGED;
    return hidden() ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
  }
  bool needs_cuda() const { return type() != UCS_MEMORY_TYPE_HOST; }

  void write(const std::vector<char>& content) const {
    if (!hidden()) {
      memcpy(data, content.data(), size_);
      return;
    }
    const Current current(context_);
    CHECK(cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(data), content.data(), size_));
    CHECK(cuCtxSynchronize());
  }
  std::vector<char> read() const {
    const Current current(context_);
    std::vector<char> content(size_);
    if (hidden())
      CHECK(cuMemcpyDtoH(content.data(), reinterpret_cast<CUdeviceptr>(data), size_));
    else
      memcpy(content.data(), data, size_);
    return content;
  }

  void* data = nullptr;

 private:
  bool hidden() const { return kind_ == "device" || kind_ == "pool"; }
  std::string kind_;
  size_t size_;
  CUcontext context_;
};

// A socket to the other process, for addresses and meetings.
class Line {
 public:
  explicit Line(int file) : file_(file) {}
  void put(const void* data, size_t size) const {
    if (write(file_, data, size) != static_cast<ssize_t>(size)) fail("socket", strerror(errno));
  }
  void get(void* data, size_t size) const {
    for (size_t got = 0; got < size;) {
      const ssize_t n = read(file_, static_cast<char*>(data) + got, size - got);
      if (n <= 0) fail("socket", "the other process is gone");
      got += static_cast<size_t>(n);
    }
  }
  bool try_get(char& byte) const { return recv(file_, &byte, 1, MSG_DONTWAIT) == 1; }

 private:
  int file_;
};

constexpr unsigned kMessage = 3;

class Ucx {
 public:
  explicit Ucx(const Line& line) : line_(line) {
    ucp_params_t params = {};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG | UCP_FEATURE_AM;
    CHECK(ucp_init(&params, nullptr, &context_));
    ucp_worker_params_t worker = {};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SINGLE;
    CHECK(ucp_worker_create(context_, &worker, &worker_));
    ucp_am_handler_param_t handler = {};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                         UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
    handler.id = kMessage;
    handler.flags = UCP_AM_FLAG_PERSISTENT_DATA;
    handler.cb = arrived;
    handler.arg = this;
    CHECK(ucp_worker_set_am_recv_handler(worker_, &handler));
    connect();
  }

  ~Ucx() {
    ucp_request_param_t param = {};
    wait(ucp_worker_flush_nbx(worker_, &param), "flush");
    meet();
    wait(ucp_ep_close_nbx(endpoint_, &param), "close");
    meet();  // neither side takes its worker down before the other has closed
    ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
  }
  Ucx(const Ucx&) = delete;
  Ucx& operator=(const Ucx&) = delete;

  uint64_t memory_types() const {
    ucp_context_attr_t attributes = {};
    attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
    CHECK(ucp_context_query(context_, &attributes));
    return attributes.memory_types;
  }

  void send(const std::string& verb, const Buffer& buffer, size_t size) {
    ucp_request_param_t param = param_of(buffer);
    if (verb == "tag") {
      wait(ucp_tag_send_nbx(endpoint_, buffer.data, size, kMessage, &param), "send");
      return;
    }
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_RNDV;
    const uint64_t header = size;
    wait(ucp_am_send_nbx(endpoint_, kMessage, &header, sizeof header, buffer.data, size, &param),
         "send");
  }

  void receive(const std::string& verb, const Buffer& buffer, size_t size) {
    const ucp_request_param_t param = param_of(buffer);
    if (verb == "tag") {
      wait(ucp_tag_recv_nbx(worker_, buffer.data, size, kMessage, ~uint64_t{0}, &param), "receive");
      return;
    }
    while (arrival_ == nullptr) progress();
    void* const data = arrival_;
    arrival_ = nullptr;
    wait(ucp_am_recv_data_nbx(worker_, data, buffer.data, size, &param), "receive");
  }

  void map(const Buffer& buffer, size_t size) {
    ucp_mem_map_params_t params = {};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                        UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
    params.address = buffer.data;
    params.length = size;
    params.memory_type = buffer.type();
    CHECK(ucp_mem_map(context_, &params, &mapped_));
  }
  void unmap() {
    if (mapped_ != nullptr) CHECK(ucp_mem_unmap(context_, mapped_));
    mapped_ = nullptr;
  }

  // Both processes are here; messages move meanwhile.
  void meet() {
    char byte = 0;
    line_.put(&byte, 1);
    while (!line_.try_get(byte)) progress();
  }

 private:
  ucp_request_param_t param_of(const Buffer& buffer) const {
    ucp_request_param_t param = {};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.memory_type = buffer.type();
    if (mapped_ != nullptr) {
      param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
      param.memh = mapped_;
    }
    return param;
  }

  static ucs_status_t arrived(void* self, const void*, size_t, void* data, size_t,
                              const ucp_am_recv_param_t*) {
    static_cast<Ucx*>(self)->arrival_ = data;
    return UCS_INPROGRESS;
  }

  void progress() {
    if (ucp_worker_progress(worker_) == 0) usleep(0);
  }

  void wait(void* request, const char* what) {
    if (UCS_PTR_IS_ERR(request)) fail(what, ucs_status_string(UCS_PTR_STATUS(request)));
    if (request == nullptr) return;
    while (ucp_request_check_status(request) == UCS_INPROGRESS) progress();
    check(ucp_request_check_status(request), what);
    ucp_request_free(request);
  }

  void connect() {
    ucp_address_t* own = nullptr;
    size_t own_size = 0, size = 0;
    CHECK(ucp_worker_get_address(worker_, &own, &own_size));
    line_.put(&own_size, sizeof own_size);
    line_.put(own, own_size);
    line_.get(&size, sizeof size);
    std::vector<char> address(size);
    line_.get(address.data(), size);
    ucp_worker_release_address(worker_, own);
    ucp_ep_params_t params = {};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    CHECK(ucp_ep_create(worker_, &params, &endpoint_));
  }

  const Line& line_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  ucp_mem_h mapped_ = nullptr;
  void* arrival_ = nullptr;
};

std::vector<char> pattern(size_t size, size_t round) {
  std::vector<char> content(size);
  for (size_t i = 0; i < size; i++)
    content[i] = static_cast<char>(i * 31 + i / 4096 + round * 7 + 1);
  return content;
}

// The number of wrong rounds.
size_t exchange(Ucx& ucx, const std::string& verb, const Buffer& buffer, size_t size, size_t rounds,
                int rank) {
  size_t wrong = 0;
  double microseconds = 0;
  for (size_t round = 0; round < rounds; round++) {
    const std::vector<char> content = pattern(size, round);
    buffer.write(rank == 0 ? content : std::vector<char>(size, 0x5A));
    ucx.meet();
    const auto begin = std::chrono::steady_clock::now();
    if (rank == 0) {
      ucx.send(verb, buffer, size);
      ucx.meet();  // the way back must not be taken for what was sent
      buffer.write(std::vector<char>(size, 0x5A));
      ucx.meet();
      ucx.receive(verb, buffer, size);
    } else {
      ucx.receive(verb, buffer, size);
      ucx.meet();
      ucx.meet();
      ucx.send(verb, buffer, size);
    }
    microseconds +=
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
    if (buffer.read() != content) {
      fprintf(stderr, "transfer: rank %d, round %zu: wrong data\n", rank, round);
      wrong++;
    }
  }
  if (rank == 0)
    printf("%zu bytes, %zu rounds, %s: %.0f us each\n", size, rounds, verb.c_str(),
           microseconds / static_cast<double>(rounds));
  return wrong;
}

void report(Ucx& ucx) {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  printf("UCX %u.%u.%u:", major, minor, release);
  const uint64_t types = ucx.memory_types();
  if ((types & UCS_BIT(UCS_MEMORY_TYPE_HOST)) != 0) printf(" host");
  if ((types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0) printf(" cuda");
  if ((types & UCS_BIT(UCS_MEMORY_TYPE_CUDA_MANAGED)) != 0) printf(" cuda-managed");
  printf("\n");
}

int run(const std::vector<std::string>& words, int rank, const Line& line) {
  const std::string& kind = words[static_cast<size_t>(rank)];
  const size_t size = strtoull(words[2].c_str(), nullptr, 0);
  const size_t rounds = strtoull(words[3].c_str(), nullptr, 0);
  const auto asked = [&](const char* what) { return words[4].find(what) != std::string::npos; };
  std::optional<Ucx> ucx;
  if (asked("apart")) setenv("CUDA_VISIBLE_DEVICES", std::to_string(rank).c_str(), 1);
  if (asked("early")) ucx.emplace(line);
  int devices = 0;
  CUcontext context = nullptr;
  CHECK(cuInit(0));
  CHECK(cuDeviceGetCount(&devices));
  CHECK(cuDevicePrimaryCtxRetain(&context, rank % devices));
  CHECK(cuCtxSetCurrent(context));
  if (!ucx) ucx.emplace(line);
  if (rank == 0) report(*ucx);
  const bool able = (ucx->memory_types() & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
  if (!able && (words[0] != "host" || words[1] != "host")) {
    if (rank == 0) fprintf(stderr, "transfer: this UCX does not carry CUDA memory\n");
    return 77;
  }
  if (asked("detached")) CHECK(cuCtxSetCurrent(nullptr));
  size_t wrong = 0;
  {
    const Buffer buffer(kind, size, context);
    if (asked("mapped")) ucx->map(buffer, size);
    wrong = exchange(*ucx, asked("tag") ? "tag" : "am", buffer, size, rounds, rank);
    ucx->unmap();
  }
  ucx.reset();
  CHECK(cuDevicePrimaryCtxRelease(rank % devices));
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() == 6) {  // the second process
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return run(words, 1, Line(atoi(words[5].c_str())));
  }
  if (words.size() != 5) {
    fprintf(stderr,
            "usage: transfer SENDER RECEIVER BYTES ROUNDS "
            "am|tag[,early][,detached][,apart][,mapped]\n");
    return 2;
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) fail("socketpair", strerror(errno));
  const pid_t child = fork();
  if (child == 0) {  // a fresh program: no driver survives a fork
    close(ends[0]);
    const std::string file = std::to_string(ends[1]);
    std::vector<char*> list(arguments, arguments + count);
    list.push_back(const_cast<char*>(file.c_str()));
    list.push_back(nullptr);
    execv("/proc/self/exe", list.data());
    _exit(127);
  }
  close(ends[1]);
  const int own = run(words, 0, Line(ends[0]));
  int status = 0;
  waitpid(child, &status, 0);
  if (own == 0 && status != 0) fprintf(stderr, "transfer: the second process failed\n");
  return own != 0 ? own : status == 0 ? 0 : 1;
}

#include "calls.h"

#include <algorithm>

namespace on_device {
namespace {

Span span_of(int count, MPI_Datatype type) {
  MPI_Aint lb = 0;
  MPI_Aint extent = 0;
  MPI_Aint true_lb = 0;
  MPI_Aint true_extent = 0;
  PMPI_Type_get_extent(type, &lb, &extent);
  PMPI_Type_get_true_extent(type, &true_lb, &true_extent);
  int integers = 0;
  int addresses = 0;
  int types = 0;
  int combiner = MPI_COMBINER_NAMED;
  PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
  // The padding at the end of a pair is part of the program's array.
  if (combiner == MPI_COMBINER_NAMED) true_extent = std::max(true_extent, extent - true_lb);
  const MPI_Aint last = (count - 1) * extent;
  const MPI_Aint low = true_lb + std::min<MPI_Aint>(0, last);
  const MPI_Aint high = true_lb + true_extent + std::max<MPI_Aint>(0, last);
  return {low, high > low ? static_cast<std::size_t>(high - low) : 0};
}

// MPI refuses some of these, and moves nothing for the others.
bool has_buffers(const void* send, const void* receive, int count, MPI_Datatype type) {
  return count > 0 && type != MPI_DATATYPE_NULL && send != nullptr && receive != nullptr &&
         receive != MPI_IN_PLACE;
}

bool is_served(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return false;
  int between_groups = 0;
  PMPI_Comm_test_inter(comm, &between_groups);
  return between_groups == 0;
}

// In every mix: both buffers on the first device, the receive buffer on another, both there, …
int device_of(std::uint64_t call, std::uint64_t of_receive) {
  const auto devices = static_cast<std::uint64_t>(settings().devices);
  return static_cast<int>((call / 2 + of_receive * call) % devices);
}

void make_current_in_this_thread() {
  static thread_local bool done = false;
  if (done) return;
  done = true;
  const int device = settings().current == Current::other ? settings().devices - 1 : 0;
  if (settings().current == Current::none || driver().current() != nullptr) return;
  driver().make_current(driver().context(device));
}

}  // namespace

Call::Call(const char* name, const void* send, void* receive, int count, MPI_Datatype type,
           MPI_Comm comm, Persistence persistence)
    : name_(name), user_send_(send), user_receive_(receive), persistence_(persistence) {
  if (!has_buffers(send, receive, count, type) || !is_served(comm)) return;
  static std::atomic<std::uint64_t> calls{0};
  const std::uint64_t number = calls++;
  const Settings& s = settings();
  const Kind from = s.send[number % s.send.size()];
  const Kind to = s.receive[number % s.receive.size()];
  if (is_drivers(from) || is_drivers(to)) make_current_in_this_thread();
  const Span span = span_of(count, type);
  // MPI's const is a promise of the library's; nothing here writes there.
  receive_ = Shadow(to, device_of(number, 1), receive, span);
  if (send != MPI_IN_PLACE) {
    send_ = Shadow(from, device_of(number, 0), const_cast<void*>(send), span);
  }
}

void Call::begin() {
  if (!moved()) return;
  ++totals().calls;
  under_way_ = true;
  send_.load();
  receive_.load();
}

void Call::end() {
  if (!under_way_) return;
  under_way_ = false;
  send_.check_unchanged(name_);
  receive_.write_back(name_);
}

void Call::abandon() {
  send_.abandon();
  receive_.abandon();
}

Requests& requests() {
  static auto* const one = new Requests;
  return *one;
}

void Requests::put(MPI_Request request, std::unique_ptr<Call> call) {
  const std::lock_guard lock(mutex_);
  const auto [at, fresh] = calls_.try_emplace(request, std::move(call));
  // MPI has one handle for all requests that are complete from the beginning.
  if (!fresh) call->end();
}

std::unique_ptr<Call> Requests::take(MPI_Request request) {
  const std::lock_guard lock(mutex_);
  const auto at = calls_.find(request);
  if (at == calls_.end()) return nullptr;
  std::unique_ptr<Call> call = std::move(at->second);
  calls_.erase(at);
  return call;
}

Call* Requests::find(MPI_Request request) {
  const std::lock_guard lock(mutex_);
  const auto at = calls_.find(request);
  return at == calls_.end() ? nullptr : at->second.get();
}

void Requests::abandon_all() {
  const std::lock_guard lock(mutex_);
  for (const auto& [request, call] : calls_) call->abandon();
  calls_.clear();
}

Completing::Completing(int count, MPI_Request* array) : array_(array) {
  for (int i = 0; i < count; ++i) {
    handles_.push_back(array[i]);
    calls_.push_back(requests().take(array[i]));
  }
}

Completing::~Completing() {
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    if (calls_[i]) requests().put(handles_[i], std::move(calls_[i]));
  }
}

void Completing::complete(int index) {
  const auto i = static_cast<std::size_t>(index);
  if (!calls_[i]) return;
  calls_[i]->end();
  if (!calls_[i]->persistent()) calls_[i] = nullptr;
}

void Completing::complete_all() {
  for (std::size_t i = 0; i < calls_.size(); ++i) complete(static_cast<int>(i));
}

void Completing::complete_freed() {
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    if (array_[i] == MPI_REQUEST_NULL) complete(static_cast<int>(i));
  }
}

SameContext::SameContext(const char* call) : call_(call), watching_(driver_is_open()) {
  if (watching_) before_ = driver().current();
}

SameContext::~SameContext() {
  if (!watching_ || driver().current() == before_) return;
  die(std::string(call_) + " left another context current than it found");
}

}  // namespace on_device

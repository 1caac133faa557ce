#include "test/fuzz/call.h"

#include <algorithm>

#include "test/mpi/persistent.h"

namespace fuzz {

using mpitest::Form;
using mpitest::Guarded;

Call::Call(const CallPlan& plan, std::size_t index, const Communicator& communicator, int self)
    : plan_(plan),
      index_(index),
      handle_(communicator.handle),
      members_(communicator.members),
      self_(self),
      extent_(plan.kind->extent(self, plan.count)),
      in_(extent_.bytes, plan.shift),
      out_(extent_.bytes, plan.shift),
      handles_(plan.kind->handles(self)) {
  fill();
}

void Call::fill() {
  std::fill_n(in_.data(), in_.bytes(), background);
  std::fill_n(out_.data(), out_.bytes(), background);
  plan_.kind->fill(base(in_place() ? out_ : in_), self_, sample());
  sent_.assign(in_.data(), in_.data() + in_.bytes());
}

void Call::post(MPI_Request* request) {
  const void* send = in_place() ? MPI_IN_PLACE : base(in_);
  void* receive = base(out_);
  const int count = static_cast<int>(plan_.count);
  const MPI_Datatype type = handles_.type();
  switch (plan_.form) {
    case Form::blocking:
      MPI_Allreduce(send, receive, count, type, handles_.op(), handle_);
      break;
    case Form::nonblocking:
      MPI_Iallreduce(send, receive, count, type, handles_.op(), handle_, request);
      break;
    case Form::persistent:
      persistent_allreduce_init(send, receive, count, type, handles_.op(), handle_, request);
      break;
  }
  if (plan_.handles_freed_at_once) handles_.free();
}

void Call::start(MPI_Request* request) {
  MPI_Start(request);
}

bool Call::next_round() {
  if (++round_ >= plan_.starts) return false;
  fill();
  return true;
}

std::string Call::wrong(const Kind& reference) {
  if (!std::equal(sent_.begin(), sent_.end(), in_.data())) return "the send buffer was written";
  if (in_.damage() != Guarded::intact) return "bytes beside the send buffer were written";
  if (out_.damage() != Guarded::intact) {
    return "byte " + std::to_string(out_.damage()) + ", beside the receive buffer, was written";
  }
  const long element = reference.wrong(base(out_), self_, members_, sample());
  if (element < 0) return "";
  return "element " + std::to_string(element) + " is wrong; the result begins " + first_bytes();
}

std::string Call::first_bytes() {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(out_.bytes(), 32); ++i) {
    constexpr const char* digits = "0123456789abcdef";
    const auto byte = std::to_integer<unsigned>(out_.data()[i]);
    text += {digits[byte / 16], digits[byte % 16]};
  }
  return text;
}

std::string Call::describe() const {
  std::string text = plan_.kind->name() + ", count " + std::to_string(plan_.count) + ", " +
                     name_of(plan_.form) + ", " + name_of(plan_.place);
  if (persistent()) text += ", start " + std::to_string(round_ + 1);
  if (plan_.shift > 0) text += ", " + std::to_string(plan_.shift) + " bytes off alignment";
  text += ", on ranks";
  for (const int rank : members_) text += " " + std::to_string(rank);
  return "call=" + std::to_string(index_) + " (" + text + ")";
}

}  // namespace fuzz

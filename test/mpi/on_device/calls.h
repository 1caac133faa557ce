// Allreduces under way on moved buffers.
#pragma once

#include <mpi.h>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "shadow.h"

namespace on_device {

enum class Persistence { once, persistent };

// One call, or one persistent request, and the stand-ins of its buffers.
class Call {
 public:
  // Takes memory for the buffers. The program's own are kept by calls that MPI will refuse, that
  // move nothing, whose buffers are to stay where they are, and on communicators that gpuar leaves
  // to Open MPI: those of one process, and between two groups.
  Call(const char* name, const void* send, void* receive, int count, MPI_Datatype type,
       MPI_Comm comm, Persistence persistence);

  [[nodiscard]] const void* send() const { return send_ ? send_.buffer() : user_send_; }
  [[nodiscard]] void* receive() const { return receive_ ? receive_.buffer() : user_receive_; }
  [[nodiscard]] bool moved() const { return send_ || receive_; }
  [[nodiscard]] bool persistent() const { return persistence_ == Persistence::persistent; }
  [[nodiscard]] bool under_way() const { return under_way_; }

  void begin();  // the program's bytes go to the stand-ins
  void end();    // and come back, checked; nothing unless it has begun
  void abandon();

 private:
  const char* name_;
  const void* user_send_;
  void* user_receive_;
  Persistence persistence_;
  Shadow send_;
  Shadow receive_;
  bool under_way_ = false;
};

// Calls by request. A call is taken out before its request may complete: the handle may be another
// thread's next request as soon as it has.
class Requests {
 public:
  void put(MPI_Request request, std::unique_ptr<Call> call);
  std::unique_ptr<Call> take(MPI_Request request);
  Call* find(MPI_Request request);
  void abandon_all();

 private:
  std::mutex mutex_;
  std::unordered_map<MPI_Request, std::unique_ptr<Call>> calls_;
};
Requests& requests();

// The calls behind an array of requests, while MPI completes some of these.
class Completing {
 public:
  Completing(int count, MPI_Request* array);
  ~Completing();  // those not complete are put back
  Completing(const Completing&) = delete;
  Completing& operator=(const Completing&) = delete;

  void complete(int index);
  void complete_all();
  // After an error: those whose handle is gone.
  void complete_freed();

 private:
  MPI_Request* array_;
  std::vector<MPI_Request> handles_;
  std::vector<std::unique_ptr<Call>> calls_;
};

// What is current in this thread must still be so at the end of its life.
class SameContext {
 public:
  explicit SameContext(const char* call);
  ~SameContext();
  SameContext(const SameContext&) = delete;
  SameContext& operator=(const SameContext&) = delete;

 private:
  const char* call_;
  bool watching_;
  Context before_ = nullptr;
};

}  // namespace on_device

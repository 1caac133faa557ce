// Calls that are checked: before the data moves, the ranks compare what they call, by a short call
// of gpuar's own, and the call's data waits for the answer.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "coll_gpuar/check/roll_call.h"
#include "coll_gpuar/check/signature.h"
#include "coll_gpuar/core.h"
#include "coll_gpuar/engine/run.h"

struct gpuar_comm;
struct gpuar_core;

// The check of one call.
struct gpuar_check {
  gpuar_comm* comm = nullptr;
  gpuar::Run* survey = nullptr;  // the short call
  gpuar::Run* data = nullptr;    // the call itself, which waits
  gpuar::Survey mine;
  gpuar::Survey all;
  std::shared_ptr<const gpuar::Plan> plan;  // of the call, once there is one
  gpuar::RollCall roll_call;
  bool waiting = false;  // for the answer
};

namespace gpuar {

class Checking {
 public:
  explicit Checking(int timeout_seconds);

  // In this order, with the lock held: the short call takes its place before the call's own.
  // A persistent request has one check for all its starts.
  gpuar_check* make(gpuar_comm& comm, const gpuar_args& args, CallForm form);
  void start(gpuar_check& check);
  void hold_back(gpuar_check& check, Run& data);
  // Of a persistent request that is not active.
  void free(gpuar_check* check);

  // Looks, now and then, for calls that have waited too long.
  void poll();
  // A note about a call has come.
  void take_note(gpuar_comm& comm, const MessageHeader& note);

 private:
  static void answered(void* user, int status);
  void end(gpuar_check& check);
  void ask(gpuar_check& check, std::int64_t now);
  void conclude(gpuar_check& check, std::int64_t now);

  std::int64_t timeout_;
  std::int64_t grace_;
  unsigned polls_ = 0;
  std::vector<gpuar_check*> waiting_;
  std::vector<std::unique_ptr<gpuar_check>> all_;
  std::vector<gpuar_check*> idle_;
};

}  // namespace gpuar

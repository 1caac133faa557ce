#include "coll_gpuar/checking.h"

#include <fmt/format.h>

#include <algorithm>

#include "coll_gpuar/compiled_engine.h"

namespace gpuar {
namespace {

constexpr std::int64_t second = 1'000'000'000;

Signature signature_of(const gpuar_args& args, CallForm form) {
  Signature signature;
  signature.count = args.count;
  signature.element_bytes = static_cast<std::uint32_t>(args.element_bytes);
  signature.form = form;
  signature.custom = args.custom != nullptr;
  if (!signature.custom) {
    signature.op = static_cast<std::uint8_t>(args.op);
    signature.type = static_cast<std::uint8_t>(args.type);
  }
  signature.average = args.divide_by != 0 ? 1 : 0;
  signature.commutative = args.commutative ? 1 : 0;
  return signature;
}

// Which call a note is about: its number and start in the value, its kind in the tag.
constexpr std::uint16_t present_bit = 1U << kind_bits;

std::uint64_t value_of(const Run& run) {
  return std::uint64_t{run.round} << 32 | run.sequence;
}

bool is_about(const MessageHeader& note, const Run& run) {
  return value_of(note) == value_of(run) &&
         (note.message & (present_bit - 1)) == static_cast<std::uint16_t>(run.kind);
}

// Whether this rank has come as far as the call that the note asks about.
bool has_made(Comm& comm, const MessageHeader& question) {
  const std::uint64_t value = value_of(question);
  const auto number = static_cast<std::uint32_t>(value);
  if (const Stream* stream = comm.stream(static_cast<MessageKind>(question.message))) {
    return stream->next_sequence > number;
  }
  if (number >= comm.persistent.size() || !comm.persistent[number]) return false;
  return comm.persistent[number]->round >= value >> 32;
}

}  // namespace

Checking::Checking(int timeout_seconds)
    : timeout_(timeout_seconds * second), grace_(std::min(timeout_, second)) {}

gpuar_check* Checking::make(gpuar_comm& comm, const gpuar_args& args, CallForm form) {
  if (idle_.empty()) {
    all_.push_back(std::make_unique<gpuar_check>());
    idle_.push_back(all_.back().get());
  }
  gpuar_check* check = idle_.back();
  idle_.pop_back();
  check->comm = &comm;
  check->mine = {{signature_of(args, form), comm.rank}, {}};
  check->data = nullptr;
  Run* run = check->survey = comm.core->engine.take();
  run->comm = &comm;
  run->plan = comm.survey_plan();
  run->binding = {reinterpret_cast<const std::byte*>(&check->mine),
                  reinterpret_cast<std::byte*>(&check->all),
                  {GPUAR_SUM, GPUAR_BYTE, merge_surveys}};
  run->device = {};
  run->kind = form == CallForm::persistent ? MessageKind::persistent : MessageKind::call;
  run->round = 0;
  run->own = true;
  run->check = nullptr;
  run->done = answered;
  run->user = check;
  if (form == CallForm::persistent) {
    run->sequence = static_cast<std::uint32_t>(comm.persistent.size());
    comm.persistent.push_back(run);
  }
  return check;
}

void Checking::start(gpuar_check& check) {
  gpuar_core& core = *check.comm->core;
  if (check.survey->kind == MessageKind::persistent) {
    ++check.survey->round;
  } else {
    ++check.comm->references;
  }
  core.count_active(1);
  check.waiting = true;
  check.roll_call.begin(now_ns());
  waiting_.push_back(&check);
  core.engine.start(*check.survey);
}

void Checking::hold_back(gpuar_check& check, Run& data) {
  check.data = &data;
  check.plan = std::move(data.plan);
  data.plan = nullptr;
  data.device.stage = Stage::bound;
  data.check = &check;
}

void Checking::free(gpuar_check* check) {
  check->comm->persistent[check->survey->sequence] = nullptr;
  check->comm->core->engine.give(check->survey);
  idle_.push_back(check);
}

void Checking::answered(void* user, int status) {
  auto& check = *static_cast<gpuar_check*>(user);
  gpuar_comm& comm = *check.comm;
  gpuar_core& core = *comm.core;
  const CoreLock lock(core);
  core.checking->end(check);
  if (status != GPUAR_OK || comm.status != Status::ok) return;  // the call has ended with it
  if (!agree(check.all)) {
    // Every rank finds the same: none needs to be told.
    return core.engine.end_here(comm, Status::failed, describe(check.all));
  }
  if (!check.data || !check.plan) return;  // its plan is still to come
  check.data->plan = std::move(check.plan);
  core.engine.resume(*check.data);
}

void Checking::end(gpuar_check& check) {
  check.waiting = false;
  std::erase(waiting_, &check);
  if (check.mine.first.what.form != CallForm::persistent) idle_.push_back(&check);
}

void Checking::poll() {
  constexpr unsigned one_in = 64;
  if (waiting_.empty() || ++polls_ % one_in != 0) return;
  const std::int64_t now = now_ns();
  for (gpuar_check* check : waiting_) {
    if (check->comm->status != Status::ok) continue;
    if (check->roll_call.waited_too_long(now, timeout_)) ask(*check, now);
    if (check->roll_call.is_over(now, grace_)) conclude(*check, now);
  }
}

void Checking::ask(gpuar_check& check, std::int64_t now) {
  gpuar_comm& comm = *check.comm;
  check.roll_call.ask(now, comm.size);
  for (Rank rank = 0; rank < comm.size; ++rank) {
    if (rank == comm.rank) continue;
    comm.core->engine.notify(
        comm, rank,
        note(comm.id, static_cast<std::uint32_t>(comm.rank), Note::asks, value_of(*check.survey),
             static_cast<std::uint16_t>(check.survey->kind)));
  }
}

// Others that wait in this call come to the same; those that are not in it are told.
void Checking::conclude(gpuar_check& check, std::int64_t now) {
  gpuar_comm& comm = *check.comm;
  const std::vector<Rank> missing = check.roll_call.missing(comm.rank);
  if (missing.empty()) return check.roll_call.begin(now);  // all are in it: it is only slow
  const std::string what = fmt::format(
      "not every rank makes the call (coll_gpuar_check_timeout is {} s): rank {} is in {}; {}",
      timeout_ / second, comm.rank, describe(check.mine.first.what),
      check.roll_call.describe_missing(comm.rank));
  comm.core->engine.end_here(comm, Status::failed, what);
  for (const Rank rank : missing) comm.core->engine.notify(comm, rank, abort_record(comm));
}

void Checking::take_note(gpuar_comm& comm, const MessageHeader& about) {
  const auto same = [&](const gpuar_check* check) {
    return check->comm == &comm && is_about(about, *check->survey);
  };
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), same);
  const auto from = static_cast<Rank>(about.source);
  if (note_of(about) == Note::answers) {
    if (found != waiting_.end())
      (*found)->roll_call.answer(from, (about.message & present_bit) != 0);
    return;
  }
  const std::uint16_t present = has_made(comm, about) ? present_bit : 0;
  comm.core->engine.notify(comm, from,
                           note(comm.id, static_cast<std::uint32_t>(comm.rank), Note::answers,
                                value_of(about), about.message | present));
  if (found != waiting_.end() && !(*found)->roll_call.is_asking()) ask(**found, now_ns());
}

}  // namespace gpuar

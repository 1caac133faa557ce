// The sink that turns a narrated algorithm into a schedule, inferring the dependencies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coll_gpuar/schedule/schedule.h"
#include "coll_gpuar/schedule/sink.h"

namespace gpuar {

// How a recv_reduce from several peers associates its operands (own value included).
//   chain  ((a ∘ b) ∘ c) ∘ d, in order of rank
//   tree   fixed by rank alone: the first size − 2^k even/odd neighbours are folded, then the
//          complete binary tree over the 2^k leaves, restricted to the operands present
enum class Association : std::uint8_t { chain, tree };

struct BuilderOptions {
  std::uint32_t min_slots = 4;  // scratch slots to go through before one is used again; 0 means 1
  Association association = Association::chain;
};

// Program order fixes what each step means; steps wait only for what they must:
//  - a read of a chunk, for the chunk's last writer;
//  - a write of a chunk, for its last writer and all readers since. Input and output count as the
//    same memory, so the schedule also serves MPI_IN_PLACE;
//  - the use of a scratch slot, by the same rules.
// A chunk not yet written is read from the input, so its first reduction is output = input ∘ slot
// and no initial copy is needed. A chunk that is never written is copied at the end.
//
// A reduction of several operands accumulates in scratch and writes the chunk only with its last
// step: receives then never wait for this rank's own sends, and few slots cannot deadlock.
//
// Throws std::invalid_argument on a narration that no algorithm may produce (peer or span out of
// range, peers not ascending) and std::length_error on more than 65536 messages to one peer.
class Builder final : public Sink {
 public:
  Builder(Rank rank, Rank size, std::uint32_t chunks, BuilderOptions options = {});

  void send(Rank peer, Span span) override;
  void recv(Rank peer, Span span) override;
  void recv_reduce(std::span<const Rank> peers, Span span) override;
  using Sink::recv_reduce;

  [[nodiscard]] Schedule finish() &&;

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  // What is known about the users of a chunk or of a slot.
  struct Memory {
    std::uint32_t writer = none;
    std::uint32_t readers = none;  // since the writer: head of a list in readers_
  };
  struct Reader {
    std::uint32_t step;
    std::uint32_t next;
  };
  struct Slot {
    Memory memory;
    bool live = false;  // holds a value that a later step of the same reduction will read
  };
  struct Term {  // an operand of a reduction, or the value of several neighbouring ones
    Operand operand;
    Rank rank;
  };

  void check(Rank peer, Span span) const;
  void check(Span span) const;
  [[nodiscard]] bool written(std::uint32_t chunk) const { return chunks_[chunk].writer != none; }

  Step message(Verb verb, Rank peer, Span span);
  void emit_reduce(Operand target, Operand source, Operand other, Span span);
  void emit(const Step& step);
  void read(Operand operand, Span span);
  void write(Operand operand, Span span);
  void read(Memory& memory);
  void write(Memory& memory);
  void depend_on(std::uint32_t step);

  Operand settle(Span span);
  void copy_unwritten(Span span);
  Term receive(Rank peer, Span span);
  Term combine(const Term& left, const Term& right, Span span);
  Operand acquire_slot();
  void release(Operand operand);
  [[nodiscard]] std::uint32_t height(Rank left, Rank right) const;

  void index_successors();
  void index_receives();

  BuilderOptions options_;
  Schedule schedule_;
  std::vector<Memory> chunks_;
  std::vector<Slot> slots_;
  std::size_t next_slot_ = 0;
  std::vector<Reader> readers_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges_;  // earlier step, later step
  std::vector<std::uint32_t> last_edge_;  // by step: the step that last came to depend on it
  std::unordered_map<Rank, std::uint32_t> sent_;
  std::unordered_map<Rank, std::uint32_t> received_;
};

}  // namespace gpuar

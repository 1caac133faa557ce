// What an algorithm talks to. An algorithm narrates, in program order, what one rank does with
// chunks; a sink listens: the builder, the printer, the cost model, the documentation.
#pragma once

#include <cstdint>
#include <span>

namespace gpuar {

using Rank = std::int32_t;

// A run of consecutive chunks.
struct Span {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  friend bool operator==(const Span&, const Span&) = default;
};

class Sink {
 public:
  virtual ~Sink() = default;

  // Sends the current value of the span to `peer`.
  virtual void send(Rank peer, Span span) = 0;

  // Receives the span from `peer`; it replaces the current value.
  virtual void recv(Rank peer, Span span) = 0;

  // Receives a contribution from each peer and reduces all of them with the current value of the
  // span, operands in ascending order of rank (own value included). `peers` is ascending. The
  // builder decides the association: a chain from left to right, or the complete binary tree over
  // ranks that `reproducible` asks for.
  virtual void recv_reduce(std::span<const Rank> peers, Span span) = 0;

  void recv_reduce(Rank peer, Span span) { recv_reduce(std::span<const Rank>(&peer, 1), span); }
};

}  // namespace gpuar

#include "coll_gpuar/selection/walk.h"

#include <algorithm>
#include <map>
#include <queue>
#include <utility>
#include <vector>

#include "coll_gpuar/selection/rates.h"
#include "coll_gpuar/selection/saturating.h"

namespace gpuar {
namespace {

using Time = std::uint64_t;

// Of many segments, so many times those in flight are walked.
constexpr std::uint64_t walked_laps = 4;

// Something that one message or reduction has at a time.
class Resource {
 public:
  // The start of the next use; call in the order of arrival.
  Time take(Time now, Time duration) {
    const Time start = std::max(now, free_);
    free_ = start + duration;
    busy_ += duration;
    return start;
  }

  [[nodiscard]] Time busy() const { return busy_; }

 private:
  Time free_ = 0;
  Time busy_ = 0;  // in all
};

struct Event {
  enum class Kind : std::uint8_t {
    leaves,  // a message: for the port of its node
    enters,  // a message: at the port of the receiver's node
    copies,  // a message: for the receiver's core, within a node
    ends,    // a step's work
  };
  Time time;
  std::uint64_t order;
  std::uint32_t program;
  std::uint32_t step;
  std::uint32_t segment;
  Kind kind;

  bool operator>(const Event& other) const {
    return std::pair(time, order) > std::pair(other.time, other.order);
  }
};

class Walk {
 public:
  Walk(const Programs& programs, const Choice& choice, const CallShape& shape, const Fabric& fabric)
      : programs_(programs),
        fabric_(fabric),
        element_(element_of(shape)),
        segment_elements_(std::min(choice.segment_bytes, shape.bytes) / element_),
        depth_(choice.depth),
        shared_memory_(
            rated(fabric.machine.shared_memory, 1, shape, segment_bytes(), fabric.machine)),
        between_parts_(
            rated(fabric.machine.between_parts, 1, shape, segment_bytes(), fabric.machine)),
        network_(rated(fabric.machine.network, 1, shape, segment_bytes(), fabric.machine)),
        reduce_byte_(reduce_rate(shape, segment_bytes(), fabric.machine)),
        ranks_(programs.all.size()) {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      ranks_[i].waiting.resize(depth_ * steps(i).size());
    }
    make_ports();
    ways_out_.resize(programs.ranks_of_part.size());
    for (std::size_t part = 0; part < ways_out_.size(); ++part) {
      ways_out_[part].ranks = programs.ranks_of_part[part];
    }
    if (!ways_out_.empty()) {
      for (const Programs::Program& program : programs.all) ++ways_out_[program.part].walked;
    }
  }

  // By segment, the moment in which the last rank is done with it.
  std::vector<Time> run(std::uint32_t segments) {
    ended_.assign(segments, 0);
    for (std::uint32_t program = 0; program < ranks_.size(); ++program) {
      ranks_[program].left.assign(segments, static_cast<std::uint32_t>(steps(program).size()));
      for (std::uint32_t segment = 0; segment < std::min(segments, depth_); ++segment) {
        open(program, segment, 0);
      }
    }
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      happen(event);
    }
    return ended_;
  }

  // Of the resource that has most to do, in all.
  [[nodiscard]] Time busiest() const {
    Time most_busy = 0;
    for (const Process& rank : ranks_) {
      for (const Resource* resource :
           {&rank.out, &rank.in, &rank.core, &rank.to_network, &rank.from_network}) {
        most_busy = std::max(most_busy, resource->busy());
      }
    }
    for (const Port& port : ports_) {
      most_busy = std::max({most_busy, port.out.busy(), port.in.busy()});
    }
    for (const Port& way : ways_out_) most_busy = std::max(most_busy, way.out.busy());
    return most_busy;
  }

 private:
  struct Process {
    std::vector<std::uint32_t> waiting;  // by segment in flight and step
    std::vector<std::uint32_t> left;     // by segment: steps that have not ended
    std::uint32_t opened = 0;            // segments
    Resource out, in, core;              // within the node; the core reduces, too
    Resource to_network, from_network;
    std::uint32_t port = 0;
  };
  struct Port {
    Resource out, in;
    std::uint32_t ranks = 0;
    std::uint32_t walked = 0;  // of these
  };

  [[nodiscard]] std::uint64_t segment_bytes() const { return segment_elements_ * element_; }
  [[nodiscard]] const std::vector<Step>& steps(std::size_t program) const {
    return programs_.all[program].schedule.steps;
  }
  [[nodiscard]] const Step& step_of(const Event& event) const {
    return steps(event.program)[event.step];
  }
  [[nodiscard]] std::uint64_t bytes_of(const Event& event) const {
    const std::uint32_t chunks = programs_.all[event.program].schedule.chunks;
    return span_range(segment_elements_, chunks, step_of(event).span).count * element_;
  }
  [[nodiscard]] Reach reach_of(const Event& event) const {
    return programs_.all[event.program].reach[event.step];
  }
  [[nodiscard]] const Receiver& receiver_of(const Event& event) const {
    return programs_.all[event.program].receivers[event.step];
  }
  std::uint32_t& waiting(std::uint32_t program, std::uint32_t step, std::uint32_t segment) {
    return ranks_[program].waiting[segment % depth_ * steps(program).size() + step];
  }

  void make_ports() {
    const auto& sizes = programs_.ranks_of_node;
    const std::uint32_t largest = *std::max_element(sizes.begin(), sizes.end());
    const std::uint32_t each = std::clamp<std::uint32_t>(fabric_.machine.ports, 1, largest);
    const auto port_of = [&](std::uint32_t node, std::uint32_t place) {
      return node * each + place * each / std::max(sizes[node], each);
    };
    ports_.resize(std::size_t{programs_.nodes} * each);
    for (std::uint32_t node = 0; node < programs_.nodes; ++node) {
      for (std::uint32_t place = 0; place < programs_.ranks_of_node[node]; ++place) {
        ++ports_[port_of(node, place)].ranks;
      }
    }
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      ranks_[i].port = port_of(programs_.all[i].node, programs_.all[i].place);
      ++ports_[ranks_[i].port].walked;
    }
  }

  void schedule(Time time, Event::Kind kind, const Event& of) {
    events_.push({time, order_++, of.program, of.step, of.segment, kind});
  }

  void open(std::uint32_t program, std::uint32_t segment, Time now) {
    const std::vector<Step>& all = steps(program);
    ranks_[program].opened = segment + 1;
    for (std::uint32_t i = 0; i < all.size(); ++i) {
      // A receive waits for its message as well.
      waiting(program, i, segment) = all[i].dependencies + (all[i].verb == Verb::recv ? 1 : 0);
    }
    for (const std::uint32_t i : programs_.all[program].schedule.initial) {
      if (all[i].verb != Verb::recv) start({now, 0, program, i, segment, Event::Kind::ends});
    }
    const auto early = early_.find({program, segment});
    if (early == early_.end()) return;
    const std::vector<std::uint32_t> arrived = std::move(early->second);
    early_.erase(early);
    for (const std::uint32_t i : arrived) arrive({now, 0, program, i, segment, Event::Kind::ends});
  }

  // A step whose dependencies are met.
  void start(const Event& event) {
    Process& rank = ranks_[event.program];
    switch (step_of(event).verb) {
      case Verb::recv:
        return ended(event);
      case Verb::send:
        return send(event);
      case Verb::reduce:
      case Verb::copy: {
        const Time taken = fabric_.launch + bytes_of(event) * reduce_byte_;
        schedule(rank.core.take(event.time, taken) + taken, Event::Kind::ends, event);
      }
    }
  }

  // At either end of a message.
  [[nodiscard]] Time at_end(const Event& event, const Link& any_link) const {
    const std::uint64_t bytes = bytes_of(event);
    const Link link = for_messages_of(bytes, any_link);
    return plus(link.message, times(bytes, link.byte));
  }

  // At a port, on behalf of all ranks that share it and are not walked.
  [[nodiscard]] Time at_port(const Event& event, const Port& port) const {
    return bytes_of(event) * fabric_.machine.network.byte * divide_up(port.ranks, port.walked);
  }

  // On the way.
  [[nodiscard]] Time stored(const Event& event, const Link& link) const {
    return times(bytes_of(event), link.stored_byte);
  }

  // Within a node.
  [[nodiscard]] const Link& memory_of(Reach reach) const {
    return reach == Reach::other_part ? between_parts_ : shared_memory_;
  }

  void send(const Event& event) {
    const Reach reach = reach_of(event);
    Process& rank = ranks_[event.program];
    if (reach == Reach::other_node) {
      const Time begun = rank.to_network.take(event.time, at_end(event, network_));
      return schedule(begun + network_.message, Event::Kind::leaves, event);
    }
    const Link& link = memory_of(reach);
    const Time taken = at_end(event, link);
    Time begun = rank.out.take(event.time, taken);
    if (reach == Reach::other_part) begun = leave_part(event, begun, taken);
    schedule(begun + link.latency + stored(event, link), Event::Kind::copies, event);
    schedule(begun + taken, Event::Kind::ends, event);
  }

  // The way between packages is shared by all ranks of one; those that are not walked take their
  // turns, too. A message ends no earlier at either end than there.
  Time leave_part(const Event& event, Time begun, Time taken) {
    Port& way = ways_out_[programs_.all[event.program].part];
    const Time all = bytes_of(event) * between_parts_.byte * divide_up(way.ranks, way.walked);
    const Time there = all / fabric_.machine.streams;
    return way.out.take(begun, there) + (there > taken ? there - taken : 0);
  }

  void leave(const Event& event) {
    Port& port = ports_[ranks_[event.program].port];
    const Time taken = at_port(event, port);
    const Time begun = port.out.take(event.time, taken);
    schedule(begun + network_.latency + stored(event, network_), Event::Kind::enters, event);
    const Time sent = event.time - network_.message + at_end(event, network_);
    schedule(std::max(begun + taken, sent), Event::Kind::ends, event);
  }

  void enter(const Event& event) {
    const Receiver& to = receiver_of(event);
    Port& port = ports_[ranks_[to.program].port];
    const Time taken = at_port(event, port);
    const Time begun = port.in.take(event.time, taken);
    const Time at_rank = at_end(event, network_);
    const Time in =
        ranks_[to.program].from_network.take(begun - network_.message, at_rank) + at_rank;
    schedule(std::max(begun + taken, in), Event::Kind::ends,
             {0, 0, to.program, to.step, event.segment, Event::Kind::ends});
  }

  void copy(const Event& event, const Link& link) {
    const Receiver& to = receiver_of(event);
    Process& rank = ranks_[to.program];
    const Time taken = at_end(event, link);
    Resource& by = fabric_.machine.moves_by_itself ? rank.in : rank.core;
    schedule(by.take(event.time, taken) + taken, Event::Kind::ends,
             {0, 0, to.program, to.step, event.segment, Event::Kind::ends});
  }

  void happen(const Event& event) {
    switch (event.kind) {
      case Event::Kind::leaves:
        return leave(event);
      case Event::Kind::enters:
        return enter(event);
      case Event::Kind::copies:
        return copy(event, memory_of(reach_of(event)));
      case Event::Kind::ends:
        return step_of(event).verb == Verb::recv ? arrive(event) : ended(event);
    }
  }

  // A message, whether or not its receiver has come as far.
  void arrive(const Event& event) {
    if (event.segment >= ranks_[event.program].opened) {
      early_[{event.program, event.segment}].push_back(event.step);
      return;
    }
    met(event);
  }

  void met(const Event& event) {
    if (--waiting(event.program, event.step, event.segment) == 0) start(event);
  }

  void ended(const Event& event) {
    const Schedule& schedule = programs_.all[event.program].schedule;
    const Step& step = schedule.steps[event.step];
    for (std::uint32_t k = 0; k < step.successor_count; ++k) {
      Event later = event;
      later.step = schedule.successors[step.first_successor + k];
      met(later);
    }
    std::vector<std::uint32_t>& left = ranks_[event.program].left;
    if (--left[event.segment] > 0) return;
    ended_[event.segment] = std::max(ended_[event.segment], event.time);
    // The next one takes the place of the oldest.
    for (std::uint32_t next = ranks_[event.program].opened;
         next < left.size() && left[next - depth_] == 0; ++next) {
      open(event.program, next, event.time);
    }
  }

  const Programs& programs_;
  const Fabric& fabric_;
  const std::uint64_t element_;
  const std::uint64_t segment_elements_;
  const std::uint32_t depth_;
  const Link shared_memory_;
  const Link between_parts_;
  const Link network_;
  const std::uint64_t reduce_byte_;
  std::vector<Process> ranks_;
  std::vector<Port> ports_;
  std::vector<Port> ways_out_;  // of each part of a node, to the others
  std::vector<Time> ended_;
  std::uint64_t order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  // Messages for segments that their receiver has not opened yet.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>> early_;
};

std::uint64_t sent_bytes(const Programs::Program& program, std::uint64_t elements,
                         std::uint64_t element, bool to_network) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < program.schedule.steps.size(); ++i) {
    const Step& step = program.schedule.steps[i];
    if (step.verb != Verb::send || (to_network && program.reach[i] != Reach::other_node)) continue;
    bytes += span_range(elements, program.schedule.chunks, step.span).count * element;
  }
  return bytes;
}

}  // namespace

std::uint64_t walk(const Programs& programs, const Choice& choice, const CallShape& shape,
                   const Fabric& fabric) {
  const std::uint64_t segments =
      std::max<std::uint64_t>(divide_up(shape.bytes, choice.segment_bytes), 1);
  const auto some = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(segments, walked_laps * std::uint64_t{choice.depth}));
  Walk walk(programs, choice, shape, fabric);
  const std::vector<Time> ended = walk.run(some);
  if (segments == some) return ended.back();
  const std::uint64_t later = some / 2;
  const Time interval = std::max(divide_up(ended.back() - ended[some - 1 - later], later),
                                 divide_up(walk.busiest(), some));
  return plus(ended.back(), times(segments - some, interval));
}

Traffic traffic(const Programs& programs, const CallShape& shape) {
  Traffic traffic;
  std::vector<std::uint64_t> of_node(programs.nodes);
  std::vector<std::uint32_t> walked(programs.nodes);
  const std::uint64_t element = element_of(shape);
  for (const Programs::Program& program : programs.all) {
    traffic.of_rank =
        std::max(traffic.of_rank, sent_bytes(program, shape.bytes / element, element, false));
    of_node[program.node] += sent_bytes(program, shape.bytes / element, element, true);
    ++walked[program.node];
  }
  for (std::uint32_t node = 0; node < programs.nodes; ++node) {
    if (walked[node] == 0) continue;
    traffic.of_node =
        std::max(traffic.of_node, of_node[node] * (programs.ranks_of_node[node] / walked[node]));
  }
  return traffic;
}

}  // namespace gpuar

#include "coll_gpuar/schedule/printer.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpuar {
namespace {

std::string text(Span span) {
  std::string text = "[";
  text += std::to_string(span.first);
  if (span.count > 1) text += "…" + std::to_string(span.first + span.count - 1);
  return text + "]";
}

std::string text(Operand operand) {
  switch (operand.place) {
    case Place::input:
      return "input";
    case Place::output:
      return "output";
    case Place::slot:
      break;
  }
  return "slot " + std::to_string(operand.slot);
}

std::string text(const Step& step) {
  const std::string peer = "rank " + std::to_string(step.peer);
  const std::string message = "  message " + std::to_string(step.message);
  switch (step.verb) {
    case Verb::send:
      return "send    " + text(step.span) + "  " + text(step.source) + " → " + peer + message;
    case Verb::recv:
      return "recv    " + text(step.span) + "  " + peer + " → " + text(step.target) + message;
    case Verb::reduce:
      return "reduce  " + text(step.span) + "  " + text(step.target) + " = " + text(step.source) +
             " ∘ " + text(step.other);
    case Verb::copy:
      break;
  }
  return "copy    " + text(step.span) + "  " + text(step.target) + " = " + text(step.source);
}

template <class Function>
void for_each_edge(const Schedule& schedule, Function function) {
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    for (std::uint32_t k = 0; k < step.successor_count; ++k) {
      function(i, schedule.successors[step.first_successor + k]);
    }
  }
}

}  // namespace

std::string to_text(const Schedule& schedule) {
  std::vector<std::string> after(schedule.steps.size());
  for_each_edge(schedule, [&](std::size_t earlier, std::size_t later) {
    after[later] += (after[later].empty() ? "  after " : ", ") + std::to_string(earlier);
  });
  std::string lines;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const std::string number = std::to_string(i);
    lines += std::string(number.size() < 3 ? 3 - number.size() : 0, ' ') + number + "  " +
             text(schedule.steps[i]) + after[i] + "\n";
  }
  return lines;
}

std::string to_dot(const Schedule& schedule) {
  std::string dot = "digraph rank_" + std::to_string(schedule.rank) + " {\n";
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    dot += "  s" + std::to_string(i) + " [label=\"" + text(schedule.steps[i]) + "\"];\n";
  }
  for_each_edge(schedule, [&](std::size_t earlier, std::size_t later) {
    dot += "  s" + std::to_string(earlier) + " -> s" + std::to_string(later) + ";\n";
  });
  return dot + "}\n";
}

}  // namespace gpuar

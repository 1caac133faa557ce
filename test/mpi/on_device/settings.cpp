#include "settings.h"

#include <cstdlib>

namespace on_device {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t to = std::min(text.find(separator, from), text.size());
    if (to > from) parts.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

std::vector<Kind> kinds(const std::string& text) {
  std::vector<Kind> found;
  for (const std::string& word : split(text, '+')) {
    const std::size_t before = found.size();
    for (const Kind kind : all_kinds) {
      if (word == name_of(kind)) found.push_back(kind);
    }
    if (found.size() == before) die("GPUAR_TEST_MEMORY: no kind of memory is called " + word);
  }
  if (found.empty()) die("GPUAR_TEST_MEMORY: a kind of memory is missing");
  return found;
}

Current current(const std::string& text) {
  if (text == "own") return Current::own;
  if (text == "none") return Current::none;
  if (text == "other") return Current::other;
  die("GPUAR_TEST_MEMORY: current=" + text + " is none of own, none, other");
}

void read_word(const std::string& word, int world_rank, Settings& s) {
  const std::size_t equals = word.find('=');
  const std::string key = word.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
  const char* const mine = world_rank % 2 == 0 ? "even" : "odd";
  if (key == "early") {
    s.start = Start::early;
  } else if (key == "reuse") {
    s.addresses = Addresses::reused;
  } else if (key == "shutdown") {
    s.end = End::shutdown;
  } else if (key == "devices") {
    s.devices = std::atoi(value.c_str());
    if (s.devices < 1) die("GPUAR_TEST_MEMORY: devices=" + value + " is not 1 or more");
  } else if (key == "current") {
    s.current = current(value);
  } else if (key == "send") {
    s.send = kinds(value);
  } else if (key == "receive") {
    s.receive = kinds(value);
  } else if (key == mine) {
    s.send = s.receive = kinds(value);
  } else if (key == "odd" || key == "even") {
    kinds(value);
  } else {
    s.send = s.receive = kinds(word);
  }
}

int world_rank() {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank ? std::atoi(rank) : 0;
}

}  // namespace

Settings parse(const std::string& text, int rank) {
  Settings s;
  for (const std::string& word : split(text, ',')) read_word(word, rank, s);
  return s;
}

const Settings& settings() {
  static const Settings of_process = [] {
    const char* text = std::getenv("GPUAR_TEST_MEMORY");
    return parse(text ? text : "device", world_rank());
  }();
  return of_process;
}

}  // namespace on_device

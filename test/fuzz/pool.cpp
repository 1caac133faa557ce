#include "test/fuzz/pool.h"

#include <algorithm>
#include <numeric>

namespace fuzz {
namespace {

constexpr std::size_t most_communicators = 20;

std::vector<int> shuffled(std::vector<int> values, Draw& draw) {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[draw.below(i)]);
  return values;
}

}  // namespace

Pool::Pool(MPI_Comm root) : root_(root) {
  int size = 0;
  MPI_Comm_size(root, &size);
  std::vector<int> everybody(static_cast<std::size_t>(size));
  std::iota(everybody.begin(), everybody.end(), 0);
  communicators_.push_back({root, everybody});
}

Pool::~Pool() {
  while (communicators_.size() > 1) free(communicators_.size() - 1);
}

void Pool::free(std::size_t index) {
  Communicator& going = communicators_[index];
  if (going.handle != MPI_COMM_NULL) MPI_Comm_free(&going.handle);
  communicators_.erase(communicators_.begin() + static_cast<std::ptrdiff_t>(index));
}

void Pool::change(Draw& draw) {
  if (communicators_.size() > 1 &&
      (communicators_.size() >= most_communicators || draw.one_in(3))) {
    return free(1 + draw.below(communicators_.size() - 1));
  }
  const Communicator parent = communicators_[draw.below(communicators_.size())];
  switch (draw.below(4)) {
    case 0:
      return duplicate(parent);
    case 1:
      return create_group(parent, draw);
    default:
      return split(parent, draw);
  }
}

void Pool::duplicate(const Communicator& parent) {
  Communicator made{MPI_COMM_NULL, parent.members};
  if (parent.handle != MPI_COMM_NULL) MPI_Comm_dup(parent.handle, &made.handle);
  communicators_.push_back(made);
  ++made_;
}

// Into one, two or three; perhaps some members go without. Ranks in order, reversed, or in any.
void Pool::split(const Communicator& parent, Draw& draw) {
  const std::size_t parts = 1 + draw.below(3);
  const bool some_without = draw.one_in(4);
  const std::size_t order = draw.below(3);
  struct Choice {
    int color;
    int key;
    int member;
  };
  std::vector<Choice> choices;
  for (std::size_t i = 0; i < parent.members.size(); ++i) {
    const int color =
        some_without && draw.one_in(4) ? MPI_UNDEFINED : static_cast<int>(draw.below(parts));
    const int random = static_cast<int>(draw.below(100));
    const int position = static_cast<int>(i);
    const int key = order == 0 ? position : order == 1 ? -position : random;
    choices.push_back({color, key, parent.members[i]});
  }
  int self = 0;
  MPI_Comm_rank(root_, &self);
  MPI_Comm mine = MPI_COMM_NULL;
  int my_color = MPI_UNDEFINED;
  for (const Choice& choice : choices) {
    if (choice.member != self) continue;
    my_color = choice.color;
    MPI_Comm_split(parent.handle, choice.color, choice.key, &mine);
  }
  std::stable_sort(choices.begin(), choices.end(),
                   [](const Choice& a, const Choice& b) { return a.key < b.key; });
  for (int color = 0; color < static_cast<int>(parts); ++color) {
    Communicator made;
    for (const Choice& choice : choices) {
      if (choice.color == color) made.members.push_back(choice.member);
    }
    if (made.members.empty()) continue;
    if (my_color == color) made.handle = mine;
    communicators_.push_back(made);
    ++made_;
  }
}

// Of some of the parent's members, in any order; only these take part.
void Pool::create_group(const Communicator& parent, Draw& draw) {
  Communicator made{MPI_COMM_NULL, shuffled(parent.members, draw)};
  made.members.resize(1 + draw.below(made.members.size()));
  int self = 0;
  MPI_Comm_rank(root_, &self);
  if (std::find(made.members.begin(), made.members.end(), self) != made.members.end()) {
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group some = MPI_GROUP_NULL;
    MPI_Comm_group(root_, &all);
    MPI_Group_incl(all, static_cast<int>(made.members.size()), made.members.data(), &some);
    MPI_Comm_create_group(root_, some, static_cast<int>(made_ % 1000), &made.handle);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
  }
  communicators_.push_back(made);
  ++made_;
}

}  // namespace fuzz

// A one-way queue of short messages between two processes of one machine, in memory that both see.
//
// A letter's first line holds its turn, its header and the first bytes of the payload: a message of
// up to 40 bytes moves one cache line from the writer's core to the reader's, and no other. How
// many letters are taken is told once in a quarter of the queue, so that this line moves rarely.
//
// The writer writes the first line last and in one go; the reader asks for the other lines of a
// letter as long as the last one's while it still waits for the first: they come at the same time.
// Of 0.50 µs for an allreduce of 64 to 256 bytes that saves 5 %, of 0.75 for 512 bytes too.
//
// One writer, one reader. Free of UCX: ucx_mailboxes.cpp finds the memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gpuar {

constexpr std::size_t line_bytes = 64;  // of the cache

struct alignas(128) Letter {  // two lines: processors fetch them in pairs
  std::uint32_t turn;         // n when the n-th letter is complete here
  std::uint16_t header_bytes;
  std::uint16_t bytes;
  std::byte content[4216];  // the header, then the payload
};
static_assert(sizeof(Letter) == 4224);

struct Mailbox {
  static constexpr std::uint32_t letters = 16;

  alignas(128) std::uint32_t attached;  // by the reader, once it looks here
  alignas(128) std::uint32_t taken;  // by the reader; the writer may be a few letters ahead of it
  Letter letter[letters];
};

class MailboxWriter {
 public:
  // The most that a letter carries behind a header of any kind.
  static constexpr std::size_t most_bytes = 4096;

  MailboxWriter() = default;
  explicit MailboxWriter(Mailbox& box) : box_(&box) {}

  // Whether there is a reader.
  bool attached() const { return box_ != nullptr && load(box_->attached) != 0; }

  // False if all letters are full; nothing is written then.
  bool put(const void* header, std::size_t header_bytes, const void* data, std::size_t bytes) {
    if (written_ - taken_ == Mailbox::letters) {
      taken_ = load(box_->taken);
      if (written_ - taken_ >= Mailbox::letters) return false;
    }
    Letter& letter = box_->letter[written_ % Mailbox::letters];
    std::byte* const payload = letter.content + header_bytes;
    const std::size_t first = std::min(bytes, first_line - header_bytes);
    const auto* const from = static_cast<const std::byte*>(data);
    if (bytes > first) std::memcpy(payload + first, from + first, bytes - first);
    letter.header_bytes = static_cast<std::uint16_t>(header_bytes);
    letter.bytes = static_cast<std::uint16_t>(bytes);
    std::memcpy(letter.content, header, header_bytes);
    if (first > 0) std::memcpy(payload, from, first);
    std::atomic_ref(letter.turn).store(++written_, std::memory_order_release);
    return true;
  }

 private:
  static constexpr std::size_t first_line = line_bytes - offsetof(Letter, content);

  static std::uint32_t load(std::uint32_t& word) {
    return std::atomic_ref(word).load(std::memory_order_acquire);
  }

  Mailbox* box_ = nullptr;
  std::uint32_t written_ = 0;
  std::uint32_t taken_ = 0;  // as last looked up
};

class MailboxReader {
 public:
  // From here on the writer is listened to.
  explicit MailboxReader(Mailbox& box) : box_(&box) {
    std::atomic_ref(box.attached).store(1, std::memory_order_release);
  }

  // Whether the next letter has come.
  bool has_letter() const {
    Letter& letter = box_->letter[taken_ % Mailbox::letters];
    if (std::atomic_ref(letter.turn).load(std::memory_order_acquire) == taken_ + 1) return true;
    for (std::size_t at = line_bytes; at < ahead_; at += line_bytes)
      __builtin_prefetch(reinterpret_cast<const std::byte*>(&letter) + at);
    return false;
  }

  // Gives the next letter, if there is one, to deliver(header, header_bytes, data, bytes), which
  // must copy what it wants to keep. Whether there was one. The lengths are within the letter,
  // whatever the writer wrote.
  template <class Deliver>
  bool take(Deliver deliver) {
    if (!has_letter()) return false;
    Letter& letter = box_->letter[taken_ % Mailbox::letters];
    const std::size_t header_bytes =
        std::min<std::size_t>(letter.header_bytes, sizeof letter.content);
    const std::size_t bytes =
        std::min<std::size_t>(letter.bytes, sizeof letter.content - header_bytes);
    deliver(letter.content, header_bytes, letter.content + header_bytes, bytes);
    ahead_ = std::min(offsetof(Letter, content) + header_bytes + bytes, most_ahead);
    ++taken_;
    if (taken_ % (Mailbox::letters / 4) == 0)
      std::atomic_ref(box_->taken).store(taken_, std::memory_order_release);
    return true;
  }

 private:
  static constexpr std::size_t most_ahead = 9 * line_bytes;  // beyond, the processor sees it coming

  Mailbox* box_;
  std::uint32_t taken_ = 0;
  std::size_t ahead_ = 0;
};

}  // namespace gpuar

// What went wrong, in words. It takes no memory of the heap: that there is none may be what it
// says.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <string_view>

namespace gpuar {

class Sentence {
 public:
  // Of texts and numbers. What is too long is cut.
  template <class... Parts>
  explicit(false) Sentence(const Parts&... parts) {
    (add(parts), ...);
  }
  std::string_view text() const { return {text_.data(), length_}; }

 private:
  template <class Part>
  void add(const Part& part) {
    if constexpr (std::integral<Part>) {
      std::array<char, 24> digits{};
      const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), part).ptr;
      append({digits.data(), static_cast<std::size_t>(end - digits.data())});
    } else if constexpr (std::same_as<Part, Sentence>) {
      append(part.text());
    } else {
      append(part);
    }
  }
  void append(std::string_view text) {
    const std::size_t bytes = std::min(text.size(), text_.size() - length_);
    std::copy_n(text.begin(), bytes, text_.begin() + static_cast<std::ptrdiff_t>(length_));
    length_ += bytes;
  }

  std::array<char, 512> text_{};
  std::size_t length_ = 0;
};

}  // namespace gpuar

// The lines of a text, with the places that messages name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace packtrain {

// A line that is longer is a fault of the file: what reads it needs a dozen times its size.
inline constexpr std::size_t kMaxLineBytes = std::size_t{64} << 20U;

struct TextLine {
  std::int64_t number = 1;  // physical, from 1
  std::size_t begin = 0;    // its first byte in the file, from 0
  std::string_view text;    // without its line feed

  bool is_blank() const { return text.find_first_not_of(" \t\r") == std::string_view::npos; }
};

class LineReader {
 public:
  // A byte order mark at the start is no part of the first line.
  explicit LineReader(std::string_view text);
  std::optional<TextLine> next();

 private:
  std::string_view text_;
  std::size_t begin_ = 0;
  std::int64_t number_ = 0;
};

}  // namespace packtrain

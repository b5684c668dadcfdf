// Reads the lines of a text with their places for messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace packtrain {

// A longer line is an error of the file, because a parser needs a dozen times its size in memory.
inline constexpr std::size_t kMaxLineBytes = std::size_t{64} << 20U;

struct TextLine {
  std::int64_t number = 1;  // counted from 1, with blank lines
  std::size_t begin = 0;    // byte offset of the line in the file
  std::string_view text;    // without the newline

  bool is_blank() const { return text.find_first_not_of(" \t\r") == std::string_view::npos; }
};

class LineReader {
 public:
  // A byte order mark at the start is not part of the first line.
  explicit LineReader(std::string_view text);
  std::optional<TextLine> next();

 private:
  std::string_view text_;
  std::size_t begin_ = 0;
  std::int64_t number_ = 0;
};

}  // namespace packtrain

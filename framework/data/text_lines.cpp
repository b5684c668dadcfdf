#include "framework/data/text_lines.h"

#include <algorithm>

namespace packtrain {

LineReader::LineReader(std::string_view text) : text_(text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text_.starts_with(kByteOrderMark)) begin_ = kByteOrderMark.size();
}

std::optional<TextLine> LineReader::next() {
  if (begin_ >= text_.size()) return std::nullopt;
  const std::size_t end = std::min(text_.find('\n', begin_), text_.size());
  const TextLine line{++number_, begin_, text_.substr(begin_, end - begin_)};
  begin_ = end + 1;
  return line;
}

}  // namespace packtrain

#include "training/comparison/table_text.h"

#include <algorithm>

namespace packtrain {
namespace {

// Counts characters, not bytes, by leaving out continuation bytes of UTF-8.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::string aligned_table(const std::vector<TableRow>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const TableRow& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width(row[c]));
  }
  std::string text;
  for (const TableRow& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string fill(widths[c] - width(row[c]), ' ');
      text += c == 0 ? row[c] + fill
                     : "  " + fill + row[c];  // names left-aligned, figures right-aligned
    }
    text += '\n';
  }
  return text;
}

std::string markdown_table(const std::vector<TableRow>& rows) {
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (const std::string& value : rows[r]) text += "| " + value + " ";
    text += "|\n";
    if (r > 0) continue;
    for (std::size_t c = 0; c < rows[r].size(); ++c) text += c == 0 ? "|---" : "|---:";
    text += "|\n";
  }
  return text;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace packtrain

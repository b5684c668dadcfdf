#include "framework/device/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

namespace packtrain {
namespace {

// Rows from top to bottom. Other rows follow.
constexpr auto kRowOrder =
    std::to_array<std::string_view>({"host", "compute", "gather", "reduce", "copy", "data"});

std::string quoted(const std::string& text) {
  using nlohmann::json;
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

// Position of a row. "gather 2" has that of "gather".
std::size_t place_of(std::string_view row) {
  const auto begins = [&](std::string_view known) { return row.starts_with(known); };
  return std::ranges::find_if(kRowOrder, begins) - kRowOrder.begin();
}

// Thread numbers, in the order of the rows.
std::map<std::string, int> number_rows(std::span<const TimelineSpan> spans) {
  std::map<std::string, int> numbers;
  for (const TimelineSpan& span : spans) numbers[span.row] = 0;
  std::vector<std::string> rows;
  for (const auto& [row, number] : numbers) rows.push_back(row);
  std::ranges::stable_sort(rows, {}, place_of);
  int next = 0;
  for (const std::string& row : rows) numbers[row] = next++;
  return numbers;
}

void append_name(std::string& text, const char* what, int rank, int thread,
                 const std::string& name) {
  fmt::format_to(std::back_inserter(text),
                 R"({{"ph":"M","name":"{}_name","pid":{},"tid":{},"args":{{"name":{}}}}},)"
                 "\n"
                 R"({{"ph":"M","name":"{}_sort_index","pid":{},"tid":{},)"
                 R"("args":{{"sort_index":{}}}}},)"
                 "\n",
                 what, rank, thread, quoted(name), what, rank, thread,
                 std::string_view(what) == "process" ? rank : thread);
}

// Microseconds with three decimals.
std::string microseconds(std::int64_t ns) {
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
}

void append_span(std::string& text, const TimelineSpan& span, const TraceProcess& process,
                 int thread) {
  const auto out = std::back_inserter(text);
  fmt::format_to(out, R"({{"ph":"X","name":{},"cat":{},"pid":{},"tid":{},"ts":{},"dur":{})",
                 quoted(span.name), quoted(span.category), process.rank, thread,
                 microseconds(span.begin_ns - process.origin_ns),
                 microseconds(span.end_ns - span.begin_ns));
  const char* before = R"(,"args":{)";
  for (const auto& [key, value] : span.details) {
    fmt::format_to(out, "{}{}:{}", before, quoted(key), quoted(value));
    before = ",";
  }
  text += span.details.empty() ? "},\n" : "}},\n";
}

}  // namespace

std::string chrome_trace(std::span<const TimelineSpan> spans, const TraceProcess& process) {
  const std::map<std::string, int> rows = number_rows(spans);
  std::string text = fmt::format(
      R"({{"displayTimeUnit":"ms","otherData":{{"rank":{},"origin_unix_ns":{}}},"traceEvents":[)"
      "\n",
      process.rank, process.origin_ns);
  append_name(text, "process", process.rank, 0, process.name);
  for (const auto& [row, number] : rows) {
    append_name(text, "thread", process.rank, number, row);
  }
  for (const TimelineSpan& span : spans) append_span(text, span, process, rows.at(span.row));
  text.erase(text.size() - 2, 1);  // removes the last comma
  text += "]}\n";
  return text;
}

}  // namespace packtrain

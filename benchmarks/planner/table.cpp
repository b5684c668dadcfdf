#include "benchmarks/planner/table.h"

#include <fmt/format.h>

#include <array>

namespace packtrain {

namespace {

struct Column {
  const char* head;
  const char* key;
  const char* format;
};

constexpr std::array kColumns = {
    Column{"lengths", "distribution", "{}"},
    Column{"strategy", "strategy", "{}"},
    Column{"examples", "num_examples", "{:.0f}"},
    Column{"ranks", "num_ranks", "{:.0f}"},
    Column{"budget", "max_tokens_per_micro_batch", "{:.0f}"},
    Column{"CPU s", "cpu_s", "{:.2f}"},
    Column{"of it order", "select_and_order_s", "{:.2f}"},
    Column{"us a step", "us_per_step", "{:.1f}"},
    Column{"bytes an example", "bytes_per_example", "{:.1f}"},
    Column{"micro-batches", "micro_batches_per_step", "{:.2f}"},
    Column{"longest first", "longest_first", "{:.4f}"},
    Column{"utilisation", "cost_utilization", "{:.4f}"},
    Column{"bound", "cost_bound", "{:.4f}"},
    Column{"fill", "fill", "{:.3f}"},
};

}  // namespace

std::string table_head() {
  std::string head = "|";
  std::string rule = "|";
  for (const Column& column : kColumns) {
    head += fmt::format(" {} |", column.head);
    rule += "---|";
  }
  return head + "\n" + rule + "\n";
}

std::string table_row(const nlohmann::ordered_json& row) {
  std::string text = "|";
  for (const Column& column : kColumns) {
    const nlohmann::ordered_json& value = row[column.key];
    const std::string cell = value.is_string()
                                 ? value.get<std::string>()
                                 : fmt::format(fmt::runtime(column.format), value.get<double>());
    text += fmt::format(" {} |", cell);
  }
  return text + "\n";
}

}  // namespace packtrain

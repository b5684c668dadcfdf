#include "training/comparison/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace packtrain {
namespace {

using Json = nlohmann::ordered_json;

struct Column {
  const char* key;    // CSV and JSON
  const char* title;  // for people
  int decimals;
  std::optional<Statistic> StrategyFigures::* member;
};

constexpr auto kColumns = std::to_array<Column>({
    {"tokens_per_second_per_device", "tokens/s a device", 0,
     &StrategyFigures::tokens_per_second_per_device},
    {"speedup", "speed-up", 2, &StrategyFigures::speedup},
    {"peak_memory_gib", "peak GiB", 2, &StrategyFigures::peak_memory_gib},
    {"num_steps", "steps", 0, &StrategyFigures::num_steps},
    {"device_seconds", "device s", 1, &StrategyFigures::device_seconds},
    {"padding_fraction", "padding", 3, &StrategyFigures::padding_fraction},
    {"cost_utilization", "utilisation", 3, &StrategyFigures::cost_utilization},
    {"training_loss", "training loss", 4, &StrategyFigures::training_loss},
    {"validation_loss", "validation loss", 4, &StrategyFigures::validation_loss},
    {"validation_loss_at_equal_steps", "at equal steps", 4, &StrategyFigures::loss_at_equal_steps},
    {"validation_loss_at_equal_time", "at equal time", 4, &StrategyFigures::loss_at_equal_time},
});

using Row = std::vector<std::string>;

std::string cell(const Column& column, const StrategyFigures& figures, bool with_spread) {
  const auto& figure = figures.*column.member;
  if (!figure) return "-";
  std::string text = fmt::format("{:.{}f}", figure->mean, column.decimals);
  if (with_spread) text += fmt::format(" ± {:.{}f}", figure->spread, column.decimals);
  return text;
}

// A row of titles, then a row for each strategy.
std::vector<Row> cells(const Comparison& comparison) {
  std::vector<Row> rows = {{"strategy"}};
  for (const Column& column : kColumns) rows.front().emplace_back(column.title);
  for (const StrategyFigures& figures : comparison.strategies) {
    Row row = {figures.strategy};
    for (const Column& column : kColumns) {
      row.push_back(cell(column, figures, comparison.seeds.size() > 1));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// Explains the last two columns and how figures are measured.
std::string notes(const Comparison& comparison) {
  return fmt::format(
      "{} rank{}, {} seed{}{}. Validation loss at the end, after {} optimizer steps and after "
      "{:.2f} s of training steps, the last two interpolated linearly between evaluations. Speeds "
      "are of real tokens without the first {} steps, which count in device time as long as the "
      "mean of the others; memory is rank 0's; training loss is the mean of the last {} steps.",
      comparison.num_ranks, comparison.num_ranks == 1 ? "" : "s", comparison.seeds.size(),
      comparison.seeds.size() == 1 ? "" : "s",
      comparison.seeds.size() > 1 ? " (mean ± sample standard deviation)" : "",
      comparison.equal_steps, comparison.equal_seconds, kWarmupSteps, kLastLossSteps);
}

// Notes steps whose loss is in no mean.
std::string left_out(const Comparison& comparison) {
  std::string text;
  for (const StrategyFigures& figures : comparison.strategies) {
    if (figures.num_losses_left_out == 0) continue;
    text += fmt::format(" Of {}, {} loss{} not finite and left out of the training loss.",
                        figures.strategy, figures.num_losses_left_out,
                        figures.num_losses_left_out == 1 ? " was" : "es were");
  }
  return text;
}

// Counts characters, not bytes, by leaving out continuation bytes of UTF-8.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

Json to_json(const std::optional<Statistic>& figure) {
  if (!figure) return nullptr;
  return {{"mean", figure->mean}, {"spread", figure->spread}};
}

Json to_json(const ComparedRun& run) {
  const auto over_steps = loss_over_steps(run.history);
  const auto over_seconds = loss_over_seconds(run.history);
  Json evaluations = Json::array();
  for (std::size_t e = 0; e < over_steps.size(); ++e) {
    evaluations.push_back({{"step", run.history.evaluations[e].step},
                           {"device_seconds", over_seconds[e].x},
                           {"validation_loss", over_steps[e].y}});
  }
  return {{"strategy", run.strategy},
          {"seed", run.seed},
          {"folder", run.folder},
          {"num_steps", run.history.steps.size()},
          {"device_seconds", device_seconds(run.history).back()},
          {"evaluations", std::move(evaluations)}};
}

}  // namespace

std::string comparison_to_text(const Comparison& comparison) {
  const std::vector<Row> rows = cells(comparison);
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width(row[c]));
  }
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string fill(widths[c] - width(row[c]), ' ');
      text += c == 0 ? row[c] + fill
                     : "  " + fill + row[c];  // names left-aligned, figures right-aligned
    }
    text += '\n';
  }
  return text + "\n" + notes(comparison) + left_out(comparison) + "\n";
}

std::string comparison_to_markdown(const Comparison& comparison) {
  const std::vector<Row> rows = cells(comparison);
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (const std::string& value : rows[r]) text += "| " + value + " ";
    text += "|\n";
    if (r > 0) continue;
    for (std::size_t c = 0; c < rows[r].size(); ++c) text += c == 0 ? "|---" : "|---:";
    text += "|\n";
  }
  return text + "\n" + notes(comparison) + left_out(comparison) + "\n";
}

std::string comparison_to_csv(const Comparison& comparison) {
  std::string text = "strategy,num_seeds";
  for (const Column& column : kColumns) text += fmt::format(",{0},{0}_spread", column.key);
  text += '\n';
  for (const StrategyFigures& figures : comparison.strategies) {
    text += fmt::format("{},{}", figures.strategy, comparison.seeds.size());
    for (const Column& column : kColumns) {
      const auto& figure = figures.*column.member;
      text += figure ? fmt::format(",{},{}", figure->mean, figure->spread) : ",,";
    }
    text += '\n';
  }
  return text;
}

std::string comparison_to_json(const Comparison& comparison) {
  Json strategies = Json::array();
  for (const StrategyFigures& figures : comparison.strategies) {
    Json object = {{"strategy", figures.strategy}};
    for (const Column& column : kColumns) object[column.key] = to_json(figures.*column.member);
    if (figures.num_losses_left_out > 0) {
      object["num_losses_left_out"] = figures.num_losses_left_out;
    }
    strategies.push_back(std::move(object));
  }
  Json runs = Json::array();
  for (const ComparedRun& run : comparison.runs) runs.push_back(to_json(run));
  const Json json = {
      {"num_ranks", comparison.num_ranks},     {"seeds", comparison.seeds},
      {"equal_steps", comparison.equal_steps}, {"equal_device_seconds", comparison.equal_seconds},
      {"strategies", std::move(strategies)},   {"runs", std::move(runs)}};
  return json.dump() + "\n";
}

}  // namespace packtrain

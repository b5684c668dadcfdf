#include "training/comparison/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "training/comparison/table_text.h"

namespace packtrain {
namespace {

using Json = nlohmann::ordered_json;

struct Column {
  const char* key;    // CSV and JSON
  const char* title;  // for people
  int decimals;
  std::optional<Statistic> VariantFigures::* member;
};

constexpr auto kColumns = std::to_array<Column>({
    {"tokens_per_second_per_device", "tokens/s a device", 0,
     &VariantFigures::tokens_per_second_per_device},
    {"speedup", "speed-up", 2, &VariantFigures::speedup},
    {"peak_memory_gib", "peak GiB", 2, &VariantFigures::peak_memory_gib},
    {"num_steps", "steps", 0, &VariantFigures::num_steps},
    {"device_seconds", "device s", 1, &VariantFigures::device_seconds},
    {"padding_fraction", "padding", 3, &VariantFigures::padding_fraction},
    {"cost_utilization", "utilisation", 3, &VariantFigures::cost_utilization},
    {"training_loss", "training loss", 4, &VariantFigures::training_loss},
    {"validation_loss", "validation loss", 4, &VariantFigures::validation_loss},
    {"validation_loss_at_equal_steps", "at equal steps", 4, &VariantFigures::loss_at_equal_steps},
    {"validation_loss_at_equal_time", "at equal time", 4, &VariantFigures::loss_at_equal_time},
    {"joules", "joules", 0, &VariantFigures::joules},
    {"seconds_to_target", "s to target", 1, &VariantFigures::seconds_to_target},
    {"joules_to_target", "joules to target", 0, &VariantFigures::joules_to_target},
});

// Figures whose differences to the first variant are reported.
struct DifferenceRow {
  const char* key;
  const char* title;
  int decimals;
  std::optional<PairedDifference> VariantDifferences::* member;
};

constexpr auto kDifferences = std::to_array<DifferenceRow>({
    {"validation_loss", "validation loss", 5, &VariantDifferences::validation_loss},
    {"training_loss", "training loss", 5, &VariantDifferences::training_loss},
    {"device_seconds", "device s", 2, &VariantDifferences::device_seconds},
    {"joules", "joules", 0, &VariantDifferences::joules},
});

std::string cell(const Column& column, const VariantFigures& figures, bool with_spread) {
  const auto& figure = figures.*column.member;
  if (!figure) return "-";
  std::string text = fmt::format("{:.{}f}", figure->mean, column.decimals);
  if (with_spread) text += fmt::format(" ± {:.{}f}", figure->spread, column.decimals);
  return text;
}

// The column of names: "strategy", or the key that varies.
std::string name_of_key(const Comparison& comparison) {
  return comparison.key == Comparison().key ? "strategy" : comparison.key;
}

// Text and Markdown leave out the figures of a target that was not asked for.
bool is_shown(const Column& column, const Comparison& comparison) {
  return comparison.target_loss.has_value() ||
         !std::string_view(column.key).ends_with("_to_target");
}

// A row of titles, then a row for each variant.
std::vector<TableRow> cells(const Comparison& comparison) {
  std::vector<TableRow> rows = {{name_of_key(comparison)}};
  for (const Column& column : kColumns) {
    if (is_shown(column, comparison)) rows.front().emplace_back(column.title);
  }
  for (const VariantFigures& figures : comparison.variants) {
    TableRow row = {figures.variant};
    for (const Column& column : kColumns) {
      if (!is_shown(column, comparison)) continue;
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

// A row of titles, then a row for each difference to the first variant. Only the titles for one
// variant, or one seed.
std::vector<TableRow> difference_cells(const Comparison& comparison) {
  std::vector<TableRow> rows = {{name_of_key(comparison), "figure",
                                 "minus " + comparison.variants.front().variant, "95 % interval",
                                 "smallest detectable"}};
  for (const VariantFigures& figures : comparison.variants) {
    for (const DifferenceRow& row : kDifferences) {
      const auto& difference = figures.differences.*row.member;
      if (!difference || !difference->half_interval) continue;
      const auto number = [&](double value) {
        return fmt::format("{:+.{}f}", value, row.decimals);
      };
      rows.push_back({figures.variant, row.title, number(difference->mean),
                      fmt::format("{} to {}", number(difference->mean - *difference->half_interval),
                                  number(difference->mean + *difference->half_interval)),
                      fmt::format("{:.{}f}", *difference->smallest_detectable, row.decimals)});
    }
  }
  return rows;
}

std::string difference_notes(const Comparison& comparison) {
  return fmt::format(
      "Differences are paired by seed. The interval is t(0.975, n - 1) s / sqrt(n), with the "
      "sample standard deviation s of the n = {} differences. The smallest detectable difference "
      "is (t(0.975, n - 1) + t(0.8, n - 1)) s / sqrt(n): these seeds find it with power 0.8.",
      comparison.seeds.size());
}

std::string energy_notes(const Comparison& comparison) {
  const bool is_measured =
      std::ranges::all_of(comparison.variants,
                          [](const VariantFigures& figures) { return figures.joules.has_value(); });
  std::string text =
      is_measured ? " Joules are of the GPUs of all ranks, without GPUs of the processors, "
                    "from the start of the run to its end."
                  : " Energy was not measured: neither NVML nor RAPL counters could be read.";
  if (comparison.target_loss) {
    text += fmt::format(" The target is a validation loss of {}.", *comparison.target_loss);
  }
  return text;
}

// Notes steps whose loss is in no mean.
std::string left_out(const Comparison& comparison) {
  std::string text;
  for (const VariantFigures& figures : comparison.variants) {
    if (figures.num_losses_left_out == 0) continue;
    text += fmt::format(" Of {}, {} loss{} not finite and left out of the training loss.",
                        figures.variant, figures.num_losses_left_out,
                        figures.num_losses_left_out == 1 ? " was" : "es were");
  }
  return text;
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
  const bool has_energy = !run.energy.empty();
  return {{"strategy", run.variant},
          {"seed", run.seed},
          {"joules", has_energy ? Json(run.energy.back().y) : Json()},
          {"folder", run.folder},
          {"num_steps", run.history.steps.size()},
          {"device_seconds", device_seconds(run.history).back()},
          {"evaluations", std::move(evaluations)}};
}

Json to_json(const PairedDifference& difference) {
  const auto number = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json();
  };
  return {{"mean", difference.mean},
          {"half_interval_95", number(difference.half_interval)},
          {"smallest_detectable", number(difference.smallest_detectable)},
          {"num_pairs", difference.num_pairs}};
}

Json to_json(const VariantDifferences& differences) {
  Json json = Json::object();
  for (const DifferenceRow& row : kDifferences) {
    const auto& difference = differences.*row.member;
    json[row.key] = difference ? to_json(*difference) : Json();
  }
  return json;
}

// The tables of figures and of differences, each with its notes.
template <class Format>
std::string with_notes(const Comparison& comparison, const Format& format) {
  std::string text = format(cells(comparison)) + "\n" + notes(comparison) +
                     energy_notes(comparison) + left_out(comparison) + "\n";
  const std::vector<TableRow> differences = difference_cells(comparison);
  if (differences.size() == 1) return text;
  return text + "\n" + format(differences) + "\n" + difference_notes(comparison) + "\n";
}

}  // namespace

std::string comparison_to_text(const Comparison& comparison) {
  return with_notes(comparison, aligned_table);
}

std::string comparison_to_markdown(const Comparison& comparison) {
  return with_notes(comparison, markdown_table);
}

std::string comparison_to_csv(const Comparison& comparison) {
  std::string text = name_of_key(comparison) + ",num_seeds";
  for (const Column& column : kColumns) text += fmt::format(",{0},{0}_spread", column.key);
  text += '\n';
  for (const VariantFigures& figures : comparison.variants) {
    text += fmt::format("{},{}", csv_field(figures.variant), comparison.seeds.size());
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
  for (const VariantFigures& figures : comparison.variants) {
    Json object = {{"strategy", figures.variant}};
    for (const Column& column : kColumns) object[column.key] = to_json(figures.*column.member);
    if (figures.num_losses_left_out > 0) {
      object["num_losses_left_out"] = figures.num_losses_left_out;
    }
    object["difference_to_first"] = to_json(figures.differences);
    strategies.push_back(std::move(object));
  }
  Json runs = Json::array();
  for (const ComparedRun& run : comparison.runs) runs.push_back(to_json(run));
  const Json target = comparison.target_loss ? Json(*comparison.target_loss) : Json();
  const Json json = {{"key", comparison.key},
                     {"target_loss", target},
                     {"num_ranks", comparison.num_ranks},
                     {"seeds", comparison.seeds},
                     {"equal_steps", comparison.equal_steps},
                     {"equal_device_seconds", comparison.equal_seconds},
                     {"strategies", std::move(strategies)},
                     {"runs", std::move(runs)}};
  return json.dump() + "\n";
}

}  // namespace packtrain

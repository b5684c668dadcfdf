#include "framework/metrics/step_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "framework/core/units.h"

namespace packtrain {
namespace {

constexpr double kMinShown = 0.0005;  // smaller values would show as 0.0 %

// A part of the step line. When it does not fit, parts with the highest rank are left out first.
struct Piece {
  std::string text;
  int rank = 0;
};

std::string place_of(std::int64_t step, std::int64_t total_steps) {
  if (total_steps <= 0) return fmt::format("step {}", step);
  const double percent = 100.0 * static_cast<double>(step) / static_cast<double>(total_steps);
  return fmt::format("step {}/{} ({:.1f} %)", step, total_steps, percent);
}

// "  fill 97 %". Empty when it would show 0.0 %.
std::string percentage(const char* name, double fraction) {
  return fraction < kMinShown ? "" : fmt::format("  {} {:.1f} %", name, 100 * fraction);
}

std::string memory_of(const StepRecord& record) {
  if (record.peak_memory_bytes <= 0) return "";
  return fmt::format("  mem {:.1f} GiB", static_cast<double>(record.peak_memory_bytes) / kGibibyte);
}

// "  accuracy 0.75  margin 0.31". Empty without an objective of groups.
std::string rewards_of(const std::vector<ObjectiveStatistic>& statistics) {
  std::string text;
  for (const auto& [name, shown] :
       {std::pair("reward_accuracy", "accuracy"), std::pair("reward_margin", "margin"),
        std::pair("clipped_high", "clipped")}) {
    const auto found = std::ranges::find(statistics, name, &ObjectiveStatistic::name);
    if (found != statistics.end()) text += fmt::format("  {} {:.3g}", shown, found->value);
  }
  return text;
}

std::vector<Piece> pieces_of(const StepRecord& record, std::int64_t total_steps,
                             double seconds_left) {
  std::vector<Piece> pieces = {
      {place_of(record.step, total_steps), 0},
      {fmt::format("  loss {:#.4g}", record.loss), 1},
      {rewards_of(record.objective), 2},
      {fmt::format("  norm {:.3g}", record.grad_norm), 7},
      {fmt::format("  lr {:.3g}", record.learning_rate), 8},
      {fmt::format("  {} tok/s", short_count(record.tokens_per_second)), 3},
      {percentage("mfu", record.mfu), 5},
      {fmt::format("  fill {:.0f} %", 100 * record.fill), 6},
      {percentage("imbalance", record.cost_imbalance - 1), 4},
      {percentage("comm", record.comm_wait_s / record.step_time_s), 9},
      {memory_of(record), 10},
  };
  for (const AdapterRecord& one : record.adapters) {
    pieces.push_back({fmt::format("  {} {:#.4g}", one.name, one.loss), 2});
  }
  if (total_steps > 0 && std::isfinite(seconds_left) && seconds_left >= 0) {
    pieces.push_back({fmt::format("  {} left", short_duration(seconds_left)), 2});
  }
  return pieces;
}

}  // namespace

std::string short_count(double count) {
  if (!std::isfinite(count)) return fmt::format("{}", count);
  if (count < 999.5) return fmt::format("{:.0f}", count);
  constexpr const char* kSuffixes[] = {"k", "M", "G"};
  double scaled = count / 1e3;
  std::size_t power = 0;
  while (scaled >= 999.5 && power + 1 < std::size(kSuffixes)) {
    scaled /= 1e3;
    ++power;
  }
  const int num_decimals = scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", scaled, num_decimals, kSuffixes[power]);
}

std::string short_duration(double seconds) {
  constexpr std::int64_t kMinute = 60;
  constexpr std::int64_t kHour = 60 * kMinute;
  constexpr std::int64_t kDay = 24 * kHour;
  const std::int64_t s = std::llround(seconds);
  if (s < kMinute) return fmt::format("{} s", s);
  if (s < kHour) return fmt::format("{} min {:02} s", s / kMinute, s % kMinute);
  if (s < kDay) return fmt::format("{} h {:02} min", s / kHour, s % kHour / kMinute);
  return fmt::format("{} d {:02} h", s / kDay, s % kDay / kHour);
}

std::string format_step_line(const StepRecord& record, std::int64_t total_steps,
                             double seconds_left, std::size_t width,
                             std::optional<double> validation_loss) {
  std::vector<Piece> pieces = pieces_of(record, total_steps, seconds_left);
  if (validation_loss) {
    pieces.insert(pieces.begin() + 2,
                  Piece{fmt::format("  validation {:#.4g}", *validation_loss), 3});
  }
  const auto length = [&pieces] {
    std::size_t sum = 0;
    for (const Piece& piece : pieces) sum += piece.text.size();
    return sum;
  };
  while (length() > width && pieces.size() > 1) {
    pieces.erase(std::ranges::max_element(pieces, {}, &Piece::rank));
  }
  std::string line;
  for (const Piece& piece : pieces) line += piece.text;
  return line;
}

std::string format_evaluation_line(const EvaluationRecord& record) {
  return fmt::format(
      "step {}  validation loss {}{:#.4g}{}{}  {} examples  {} tokens", record.step,
      record.set.empty() ? "" : record.set + " ", record.loss,
      record.perplexity ? fmt::format("  perplexity {:#.4g}", *record.perplexity) : "",
      rewards_of(record.objective), short_count(static_cast<double>(record.num_examples)),
      short_count(static_cast<double>(record.num_tokens)));
}

std::string format_command_line(const CommandRecord& record) {
  std::string line = fmt::format("step {}", record.step);
  for (const auto& [name, value] : record.values) line += fmt::format("  {} {:.4g}", name, value);
  return line;
}

}  // namespace packtrain

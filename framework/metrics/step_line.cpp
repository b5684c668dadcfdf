#include "framework/metrics/step_line.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <iterator>

namespace packtrain {
namespace {

constexpr double kLeastShown = 0.0005;  // less would be 0.0 %

void append_place(std::string& line, std::int64_t step, std::int64_t total_steps) {
  fmt::format_to(std::back_inserter(line), "step {}", step);
  if (total_steps > 0) {
    const double percent = 100.0 * static_cast<double>(step) / static_cast<double>(total_steps);
    fmt::format_to(std::back_inserter(line), "/{} ({:.1f} %)", total_steps, percent);
  }
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
                             double seconds_left) {
  std::string line;
  const auto out = std::back_inserter(line);
  append_place(line, record.step, total_steps);
  fmt::format_to(out, "  loss {:#.4g}  norm {:.3g}  lr {:.3g}  {} tok/s", record.loss,
                 record.grad_norm, record.learning_rate, short_count(record.tokens_per_second));
  if (record.mfu > 0) fmt::format_to(out, "  mfu {:.1f} %", 100 * record.mfu);
  fmt::format_to(out, "  fill {:.0f} %", 100 * record.fill);
  const double exposed = record.comm_wait_s / record.step_time_s;
  if (exposed >= kLeastShown) fmt::format_to(out, "  comm {:.1f} %", 100 * exposed);
  if (record.peak_memory_bytes > 0) {
    constexpr double kGibibyte = 1 << 30;
    fmt::format_to(out, "  mem {:.1f} GiB",
                   static_cast<double>(record.peak_memory_bytes) / kGibibyte);
  }
  if (total_steps > 0 && std::isfinite(seconds_left) && seconds_left >= 0) {
    fmt::format_to(out, "  {} left", short_duration(seconds_left));
  }
  return line;
}

std::string format_evaluation_line(const EvaluationRecord& record) {
  return fmt::format("step {}  validation loss {:#.4g}  perplexity {:#.4g}  {} examples  {} tokens",
                     record.step, record.loss, record.perplexity,
                     short_count(static_cast<double>(record.num_examples)),
                     short_count(static_cast<double>(record.num_tokens)));
}

}  // namespace packtrain

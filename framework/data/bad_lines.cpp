#include "framework/data/bad_lines.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "framework/core/error.h"

namespace packtrain {
namespace {

constexpr std::size_t kShownBytes = 1000;
constexpr double kSlack = 1000;  // lines: bad ones can be consecutive

}  // namespace

BadLines::BadLines(const BadLinePolicy& policy, std::string quarantine)
    : policy_(policy), path_(std::move(quarantine)) {}

void BadLines::skip(const std::string& file, const TextLine& line, const std::string& fault) {
  const std::string place = fmt::format("{}:{}: {}", file, line.number, fault);
  if (!policy_.skip) {
    throw Error(ErrorCategory::kData,
                fmt::format("{} (the line begins at byte {})", place, line.begin),
                "Mend it, or leave such lines out with --skip-bad-lines.");
  }
  if (++num_bad_ == 1) first_ = place;
  write(file, line, fault);
  check(policy_.max_fraction * static_cast<double>(num_lines_) + kSlack);
}

void BadLines::write(const std::string& file, const TextLine& line, const std::string& fault) {
  if (!quarantine_) {
    quarantine_ =
        std::make_unique<OutputFile>(path_, OutputFile::Mode::kCreate, ErrorCategory::kData);
  }
  const nlohmann::ordered_json entry = {
      {"file", file},       {"line", line.number},
      {"byte", line.begin}, {"num_bytes", line.text.size()},
      {"fault", fault},     {"text", line.text.substr(0, kShownBytes)}};
  using Handler = nlohmann::ordered_json::error_handler_t;
  quarantine_->write(entry.dump(-1, ' ', false, Handler::replace) + "\n");
}

void BadLines::check(double most) const {
  if (static_cast<double>(num_bad_) <= most) return;
  throw Error(ErrorCategory::kData,
              fmt::format("{} of {} lines are bad, more than a share of {:g}; the first is {}",
                          num_bad_, num_lines_, policy_.max_fraction, first_),
              fmt::format("{} lists them; --max-bad-fraction raises the share.", path_));
}

void BadLines::finish() {
  check(policy_.max_fraction * static_cast<double>(num_lines_));
  if (!quarantine_) return;
  quarantine_->sync();
  quarantine_->close();
}

}  // namespace packtrain

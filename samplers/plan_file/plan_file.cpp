#include "samplers/plan_file/plan_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <utility>

#include "framework/core/blake2b.h"
#include "framework/core/error.h"
#include "framework/core/hash.h"
#include "samplers/plan_file/plan_file_lines.h"

namespace packtrain {
namespace {

constexpr std::string_view kBlank = " \t\r";

bool is_blank(std::string_view line) {
  return line.find_first_not_of(kBlank) == std::string_view::npos;
}

}  // namespace

void PlanFile::fail(std::int64_t line, const std::string& what, std::string advice) const {
  throw Error(ErrorCategory::kData, fmt::format("{}:{}: {}", path_, line, what), std::move(advice));
}

std::shared_ptr<const PlanFile> PlanFile::open(const std::string& path) {
  std::shared_ptr<PlanFile> plan(new PlanFile(path));
  plan->file_ = MappedFile::open(path, ErrorCategory::kData);
  const std::span<const std::byte> bytes = plan->file_->bytes();
  plan->text_ = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  plan->digest_ = hash_bytes(bytes);
  plan->find_lines();
  return plan;
}

std::string_view PlanFile::text_at(const Line& line) const {
  const std::size_t end = text_.find('\n', line.offset);
  return text_.substr(line.offset, end == std::string_view::npos ? end : end - line.offset);
}

// Finds where lines begin. Of steps nothing else is read.
void PlanFile::find_lines() {
  Line line;
  const RejectLine reject = [&](const std::string& what, const std::string& advice) {
    fail(line.number, what, advice);
  };
  for (; line.offset < text_.size(); line.offset += text_at(line).size() + 1) {
    ++line.number;
    const std::string_view text = text_at(line);
    if (line.number == 1) {
      header_ = parse_plan_header_line(parse_plan_line(text, reject), reject);
      continue;
    }
    if (is_blank(text)) continue;
    if (text.find("\"epoch\"") == std::string_view::npos) {
      if (epoch_begins_.empty()) epoch_begins_.push_back(0);
      steps_.push_back(line);
      continue;
    }
    const std::int64_t epoch = parse_plan_epoch_line(parse_plan_line(text, reject), reject);
    if (epoch != num_epochs()) {
      fail(line.number, fmt::format("got epoch {}, wanted {}", epoch, num_epochs()),
           "Epochs count from 0, in order.");
    }
    epoch_begins_.push_back(steps_.size());
  }
  if (line.number == 0) fail(1, "the file is empty", "Its first line is a header.");
  if (epoch_begins_.empty()) fail(line.number, "the file has no step", "Add a line for each step.");
  for (std::int64_t epoch = 0; epoch < num_epochs(); ++epoch) {
    if (num_steps(epoch) == 0) fail(line.number, fmt::format("epoch {} has no step", epoch), "");
  }
}

std::int64_t PlanFile::num_steps(std::int64_t epoch) const {
  const auto e = static_cast<std::size_t>(epoch);
  const std::size_t end = e + 1 < epoch_begins_.size() ? epoch_begins_[e + 1] : steps_.size();
  return static_cast<std::int64_t>(end - epoch_begins_[e]);
}

PlanFileStep PlanFile::step(std::int64_t epoch, std::int64_t step_of_epoch) const {
  file_->check_unchanged();
  const std::size_t first = epoch_begins_.at(static_cast<std::size_t>(epoch));
  const Line& line = steps_.at(first + static_cast<std::size_t>(step_of_epoch));
  const RejectLine reject = [&](const std::string& what, const std::string& advice) {
    fail(line.number, fmt::format("step {}: {}", step_of_epoch, what), advice);
  };
  PlanFileStep step = parse_plan_step_line(parse_plan_line(text_at(line), reject), header_, reject);
  step.line = line.number;
  return step;
}

std::string lengths_digest(const ExampleCounts& lengths) {
  static_assert(std::endian::native == std::endian::little);
  constexpr std::size_t kBuffered = 4096;
  std::array<std::int32_t, kBuffered> buffer{};
  Blake2b digest;
  std::size_t count = 0;
  for (const std::int32_t length : lengths) {
    buffer[count++] = length;
    if (count < kBuffered) continue;
    digest.update(std::as_bytes(std::span(buffer)));
    count = 0;
  }
  digest.update(std::as_bytes(std::span(buffer).first(count)));
  return digest.hex();
}

std::string plan_file_header_line(const PlanFileHeader& header) {
  nlohmann::ordered_json json = {{"packtrain_plan", 1}, {"num_examples", header.num_examples}};
  if (header.num_ranks) json["ranks"] = *header.num_ranks;
  if (!header.lengths.empty()) json["lengths"] = header.lengths;
  if (header.leaves_examples_out) json["leaves_examples_out"] = true;
  return json.dump() + "\n";
}

std::string plan_file_epoch_line(std::int64_t epoch) {
  return fmt::format("{{\"epoch\":{}}}\n", epoch);
}

std::string plan_file_step_line(const PlanFileStep& step, bool has_ranks) {
  if (!has_ranks) return fmt::format("{{\"examples\":[{}]}}\n", fmt::join(step.ranks[0][0], ","));
  std::string text = "{\"ranks\":[";
  for (const auto& micro_batches : step.ranks) {
    text += text.back() == '[' ? "[" : ",[";
    for (const auto& examples : micro_batches) {
      text += fmt::format("{}[{}]", text.back() == '[' ? "" : ",", fmt::join(examples, ","));
    }
    text += ']';
  }
  return text + "]}\n";
}

}  // namespace packtrain

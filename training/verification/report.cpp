#include "training/verification/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "parallel/communicators/collectives.h"

namespace packtrain {
namespace {

std::vector<double> gather_values(double mine, Communicator& control) {
  std::vector<double> all(static_cast<std::size_t>(control.size()));
  control.all_gather(&mine, all.data(), 1, DataType::kFloat64, nullptr);
  return all;
}

std::int64_t sum_over_ranks(std::int64_t value, Communicator& control) {
  control.all_reduce(&value, 1, DataType::kInt64, ReduceOp::kSum, nullptr);
  return value;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// Lists equal texts once, in order of appearance. Adds the ranks of a text unless all ranks have
// it.
std::vector<std::string> merge_failures(const std::vector<std::string>& mine,
                                        Communicator& control) {
  const auto of_rank = all_gather_texts(fmt::format("{}", fmt::join(mine, "\n")), control);
  std::vector<std::string> order;
  std::map<std::string, std::vector<int>> ranks;
  for (int rank = 0; rank < control.size(); ++rank) {
    for (const std::string& line : lines_of(of_rank[static_cast<std::size_t>(rank)])) {
      const auto [it, inserted] = ranks.try_emplace(line);
      if (inserted) order.push_back(line);
      it->second.push_back(rank);
    }
  }
  for (std::string& line : order) {
    const std::vector<int>& seen_by = ranks.at(line);
    if (static_cast<int>(seen_by.size()) == control.size()) continue;
    line =
        fmt::format("rank{} {}: {}", seen_by.size() > 1 ? "s" : "", fmt::join(seen_by, ", "), line);
  }
  return order;
}

}  // namespace

void CheckResult::fail(std::string text) {
  ++num_failures;
  if (failures.size() < kMaxListed) failures.push_back(std::move(text));
}

void CheckResult::note_error(const std::string& error_name, double value,
                             const std::string& where) {
  const auto known = std::ranges::find(errors, error_name, &WorstError::name);
  if (known == errors.end()) {
    errors.push_back({error_name, value, where});
  } else if (!std::isnan(known->value) && !(value <= known->value)) {
    known->value = value;
    known->where = where;
  }
}

void CheckResult::add(const CheckResult& other) {
  num_cases += other.num_cases;
  for (const WorstError& error : other.errors) note_error(error.name, error.value, error.where);
  for (const std::string& text : other.failures) fail(text);
  num_failures += other.num_failures - static_cast<std::int64_t>(other.failures.size());
}

std::vector<std::string> VerificationReport::failed_checks() const {
  std::vector<std::string> names;
  for (const CheckResult& check : checks) {
    if (!check.passed()) names.push_back(check.name);
  }
  return names;
}

CheckResult merge_over_ranks(const CheckResult& mine, Communicator& control) {
  CheckResult merged = mine;
  for (WorstError& error : merged.errors) {
    const auto values = gather_values(error.value, control);
    const auto places = all_gather_texts(error.where, control);
    CheckResult worst;
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      worst.note_error(error.name, values[rank], places[rank]);
    }
    error = worst.errors.front();
  }
  if (!mine.same_on_every_rank) merged.num_cases = sum_over_ranks(mine.num_cases, control);
  merged.failures = merge_failures(mine.failures, control);
  const auto unlisted = mine.num_failures - static_cast<std::int64_t>(mine.failures.size());
  merged.num_failures =
      static_cast<std::int64_t>(merged.failures.size()) + sum_over_ranks(unlisted, control);
  return merged;
}

}  // namespace packtrain

#include "samplers/plan_file/plan_file_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "framework/core/json.h"

namespace packtrain {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;
constexpr const char* kFormat = "packtrain_plan";
constexpr const char* kExamples = "examples";
constexpr const char* kRanks = "ranks";
constexpr const char* kHeaderAdvice =
    "The first line is like {\"packtrain_plan\": 1, \"num_examples\": 6, \"ranks\": 2} "
    "(docs/strategies.md).";

void check_members(const Json& json, std::span<const char* const> known, const RejectLine& reject) {
  for (const auto& [key, value] : json.items()) {
    const bool is_known = std::ranges::any_of(known, [&](const char* name) { return key == name; });
    if (!is_known) reject(fmt::format("'{}' is no member of this line", key), kHeaderAdvice);
  }
}

// A count of at least `least`, or nothing when the line has none.
std::optional<std::int64_t> count_in(const Json& json, const char* key, std::int64_t least,
                                     const RejectLine& reject) {
  if (!json.contains(key)) return std::nullopt;
  const Json& value = json[key];
  const bool is_count = value.is_number_integer() && value.get<std::int64_t>() >= least &&
                        value.get<std::int64_t>() <= std::numeric_limits<std::int32_t>::max();
  if (!is_count) {
    reject(fmt::format("{} is {}, wanted an integer of at least {}", key, value.dump(), least),
           kHeaderAdvice);
  }
  return value.get<std::int64_t>();
}

std::int64_t read_example(const Json& value, const std::string& where, const PlanFileHeader& header,
                          const RejectLine& reject) {
  const bool is_example = value.is_number_integer() && value.get<std::int64_t>() >= 0 &&
                          value.get<std::int64_t>() < header.num_examples;
  if (!is_example) {
    reject(fmt::format("{}: got example {}, wanted a number from 0 to {}", where, value.dump(),
                       header.num_examples - 1),
           "Examples are numbered from 0 in the order of data.train.");
  }
  return value.get<std::int64_t>();
}

std::vector<std::int64_t> read_examples(const Json& list, const std::string& where,
                                        const PlanFileHeader& header, const RejectLine& reject) {
  if (!list.is_array()) {
    reject(fmt::format("{}: got {}, wanted a list of examples", where, list.dump().substr(0, 40)),
           "");
  }
  std::vector<std::int64_t> examples;
  examples.reserve(list.size());
  for (const Json& value : list) examples.push_back(read_example(value, where, header, reject));
  return examples;
}

// All ranks have the same number of micro-batches, and none is empty on all ranks.
void check_micro_batches(const PlanFileStep& step, const RejectLine& reject) {
  const std::size_t count = step.ranks.front().size();
  for (std::size_t rank = 0; rank < step.ranks.size(); ++rank) {
    if (step.ranks[rank].size() == count) continue;
    reject(fmt::format("rank {}: got {} micro-batches, wanted {} as rank 0 has", rank,
                       step.ranks[rank].size(), count),
           "All ranks run the same number of micro-batches. Add [] where a rank has nothing.");
  }
  for (std::size_t m = 0; m < count; ++m) {
    const bool is_used =
        std::ranges::any_of(step.ranks, [m](const auto& rank) { return !rank[m].empty(); });
    if (!is_used) {
      reject(fmt::format("micro-batch {} is empty on all ranks", m), "Leave it out on all ranks.");
    }
  }
  if (count == 0) reject("the step has no micro-batch", "Leave the step out.");
}

PlanFileStep read_ranks(const Json& json, const PlanFileHeader& header, const RejectLine& reject) {
  const auto num_ranks = static_cast<std::size_t>(header.num_ranks.value_or(1));
  if (!json.is_array() || json.size() != num_ranks) {
    reject(fmt::format("got {} ranks, wanted {} as in the header", json.size(), num_ranks),
           "Each step has a list of micro-batches for each rank.");
  }
  PlanFileStep step;
  for (std::size_t rank = 0; rank < num_ranks; ++rank) {
    if (!json[rank].is_array()) {
      reject(fmt::format("rank {} is no list of micro-batches", rank), "");
    }
    auto& micro_batches = step.ranks.emplace_back();
    for (const Json& list : json[rank]) {
      const std::string where = fmt::format("rank {}, micro-batch {}", rank, micro_batches.size());
      micro_batches.push_back(read_examples(list, where, header, reject));
    }
  }
  check_micro_batches(step, reject);
  return step;
}

}  // namespace

Json parse_plan_line(std::string_view text, const RejectLine& reject) {
  try {
    Json json = parse_json(text);
    if (json.is_object()) return json;
    reject("is not a JSON object", kHeaderAdvice);
  } catch (const JsonFault& fault) {
    reject(fmt::format("this line {}", fault.what()),
           "Each line of a plan file is one JSON object (docs/strategies.md).");
  }
  return {};
}

PlanFileHeader parse_plan_header_line(const Json& json, const RejectLine& reject) {
  if (!json.contains(kFormat)) reject("is no header of a plan file", kHeaderAdvice);
  if (json[kFormat] != kVersion) {
    reject(fmt::format("{} is {}, wanted {}", kFormat, json[kFormat].dump(), kVersion),
           kHeaderAdvice);
  }
  constexpr std::array kKnown = {kFormat, "num_examples", kRanks, "lengths", "leaves_examples_out"};
  check_members(json, kKnown, reject);
  PlanFileHeader header;
  const auto num_examples = count_in(json, "num_examples", 1, reject);
  if (!num_examples) reject("num_examples is missing", kHeaderAdvice);
  header.num_examples = num_examples.value_or(0);
  if (const auto num_ranks = count_in(json, kRanks, 1, reject)) {
    header.num_ranks = static_cast<int>(*num_ranks);
  }
  const bool has_text = !json.contains("lengths") || json["lengths"].is_string();
  if (!has_text) reject("lengths is not a text", kHeaderAdvice);
  header.lengths = json.value("lengths", "");
  const Json leaves_out = json.value("leaves_examples_out", Json(false));
  if (!leaves_out.is_boolean()) reject("leaves_examples_out is not true or false", kHeaderAdvice);
  header.leaves_examples_out = leaves_out.get<bool>();
  return header;
}

std::int64_t parse_plan_epoch_line(const Json& json, const RejectLine& reject) {
  constexpr std::array kKnown = {"epoch"};
  check_members(json, kKnown, reject);
  return count_in(json, "epoch", 0, reject).value_or(0);
}

PlanFileStep parse_plan_step_line(const Json& json, const PlanFileHeader& header,
                                  const RejectLine& reject) {
  const char* const wanted = header.num_ranks ? kRanks : kExamples;
  if (!json.contains(wanted)) {
    reject(fmt::format("has no '{}'", wanted),
           header.num_ranks
               ? "The header has `ranks`, so that each step has {\"ranks\": [...]}."
               : "The header has no `ranks`, so that each step has {\"examples\": [...]}.");
  }
  const std::array known = {wanted};
  check_members(json, known, reject);
  if (header.num_ranks) return read_ranks(json[kRanks], header, reject);
  PlanFileStep step;
  step.ranks = {{read_examples(json[kExamples], kExamples, header, reject)}};
  if (step.ranks[0][0].empty()) reject("the step has no examples", "Leave the step out.");
  return step;
}

}  // namespace packtrain

#include "training/setup/rank_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/config/load.h"
#include "framework/core/error.h"
#include "framework/core/hash.h"
#include "parallel/communicators/collectives.h"

namespace packtrain {
namespace {

bool is_a_ranks_own(std::string_view key) {
  return key == "metrics.address" || key == "metrics.port" || key.starts_with("debug.") ||
         key.starts_with("fault.");
}

// "section.key: value" of each key that all ranks share, one a line.
std::string shared_settings(const Config& config) {
  std::string text;
  for (const std::string& key : config_keys()) {
    if (!is_a_ranks_own(key)) text += fmt::format("{}: {}\n", key, config_value(config, key));
  }
  return text;
}

// The first line of `text` that differs from `other`.
std::string first_difference(std::string_view text, std::string_view other) {
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(text, other).in1 - text.begin());
  const std::size_t before = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  return std::string(text.substr(begin, text.find('\n', at) - begin));
}

}  // namespace

void check_same_settings(const Config& config, World& world) {
  Communicator& control = world.control();
  const std::string text = shared_settings(config);
  const Digest digest = digest_bytes(std::as_bytes(std::span(text)));
  Digest first_ranks = digest;
  control.broadcast(&first_ranks, sizeof first_ranks, 0, nullptr);
  std::int64_t odd = digest == first_ranks ? world.size() : world.rank();
  control.all_reduce(&odd, 1, DataType::kInt64, ReduceOp::kMin, nullptr);
  if (odd == world.size()) return;
  // Only the two ranks that differ send their whole texts.
  const bool is_told = world.rank() == 0 || world.rank() == odd;
  const std::vector<std::string> texts = all_gather_texts(is_told ? text : "", control);
  const std::string& first = texts.front();
  const std::string& other = texts.at(static_cast<std::size_t>(odd));
  throw Error(ErrorCategory::kConfig,
              fmt::format("rank {} was started with {}, rank 0 with {}", odd,
                          first_difference(other, first), first_difference(first, other)),
              "Start all ranks with the same configuration file and the same overrides.");
}

}  // namespace packtrain

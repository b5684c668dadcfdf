#include "framework/training/plan/memory_remedies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "framework/support/error.h"
#include "framework/training/plan/token_budget.h"

namespace packtrain {
namespace {

struct Rung {
  Recompute recompute;
  const char* name;
  bool narrow_moments;
};

// Cheapest first: moments of bfloat16 cost no time, but round; whole layers cost a third.
constexpr Rung kLadder[] = {{Recompute::kSelective, "selective", false},
                            {Recompute::kSelective, "selective", true},
                            {Recompute::kFull, "full", false},
                            {Recompute::kFull, "full", true}};

// Changes `config`; the settings that this takes, none where it has them already.
std::vector<std::string> climb(const Rung& rung, Config& config) {
  std::vector<std::string> settings;
  if (rung.recompute > config.memory.recompute) {
    config.memory.recompute = rung.recompute;
    settings.push_back(fmt::format("memory.recompute={}", rung.name));
  }
  if (rung.narrow_moments && config.optimizer.moments != Precision::kBFloat16) {
    config.optimizer.moments = Precision::kBFloat16;
    settings.emplace_back("optimizer.moments=bf16");
  }
  return settings;
}

std::string fewer_tokens(const Config& config, const DecoderConfig& decoder,
                         const MemoryRanks& ranks, const MemoryLimit& limit) {
  try {
    return fmt::format("batch.max_tokens_per_micro_batch=auto takes {} tokens",
                       largest_token_budget(config, decoder, ranks, limit));
  } catch (const Error&) {  // no room for the longest example
    return {};
  }
}

}  // namespace

std::string memory_remedies(const Config& config, const DecoderConfig& decoder,
                            const MemoryRanks& ranks, const MemoryLoad& load,
                            const MemoryLimit& limit) {
  const auto bytes = [&](const Config& changed) {
    return MemoryPlanner(changed, decoder, ranks).plan(load).total();
  };
  if (bytes(config) <= limit.bytes) return {};
  std::vector<std::string> found;
  for (const Rung& rung : kLadder) {
    Config changed = config;
    const std::vector<std::string> settings = climb(rung, changed);
    if (settings.empty()) continue;
    const std::int64_t needed = bytes(changed);
    if (needed > limit.bytes) continue;
    found.push_back(fmt::format("{} takes {:.2f} GiB", fmt::join(settings, " "),
                                static_cast<double>(needed) / (1024.0 * 1024.0 * 1024.0)));
    break;
  }
  if (std::string fewer = fewer_tokens(config, decoder, ranks, limit); !fewer.empty()) {
    found.push_back(std::move(fewer));
  }
  return fmt::format("{}", fmt::join(found, "; "));
}

}  // namespace packtrain

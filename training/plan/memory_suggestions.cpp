#include "training/plan/memory_suggestions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "training/plan/token_budget.h"

namespace packtrain {
namespace {

struct SettingStep {
  Recompute recompute;
  const char* name;
  bool narrow_moments;
};

// Cheapest first. bfloat16 moments cost no time but precision; recomputing whole layers costs a
// third.
constexpr SettingStep kLadder[] = {{Recompute::kSelective, "selective", false},
                                   {Recompute::kSelective, "selective", true},
                                   {Recompute::kFull, "full", false},
                                   {Recompute::kFull, "full", true}};

// Applies the step to `config`. Returns the changed settings; none when all are set already.
std::vector<std::string> raise_setting(const SettingStep& step, Config& config) {
  std::vector<std::string> settings;
  if (step.recompute > config.memory.recompute.value_or(Recompute::kNone).rest) {
    config.memory.recompute = step.recompute;
    settings.push_back(fmt::format("memory.recompute={}", step.name));
  }
  if (step.narrow_moments && config.optimizer.moments == Moments::kFloat32) {
    config.optimizer.moments = Moments::kBFloat16;
    settings.emplace_back("optimizer.moments=bf16");
  }
  return settings;
}

std::string amount(std::int64_t bytes) {
  return fmt::format("takes {:.2f} GiB", static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0));
}

// More ranks that share one copy of the state: multiples of today's groups, which are whole hosts
// if today's groups are.
std::string more_sharing(const Config& config, const DecoderConfig& decoder,
                         const MemoryRanks& ranks, const MemoryLoad& load,
                         const MemoryLimit& limit) {
  constexpr int kMaxRanks = 64;  // times today's number
  const int now = ranks.shard_size > 0 ? ranks.shard_size : ranks.num_ranks;
  MemoryRanks changed = ranks;
  const auto bytes = [&] { return MemoryPlanner(config, decoder, changed).plan(load).total(); };
  for (int size = 2 * now; size <= ranks.num_ranks; size += now) {
    if (ranks.num_ranks % size != 0) continue;
    changed.shard_size = size;
    if (const auto needed = bytes(); needed <= limit.bytes) {
      return fmt::format("parallel.shard_size={} {}", size, amount(needed));
    }
  }
  if (now < ranks.num_ranks) return {};
  for (int times = 2; times <= kMaxRanks; times *= 2) {
    changed.num_ranks = changed.shard_size = times * now;
    if (const auto needed = bytes(); needed <= limit.bytes) {
      return fmt::format("one copy of the state on {} ranks {}", changed.num_ranks, amount(needed));
    }
  }
  return {};
}

std::string fewer_tokens(const Config& config, const DecoderConfig& decoder,
                         const MemoryRanks& ranks, const MemoryLimit& limit) {
  try {
    return fmt::format("batch.max_tokens_per_micro_batch=auto takes {} tokens",
                       largest_token_budget(config, decoder, ranks, limit));
  } catch (const Error&) {  // the longest example does not fit
    return {};
  }
}

}  // namespace

std::string memory_suggestions(const Config& config, const DecoderConfig& decoder,
                               const MemoryRanks& ranks, const MemoryLoad& load,
                               const MemoryLimit& limit) {
  const auto bytes = [&](const Config& changed) {
    return MemoryPlanner(changed, decoder, ranks).plan(load).total();
  };
  if (bytes(config) <= limit.bytes) return {};
  std::vector<std::string> found;
  for (const SettingStep& step : kLadder) {
    Config changed = config;
    const std::vector<std::string> settings = raise_setting(step, changed);
    if (settings.empty()) continue;
    const std::int64_t needed = bytes(changed);
    if (needed > limit.bytes) continue;
    found.push_back(fmt::format("{} {}", fmt::join(settings, " "), amount(needed)));
    break;
  }
  if (std::string more = more_sharing(config, decoder, ranks, load, limit); !more.empty()) {
    found.push_back(std::move(more));
  }
  if (std::string fewer = fewer_tokens(config, decoder, ranks, limit); !fewer.empty()) {
    found.push_back(std::move(fewer));
  }
  return fmt::format("{}", fmt::join(found, "; "));
}

}  // namespace packtrain

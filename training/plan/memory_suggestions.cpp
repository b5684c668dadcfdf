#include "training/plan/memory_suggestions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "framework/config/load.h"
#include "framework/config/offload.h"
#include "framework/core/error.h"
#include "training/plan/token_budget.h"

namespace packtrain {
namespace {

struct SettingStep {
  Recompute recompute;
  const char* name;
  Moments moments;
  bool own_masters = false;
};

// Cheapest first. Narrow moments and masters cost no time but precision; recomputing whole layers
// costs a third.
constexpr SettingStep kLadder[] = {{Recompute::kSelective, "selective", Moments::kFloat32},
                                   {Recompute::kSelective, "selective", Moments::kBFloat16},
                                   {Recompute::kSelective, "selective", Moments::kInt8},
                                   {Recompute::kFull, "full", Moments::kFloat32},
                                   {Recompute::kFull, "full", Moments::kBFloat16},
                                   {Recompute::kFull, "full", Moments::kInt8},
                                   {Recompute::kSelective, "selective", Moments::kInt8, true},
                                   {Recompute::kFull, "full", Moments::kInt8, true}};

// Optimizers other than AdamW have no 8-bit moments. Several adapters have float32 ones.
Moments moments_of_step(const SettingStep& step, const Config& config,
                        const DecoderConfig& decoder) {
  if (decoder.adapter != nullptr && !decoder.adapter->several.empty()) return Moments::kFloat32;
  const bool has_codes = config.optimizer.name == "adamw";
  return step.moments == Moments::kInt8 && !has_codes ? Moments::kBFloat16 : step.moments;
}

// Applies the step to `config`. Returns the changed settings; none when all are set already.
std::vector<std::string> raise_setting(const SettingStep& step, const DecoderConfig& decoder,
                                       Config& config) {
  std::vector<std::string> settings;
  if (step.recompute > config.memory.recompute.value_or(Recompute::kNone).rest) {
    config.memory.recompute = step.recompute;
    settings.push_back(fmt::format("memory.recompute={}", step.name));
  }
  const Moments moments = moments_of_step(step, config, decoder);
  if (moments > config.optimizer.moments) {
    config.optimizer.moments = moments;
    settings.push_back("optimizer.moments=" + config_value(config, "optimizer.moments"));
  }
  const bool may_own =
      decoder.adapter == nullptr && config.precision.compute == Precision::kBFloat16;
  if (step.own_masters && may_own && config.precision.master == Precision::kFloat32) {
    config.precision.master = Precision::kBFloat16;
    settings.emplace_back("precision.master=bf16");
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

// The optimizer's state in host memory.
std::string offloaded(Config config, const DecoderConfig& decoder, const MemoryRanks& ranks,
                      const MemoryLoad& load, const MemoryLimit& limit) {
  const bool is_used = offloads_optimizer(config.memory.offload);
  if (is_used || ranks.device != DeviceKind::kCuda || has_factored_moments(config.optimizer)) {
    return {};
  }
  const Offload offload = make_offload(offloads_activations(config.memory.offload), true);
  config.memory.offload = offload;
  const std::int64_t needed = MemoryPlanner(config, decoder, ranks).plan(load).total();
  if (needed > limit.bytes) return {};
  return fmt::format("memory.offload={} {}", offload_text(offload), amount(needed));
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
    const std::vector<std::string> settings = raise_setting(step, decoder, changed);
    if (settings.empty()) continue;
    const std::int64_t needed = bytes(changed);
    if (needed > limit.bytes) continue;
    found.push_back(fmt::format("{} {}", fmt::join(settings, " "), amount(needed)));
    break;
  }
  if (std::string host = offloaded(config, decoder, ranks, load, limit); !host.empty()) {
    found.push_back(std::move(host));
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

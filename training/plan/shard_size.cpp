#include "training/plan/shard_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "collators/collator.h"
#include "framework/core/logging.h"
#include "training/plan/token_budget.h"

namespace packtrain {
namespace {

// Rows of the micro-batches that must fit; the first size is preferred.
std::vector<std::int64_t> rows_wanted(const Config& config) {
  const std::int64_t multiple = CollatorOptions{}.row_multiple;
  const std::int64_t least = (config.data.max_length + multiple - 1) / multiple * multiple;
  const auto given = config.batch.max_tokens_per_micro_batch;
  if (given && *given > least) return {*given, least};
  return {least};
}

std::int64_t planned_bytes(const Config& config, const DecoderConfig& decoder,
                           const MemoryRanks& ranks, std::int64_t rows) {
  return MemoryPlanner(config, decoder, ranks)
      .plan({.num_rows = rows,
             .several_micro_batches = rows < max_useful_tokens(config, ranks.num_ranks)})
      .total();
}

bool still_fits(const Config& config, const DecoderConfig& decoder, const ShardMemory& memory,
                int kept, const std::vector<int>& sizes) {
  if (std::ranges::find(sizes, kept) == sizes.end()) return false;
  MemoryRanks ranks = memory.ranks;
  ranks.shard_size = kept;
  return planned_bytes(config, decoder, ranks, rows_wanted(config).back()) <=
         memory.limit->with_reserve;
}

void tell(const RankHosts& hosts, int chosen, int kept, bool by_memory) {
  if (!hosts.are_equal) {
    log_warning(
        "hosts have different numbers of ranks, or ranks that do not follow each other: one group "
        "of all {} ranks shares the model, across hosts\n  Start as many ranks on each host, host "
        "after host, or set parallel.shard_size.",
        hosts.num_ranks);
  } else if (by_memory && chosen > hosts.ranks_per_host) {
    log_info("parallel.shard_size: auto {} {}", chosen == kept ? "keeps" : "finds",
             describe_groups(hosts, chosen));
  }
}

}  // namespace

bool memory_decides_shard_size(const Config& config, const RankHosts& hosts, DeviceKind device) {
  const bool has_figure = device == DeviceKind::kCuda || config.memory.limit_gib.has_value();
  return !config.parallel.shard_size && hosts.are_equal && hosts.num_hosts() > 1 && has_figure;
}

int shard_size(const Config& config, const DecoderConfig& decoder, const ShardMemory& memory,
               int kept) {
  if (const auto given = config.parallel.shard_size) {
    check_shard_size(*given, memory.hosts.num_ranks);
    return static_cast<int>(*given);
  }
  const std::vector<int> sizes = shard_sizes_of_whole_hosts(memory.hosts);
  if (sizes.size() == 1 || !memory.limit) return sizes.front();
  if (still_fits(config, decoder, memory, kept, sizes)) return kept;
  for (const std::int64_t rows : rows_wanted(config)) {
    for (const int size : sizes) {
      MemoryRanks ranks = memory.ranks;
      ranks.shard_size = size;
      if (planned_bytes(config, decoder, ranks, rows) <= memory.limit->bytes) return size;
    }
  }
  return sizes.back();
}

FoundShardSize choose_shard_size(const Config& config, const DecoderConfig& decoder,
                                 const Device& device, World& world, int kept) {
  ShardMemory memory{find_hosts(world), {}, {}};
  const bool by_memory = memory_decides_shard_size(config, memory.hosts, device.kind());
  if (by_memory) {
    MinFreeMemory least = min_free_memory(config, device, world);
    memory.ranks = least.ranks;
    memory.limit = std::move(least.limit);
  }
  const int chosen = shard_size(config, decoder, memory, kept);
  if (!config.parallel.shard_size && world.rank() == 0) {
    tell(memory.hosts, chosen, kept, by_memory);
  }
  const auto rounding = ring_rounding(config, memory.hosts, chosen, device.kind());
  if (rounding && world.rank() == 0) log_warning("{}\n  {}", rounding->what, rounding->advice);
  return {chosen, by_memory};
}

std::string describe_groups(const RankHosts& hosts, int shard_size) {
  const int ranks = hosts.num_ranks;
  if (ranks == 1) return "1";
  std::string text = fmt::format("{}: ", ranks);
  if (!hosts.are_equal) {
    text += fmt::format("hosts of different numbers of ranks, {} at most", hosts.ranks_per_host);
  } else {
    text += fmt::format("{} host{} x {}", hosts.num_hosts(), hosts.num_hosts() == 1 ? "" : "s",
                        hosts.ranks_per_host);
  }
  return text + (shard_size == ranks ? fmt::format(", one group of {}", ranks)
                                     : fmt::format(", groups of {}", shard_size));
}

std::optional<RingRounding> ring_rounding(const Config& config, const RankHosts& hosts,
                                          int shard_size, DeviceKind device) {
  const bool crosses =
      hosts.are_equal ? shard_size > hosts.ranks_per_host : shard_size == hosts.num_ranks;
  if (device != DeviceKind::kCuda || config.precision.reduce != Precision::kBFloat16 || !crosses) {
    return std::nullopt;
  }
  return RingRounding{
      fmt::format("gradients of {} ranks on several hosts are added up in bfloat16 around a ring, "
                  "rounded at each hop",
                  shard_size),
      "Set precision.reduce: fp32, or a parallel.shard_size of one host where the model's state "
      "fits."};
}

}  // namespace packtrain

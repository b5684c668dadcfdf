#include "models/ops/attention/short/division.h"

#include <algorithm>

#include "models/ops/attention/short/attention.h"
#include "models/ops/attention/short/units.h"

namespace packtrain {
namespace {

constexpr std::int64_t kLimits[] = {128, 256, 512, 1024};
constexpr double kWorthwhile = 0.97;  // of the time without; predictions are not exact

double tile_us(std::int64_t head_dim, bool has_hopper) {
  constexpr double kBase = 1.2;  // what does not depend on the width
  constexpr double kOfWidth = 3.8 / 128;
  constexpr double kPortable = 1.5;  // without Hopper's instructions, measured on Hopper
  const double width = static_cast<double>(head_dim);
  const bool fast = has_hopper && hopper_kernel_serves(head_dim);
  return (kBase + kOfWidth * width) * (fast ? 1 : kPortable);
}

double short_us(const AttentionUnits& made, const AttentionShape& shape, int num_multiprocessors,
                bool has_hopper) {
  constexpr double kLaunch = 8;
  constexpr double kFewBlocks = 0.85;  // of the time of a tile, fitted to packs of 4,096 tokens
  if (made.units.empty()) return 0;
  std::int64_t all = 0;
  for (const AttentionUnit& unit : made.units) all += unit_tiles(unit);
  const auto group = static_cast<double>(shape.num_heads / shape.num_kv_heads);
  const double evenly = static_cast<double>(all * shape.num_kv_heads) / num_multiprocessors;
  const double longest = kFewBlocks * static_cast<double>(unit_tiles(made.units.front()));
  return kLaunch + tile_us(shape.head_dim, has_hopper) * group * std::max(evenly, longest);
}

// Pairs of the last `num_queries` of `num_keys` keys.
std::int64_t num_pairs(const AttentionPattern& pattern, std::int64_t num_queries,
                       std::int64_t num_keys) {
  return pattern.pairs(num_keys) - pattern.pairs(num_keys - num_queries);
}

struct Load {
  std::int64_t rows = 0;
  std::int64_t pairs = 0;
};

double cudnn_us(const Load& load, std::int64_t all_rows, const AttentionShape& shape) {
  constexpr double kLaunches = 60;
  constexpr double kOfBatch = 0.006;
  constexpr double kOfRow = 0.049;
  constexpr double kOfPair = 65e-6;
  constexpr double kWidth = 32 * 128;
  if (load.rows == 0) return 0;
  const double wide = static_cast<double>(shape.num_heads * shape.head_dim) / kWidth;
  return kLaunches + wide * (kOfBatch * static_cast<double>(all_rows) +
                             kOfRow * static_cast<double>(load.rows) +
                             kOfPair * static_cast<double>(load.pairs));
}

}  // namespace

std::int64_t choose_short_limit(std::span<const std::int32_t> first_queries,
                                std::span<const std::int32_t> first_keys,
                                const AttentionShape& shape, int num_multiprocessors,
                                bool has_hopper) {
  const auto long_load = [&](std::int64_t limit) {
    Load load;
    for (std::size_t i = 0; i + 1 < first_queries.size(); ++i) {
      const std::int64_t queries = first_queries[i + 1] - first_queries[i];
      const std::int64_t keys = first_keys[i + 1] - first_keys[i];
      if (keys <= limit) continue;
      load.rows += queries;
      load.pairs += num_pairs(shape.pattern, queries, keys);
    }
    return load;
  };
  const std::int64_t all_rows = first_queries.back();
  std::int64_t best = 0;
  double least = kWorthwhile * cudnn_us(long_load(0), all_rows, shape);
  for (const std::int64_t limit : kLimits) {
    const AttentionUnits made = attention_units(first_queries, first_keys, limit);
    const double us = short_us(made, shape, num_multiprocessors, has_hopper) +
                      cudnn_us(long_load(limit), all_rows, shape);
    if (us >= least) continue;
    least = us;
    best = limit;
  }
  return best;
}

}  // namespace packtrain

#include "models/ops/attention/cudnn/buckets.h"

#include <algorithm>
#include <bit>

namespace packtrain {
namespace {

// Smaller sizes are not faster.
constexpr std::int64_t kMinSequences = 16;
constexpr std::int64_t kMinLength = 4096;
constexpr std::int64_t kMinTokens = 1024;

std::int64_t power_of_two(std::int64_t at_least) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(at_least)));
}

std::int64_t rounded_up(std::int64_t num_tokens) {
  const std::int64_t step = std::max(kMinTokens, power_of_two(num_tokens) / 8);
  return (num_tokens + step - 1) / step * step;
}

}  // namespace

AttentionBucket attention_bucket(std::int64_t num_sequences, std::int64_t max_length,
                                 std::int64_t num_tokens, std::int64_t num_keys) {
  AttentionBucket bucket;
  bucket.num_sequences = kMinSequences;
  for (std::int64_t step = kMinSequences / 2; bucket.num_sequences < num_sequences;) {
    bucket.num_sequences += step;
    if (std::has_single_bit(static_cast<std::uint64_t>(bucket.num_sequences))) step *= 2;
  }
  bucket.max_length = std::max(kMinLength, power_of_two(max_length));
  bucket.num_tokens = rounded_up(num_tokens);
  bucket.num_keys = num_keys == 0 ? 0 : rounded_up(num_keys);
  return bucket;
}

}  // namespace packtrain

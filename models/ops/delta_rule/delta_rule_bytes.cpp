#include "models/ops/delta_rule/delta_rule_bytes.h"

#include <algorithm>

#include "models/ops/delta_rule/delta_rule.h"
#include "models/ops/delta_rule/delta_rule_launch.h"

namespace packtrain {
namespace {

constexpr std::int64_t kFloatBytes = 4;
constexpr std::int64_t kBfloat16Bytes = 2;

std::int64_t tensor_core_bytes(const DeltaRuleSizes& sizes, bool backward) {
  const std::int64_t cells = sizes.num_rows * sizes.num_heads;
  const std::int64_t slots = sizes.num_rows / kDeltaRuleChunk;
  const std::int64_t chunks = std::min(slots + sizes.num_sequences, sizes.num_rows);
  const std::int64_t squares =
      kBfloat16Bytes * chunks * sizes.num_heads * kDeltaRuleChunk * kDeltaRuleChunk;
  const std::int64_t values = kBfloat16Bytes * cells * sizes.value_dim;
  const std::int64_t forward =
      kFloatBytes * cells + kBfloat16Bytes * cells * sizes.key_dim + values + squares;
  if (!backward) return forward;
  const std::int64_t states =
      kBfloat16Bytes * slots * sizes.num_heads * sizes.key_dim * sizes.value_dim;
  return forward + squares + 2 * states + values;
}

std::int64_t general_bytes(const DeltaRuleSizes& sizes, bool backward) {
  const std::int64_t values = kFloatBytes * sizes.num_rows * sizes.num_heads * sizes.value_dim;
  const std::int64_t state = kFloatBytes * sizes.num_heads * sizes.key_dim * sizes.value_dim;
  if (!backward) return values + sizes.num_sequences * state;
  const std::int64_t chunks =
      std::min(sizes.num_rows / kDeltaRuleChunk + sizes.num_sequences, sizes.num_rows);
  const std::int64_t keys = kFloatBytes * sizes.num_rows * sizes.num_key_heads * sizes.key_dim;
  return 2 * values + (chunks + sizes.num_sequences) * state + 2 * keys;
}

}  // namespace

bool delta_rule_on_tensor_cores(std::int64_t key_dim, std::int64_t value_dim, DataType dtype,
                                std::int64_t shared_bytes) {
  return shared_bytes >= kDeltaRuleSharedBytes && dtype == DataType::kBFloat16 &&
         key_dim <= kDeltaRuleMaxKeys && key_dim % 8 == 0 && value_dim % 8 == 0;
}

std::int64_t delta_rule_workspace_bytes(const DeltaRuleSizes& sizes, DataType dtype, bool backward,
                                        std::int64_t shared_bytes) {
  return delta_rule_on_tensor_cores(sizes.key_dim, sizes.value_dim, dtype, shared_bytes)
             ? tensor_core_bytes(sizes, backward)
             : general_bytes(sizes, backward);
}

}  // namespace packtrain

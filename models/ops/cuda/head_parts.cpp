#include "models/ops/cuda/head_parts.h"

#include <string>

#include "framework/core/error.h"

namespace packtrain {

HeadPart head_part(const at::Tensor& x, at::Tensor& owner) {
  owner = x.stride(2) == 1 ? x : x.contiguous();
  return {owner.const_data_ptr(), owner.stride(0), owner.stride(1)};
}

RotaryAngles rotary_angles(const at::Tensor& position_ids, const at::Tensor& frequencies,
                           const RotaryOptions& options, std::int64_t head_dim, const char* what) {
  const std::int64_t num_pairs = frequencies.size(-1);
  const bool by_token = frequencies.dim() == 2;
  const bool as_wanted = position_ids.scalar_type() == at::kInt && position_ids.is_contiguous() &&
                         frequencies.scalar_type() == at::kFloat && frequencies.is_contiguous() &&
                         (!by_token || frequencies.size(0) == position_ids.size(0)) &&
                         2 * num_pairs <= head_dim && head_dim % 2 == 0;
  if (!as_wanted) {
    throw Error(ErrorCategory::kInternal,
                std::string(what) + ": got position ids " + position_ids.toString() + ", " +
                    std::to_string(num_pairs) + " frequencies " + frequencies.toString() +
                    (by_token ? " for " + std::to_string(frequencies.size(0)) + " tokens" : "") +
                    " and heads of " + std::to_string(head_dim) +
                    ", wanted contiguous int32, float32 and heads twice as wide or wider");
  }
  RotaryAngles angles;
  angles.position_ids = position_ids.const_data_ptr<std::int32_t>();
  angles.frequencies = frequencies.const_data_ptr<float>();
  angles.frequency_stride = by_token ? num_pairs : 0;
  angles.num_pairs = static_cast<int>(num_pairs);
  angles.interleaved = options.interleaved;
  angles.scaling = static_cast<float>(options.scaling);
  return angles;
}

}  // namespace packtrain

#include "models/layers/linear_precision.h"

#include <algorithm>

#include "framework/core/wildcard.h"
#include "models/ops/fp8/fp8_linear.h"

namespace packtrain {

bool LinearPrecision::keeps(const std::string& weight) const {
  return std::ranges::any_of(
      keep, [&](const std::string& pattern) { return matches_wildcard(pattern, weight); });
}

Fp8Products LinearPrecision::of(const std::string& weight, std::int64_t out,
                                std::int64_t in) const {
  // Rounding of a decay is in all later states of its sequence.
  const bool makes_decays =
      weight.ends_with(".delta_net.ba.weight") || weight.ends_with(".mamba2.zxbcdt.weight");
  // In 8 bits of one scale a pack would differ by a per cent from its examples (fp8_decoder_test).
  const bool is_layer_input = weight.find(".layer_input.") != std::string::npos;
  const bool takes = products != Fp8Products::kNone && fp8_takes(out, in) && !keeps(weight) &&
                     !makes_decays && !is_layer_input;
  return takes ? products : Fp8Products::kNone;
}

bool LinearPrecision::takes_experts(const std::string& weight, std::int64_t out,
                                    std::int64_t in) const {
  return recipe == Fp8Recipe::kTensor && of(weight, out, in) != Fp8Products::kNone;
}

}  // namespace packtrain

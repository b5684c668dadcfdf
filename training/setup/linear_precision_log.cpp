#include "training/setup/linear_precision_log.h"

#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "framework/device/tensor_device.h"
#include "models/decoder/linear_weights.h"
#include "models/decoder/parameters.h"
#include "models/ops/experts/fp8_expert_product.h"
#include "models/ops/fp8/fp8.h"
#include "models/ops/fp8/fp8_block.h"

namespace packtrain {
namespace {

void log_others(const std::vector<std::string>& names, const char* why) {
  if (names.empty()) return;
  log_info("precision.linear: weights that multiply in precision.compute, {}: {} ({}{})", why,
           names.size(), names.front(), names.size() > 1 ? " and others" : "");
}

const char* name_of(Fp8Recipe recipe) {
  return recipe == Fp8Recipe::kTensor ? "fp8_tensor" : "fp8_block";
}

void warn_of_slower_experts(const ExpertsConfig& experts, std::int64_t hidden) {
  if (fp8_experts_are_faster(hidden, experts.intermediate_size, experts.num_experts,
                             experts.experts_per_token)) {
    return;
  }
  log_warning(
      "precision.linear: experts of these sizes are slower in 8-bit floats, because casts take "
      "longer than products save. precision.keep_bf16: ['*.experts.*'] leaves them out");
}

}  // namespace

LinearPrecision linear_precision(const PrecisionSection& precision) {
  if (precision.linear == LinearProducts::kBFloat16) return {};
  const WeightGradientProducts gradient = precision.weight_gradient;
  const bool has_blocks = precision.linear == LinearProducts::kFp8Block;
  const bool has_tensor_gradient = gradient == WeightGradientProducts::kFp8;
  return {gradient == WeightGradientProducts::kBFloat16 ? Fp8Products::kForwardAndInput
                                                        : Fp8Products::kAll,
          precision.keep_bf16,
          !has_blocks           ? Fp8Recipe::kTensor
          : has_tensor_gradient ? Fp8Recipe::kBlockAndTensorOfGradient
                                : Fp8Recipe::kBlock};
}

std::set<std::string> kept_weights(const DecoderConfig& decoder) {
  if (decoder.linear.keep.empty()) return {};
  std::set<std::string> kept;
  for (const ParameterSpec& spec : all_parameters(decoder)) {
    if (spec.decodable && decoder.linear.keeps(spec.name)) kept.insert(spec.name);
  }
  return kept;
}

void prepare_linear_precision(const DecoderConfig& decoder, const Device& device) {
  if (decoder.linear.products == Fp8Products::kNone) return;
  const LinearWeights weights = linear_weights(decoder);
  if (weights.in_fp8.empty() && weights.experts_in_fp8.empty()) {
    throw Error(ErrorCategory::kConfig,
                std::string("precision.linear is ") + name_of(decoder.linear.recipe) +
                    ", but no linear layer of the model can use it",
                "Set precision.linear: bf16, or leave layers out of precision.keep_bf16. Sizes of "
                "weights must be multiples of 16. Only fp8_tensor computes experts in 8 bits, and "
                "none computes weights of DoRA with dropout.");
  }
  if (decoder.linear.recipe == Fp8Recipe::kTensor) {
    check_fp8_device(tensor_device(device));
  } else {
    check_fp8_block_device(tensor_device(device));
  }
  const bool has_gradients =
      decoder.linear.products == Fp8Products::kAll && decoder.adapter == nullptr;
  log_info("precision.linear: weights that multiply in 8-bit floats{}: {}",
           has_gradients ? ", their gradients too" : "", weights.in_fp8.size());
  if (!weights.experts_in_fp8.empty()) {
    log_info(
        "precision.linear: weights of experts that multiply in 8-bit floats, their gradients in "
        "precision.compute: {}",
        weights.experts_in_fp8.size());
    warn_of_slower_experts(decoder.experts, decoder.hidden_size);
  }
  log_others(weights.kept, "as precision.keep_bf16 says");
  log_others(weights.divided, "because DoRA with dropout multiplies parts of them");
  log_others(weights.odd, "because a size is not a multiple of 16");
  log_others(weights.experts, "because they are of experts, which need fp8_tensor and no adapter");
}

}  // namespace packtrain

#include "framework/config/precision_checks.h"

#include <fmt/format.h>

#include <string>

#include "framework/config/adapters.h"
#include "framework/config/check_messages.h"

namespace packtrain {
namespace {

void check_reduce(const PrecisionSection& precision, const SettingPlaces& places) {
  const bool rounds =
      precision.compute == Precision::kFloat32 && precision.reduce == Precision::kBFloat16;
  if (!rounds) return;
  fail_check(
      fmt::format("{}, but {}: gradients computed in fp32 would be rounded to bf16 on the wire",
                  stated("precision.compute", "fp32", places),
                  stated("precision.reduce", "bf16", places)),
      "Set precision.reduce: fp32, or precision.compute: bf16.");
}

void check_master(const PrecisionSection& precision, const SettingPlaces& places) {
  const bool is_narrower =
      precision.compute == Precision::kFloat32 && precision.master == Precision::kBFloat16;
  if (!is_narrower) return;
  fail_check(fmt::format("{}, but {}: fp32 weights would be copies of a bf16 master",
                         stated("precision.compute", "fp32", places),
                         stated("precision.master", "bf16", places)),
             "Set precision.master: fp32, or precision.compute: bf16.");
}

const char* name_of(LinearProducts products) {
  return products == LinearProducts::kFp8Tensor  ? "fp8_tensor"
         : products == LinearProducts::kFp8Block ? "fp8_block"
                                                 : "bf16";
}

void check_groups_of_gradient(const PrecisionSection& precision, const SettingPlaces& places) {
  if (precision.weight_gradient != WeightGradientProducts::kFp8Block) return;
  if (precision.linear == LinearProducts::kFp8Block) return;
  fail_check(fmt::format("{}, but {}: only fp8_block has scales for each 128 numbers",
                         stated("precision.weight_gradient", "fp8_block", places),
                         stated("precision.linear", name_of(precision.linear), places)),
             "Set precision.linear: fp8_block, or another precision.weight_gradient.");
}

// Keys that have an effect with 8-bit products alone, and what these do not have yet.
void check_linear(const Config& config, const SettingPlaces& places) {
  const PrecisionSection& precision = config.precision;
  check_groups_of_gradient(precision, places);
  if (precision.linear == LinearProducts::kFp8Tensor) return;
  if (precision.linear == LinearProducts::kFp8Block) {
    if (!trains_adapter(config)) return;
    fail_check(fmt::format("{}, but an adapter is trained ({}), whose base has one scale a tensor",
                           stated("precision.linear", "fp8_block", places),
                           place_of(config.adapters.empty() ? "adapter.kind" : "adapters", places)),
               "Set precision.linear: fp8_tensor or bf16, or train the whole model.");
  }
  const auto fail = [&](const std::string& statement) {
    fail_check(fmt::format("{}, but {}: no product reads 8-bit floats", statement,
                           stated("precision.linear", "bf16", places)),
               "Set precision.linear: fp8_tensor or fp8_block, or leave the key out.");
  };
  if (precision.weight_gradient == WeightGradientProducts::kFp8) {
    fail(stated("precision.weight_gradient", "fp8", places));
  }
  if (!precision.keep_bf16.empty()) {
    fail(fmt::format("precision.keep_bf16 ({}) names weights",
                     place_of("precision.keep_bf16", places)));
  }
}

void check_deterministic(const Config& config, const SettingPlaces& places) {
  if (!config.precision.deterministic || config.batch.cost != CostSource::kMeasured) return;
  fail_check(
      fmt::format("{}, but {}: measured times differ from run to run, and so would the batches",
                  stated("precision.deterministic", true, places),
                  stated("batch.cost", "measured", places)),
      "Set batch.cost: flops, or precision.deterministic: false.");
}

}  // namespace

void check_precision(const Config& config, const SettingPlaces& places) {
  check_reduce(config.precision, places);
  check_master(config.precision, places);
  check_linear(config, places);
  check_deterministic(config, places);
}

}  // namespace packtrain

#include "launch/cli/export_rounding.h"

#include <span>

#include "framework/config/config.h"
#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "launch/cli/export_start.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/hf_rounding.h"
#include "training/setup/model_source.h"
#include "training/setup/saved_config.h"

namespace packtrain {
namespace {

constexpr double kNoticeable = 0.1;

}  // namespace

std::string dtype_of_run(const TrainingState& state) {
  const bool is_narrow = config_of_run(state).precision.compute == Precision::kBFloat16;
  return is_narrow ? "bfloat16" : "float32";
}

void warn_of_rounding(const std::string& checkpoint, const TrainingState& state,
                      const std::string& moved_to) {
  Config config = config_of_run(state);
  ModelSection& model = config.model;
  if (model.path.empty()) return;  // started from random weights: training changed all of them
  if (!moved_to.empty() && !is_checkpoint(model.path)) model.path = moved_to;
  try {
    const ModelSource start = find_model(config);
    const double share = rounded_share(
        start.decoder,
        [&](std::span<const ShardView> shards) { load_checkpoint(checkpoint, shards, false); },
        [&](std::span<const ShardView> shards) { read_weights(start, shards); });
    if (share < kNoticeable) return;
    log_warning(
        "bfloat16 rounds away {:.0f} % of what training changed: --dtype float32 keeps it, and "
        "--check STORE prints the loss of what is written",
        100 * share);
  } catch (const Error& error) {
    log_info("what bfloat16 rounds away of the training is not known: {}", error.message());
  }
}

}  // namespace packtrain

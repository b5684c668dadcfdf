#include "training/setup/adaptive_recompute.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "framework/config/recompute.h"
#include "framework/core/error.h"
#include "models/estimates/memory_peaks.h"
#include "models/ops/delta_rule/delta_rule_bytes.h"
#include "training/setup/recompute_policies.h"
#include "training/setup/run_device.h"

namespace packtrain {
namespace {

constexpr std::int64_t kRowsOfSequence = 256;
constexpr std::int64_t kNumClasses = 32;

class PolicySearch {
 public:
  PolicySearch(const Config& config, const DecoderConfig& decoder, DeviceKind device)
      : config_(config),
        decoder_(decoder),
        device_(device),
        steps_(recompute_steps(decoder.num_layers)) {
    RecomputeByLayer layers = *config.memory.recompute;
    layers.num_rows = 0;
    const auto found = std::ranges::find(steps_, layers);
    if (found == steps_.end()) {
      throw Error(ErrorCategory::kConfig,
                  "memory.recompute: " + recompute_text(*config.memory.recompute) +
                      " does not fit a model of " + std::to_string(decoder.num_layers) + " layers",
                  "Name fewer layers than the model has, or selective@ROWS or full@ROWS for all.");
    }
    most_ = static_cast<std::size_t>(found - steps_.begin());
    limit_ = peak(most_, largest_rows());
  }

  RecomputeByLayer of_rows(std::int64_t num_rows) const {
    return steps_[num_rows < largest_rows() ? least_step(num_rows, most_) : most_];
  }

  LayerPolicies list() const {
    LayerPolicies policies = policies_of(most_);
    std::size_t step = most_;
    for (std::int64_t i = kNumClasses - 1; i > 0 && step > 0; --i) {
      const std::int64_t rows = i * largest_rows() / kNumClasses;
      step = least_step(rows, step);
      const LayerPolicies of_class = policies_of(step);
      policies.smaller.push_back({rows, of_class.first, of_class.num_first, of_class.rest});
    }
    std::ranges::reverse(policies.smaller);
    return policies;
  }

 private:
  std::int64_t largest_rows() const { return config_.memory.recompute->num_rows; }

  LayerPolicies policies_of(std::size_t step) const {
    MemorySection memory = config_.memory;
    memory.recompute = steps_[step];
    return layer_policies(memory);
  }

  std::int64_t peak(std::size_t step, std::int64_t num_rows) const {
    MicroBatchShape shape = assumed_shape(config_, device_, num_rows);
    shape.max_rows = largest_rows();
    const auto peaks = memory_peaks(decoder_, policies_of(step), shape);
    return std::ranges::max(peaks, {}, &MemoryPeak::bytes).bytes();
  }

  // The first step within the limit, at most `known`, which is. A step needs less than the one
  // before.
  std::size_t least_step(std::int64_t num_rows, std::size_t known) const {
    std::size_t low = 0;
    while (low < known) {
      const std::size_t middle = low + (known - low) / 2;
      if (peak(middle, num_rows) <= limit_) {
        known = middle;
      } else {
        low = middle + 1;
      }
    }
    return known;
  }

  const Config& config_;
  const DecoderConfig& decoder_;
  DeviceKind device_;
  std::vector<RecomputeByLayer> steps_;
  std::size_t most_ = 0;    // of steps_: that of the largest micro-batch
  std::int64_t limit_ = 0;  // bytes of its peak
};

}  // namespace

MicroBatchShape assumed_shape(const Config& config, DeviceKind device, std::int64_t num_rows) {
  MicroBatchShape shape;
  shape.num_rows = shape.max_rows = num_rows;
  shape.num_supervised_rows = std::max<std::int64_t>(0, num_rows - 1);
  shape.num_sequences = num_rows / kRowsOfSequence + 1;
  shape.on_gpu = device == DeviceKind::kCuda;
  if (shape.on_gpu) shape.shared_bytes = delta_rule_shared_bytes();
  shape.compute = scalar_type(config.precision.compute);
  shape.narrow_head_gradient = config.precision.reduce != Precision::kFloat32;
  return shape;
}

LayerPolicies policies_by_rows(const Config& config, const DecoderConfig& decoder,
                               DeviceKind device) {
  const bool adapts = config.memory.recompute && config.memory.recompute->num_rows > 0;
  if (!adapts) return layer_policies(config.memory);
  return PolicySearch(config, decoder, device).list();
}

RecomputeByLayer recompute_of_rows(const Config& config, const DecoderConfig& decoder,
                                   DeviceKind device, std::int64_t num_rows) {
  return PolicySearch(config, decoder, device).of_rows(num_rows);
}

}  // namespace packtrain

#include "parallel/sharding/weight_scales.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>

#include "models/ops/fp8/fp8_weight.h"

namespace packtrain {
namespace {

// int32 []. Reads the values once and stores no magnitudes.
at::Tensor largest_magnitude(const at::Tensor& values) {
  const auto [least, most] = at::aminmax(values);
  return at::maximum(least.neg(), most).abs().to(at::kFloat).view(at::kInt);
}

}  // namespace

WeightScales::WeightScales(const UnitTable& table, at::Device device)
    : num_trained_(table.num_trained_scales),
      amax_(at::zeros({table.num_scales}, at::TensorOptions(at::kInt).device(device))),
      scales_(at::zeros({table.num_scales, kFp8ScaleStride},
                        at::TensorOptions(at::kFloat).device(device))) {}

void WeightScales::find(const UnitTable& table, const OwnedState& owned) {
  if (empty()) return;
  amax_.zero_();
  for (int unit = 0; unit < static_cast<int>(table.units.size()); ++unit) {
    const std::vector<UnitPart>& parts = table.units[unit].parts;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      for (const Segment& segment : parts[part].layout.segments) {
        if (segment.scale < 0) continue;
        const at::Tensor values = owned.weights(unit, part, segment);
        if (values.numel() > 0) amax_[segment.scale].copy_(largest_magnitude(values));
      }
    }
  }
}

void WeightScales::clear_trained(const at::Tensor& skip) {
  if (num_trained_ > 0) amax_.narrow(0, 0, num_trained_).mul_(skip);
}

void WeightScales::write() {
  if (!empty()) fp8_weight_scales(amax_, scales_);
}

}  // namespace packtrain

// The scales of weights in 8-bit products (models/ops/fp8). They follow from each weight's largest
// magnitude, amax. It is found once after weights were loaded, then by each update of the
// optimizer. A rank finds that of what it owns, and the largest one of all ranks is the weight's.
#pragma once

#include <ATen/core/Tensor.h>

#include "parallel/sharding/owned_state.h"
#include "parallel/sharding/unit_table.h"

namespace packtrain {

class WeightScales {
 public:
  WeightScales(const UnitTable& table, at::Device device);

  // True for a model without such weights. The other functions then do nothing.
  bool empty() const { return amax_.numel() == 0; }
  // Of the weight with this number (Segment::scale): float32 [2], as in Parameter::fp8_scale.
  at::Tensor scale(int number) const { return scales_[number].narrow(0, 0, 2); }
  // int32 [scales]: amaxes as bits of float32. The order of such bits is that of the numbers. Those
  // of trained weights come first.
  const at::Tensor& amax() const { return amax_; }

  // The rest enqueues work on the current stream.
  // Finds the amaxes of what this rank owns by a pass over it.
  void find(const UnitTable& table, const OwnedState& owned);
  // Before an update enters the amaxes of trained weights: zeros. A skipped one (`skip`, uint8 [],
  // is 1) leaves them as they are.
  void clear_trained(const at::Tensor& skip);
  // Writes the scales of amaxes that are those of all ranks.
  void write();

 private:
  std::int64_t num_trained_;
  at::Tensor amax_;
  at::Tensor scales_;  // float32 [scales, kFp8ScaleStride]
};

}  // namespace packtrain

// The chunks of a batch on a GPU, which the layers of the batch share.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "models/ops/delta_rule/chunk_table.h"
#include "models/ops/delta_rule/delta_rule.h"

namespace packtrain {

// Chunks, sequences and groups in one tensor on the device.
struct DeltaRuleDeviceTable {
  DeltaRuleDivision division;
  DeltaRuleTable host;
  at::Tensor ints;

  const DeltaRuleChunkRows* chunks() const {
    return static_cast<const DeltaRuleChunkRows*>(ints.const_data_ptr());
  }
  const DeltaRuleSequence* sequences() const {
    return reinterpret_cast<const DeltaRuleSequence*>(chunks() + host.chunks.size());
  }
  const std::int32_t* group_begins() const {
    return reinterpret_cast<const std::int32_t*>(sequences() + host.sequences.size());
  }
};

// The division depends on the heads and columns of values, which are the key. A table without a
// division has the key 0, 0.
struct DeltaRuleTables {
  std::map<std::pair<std::int64_t, std::int64_t>, DeltaRuleDeviceTable> of_values;
};

// The table for heads of `in` and the options' boundaries. Takes it from `tables`, or makes it and
// puts it there. Throws Error(kInternal) while a CUDA graph captures the stream.
const DeltaRuleDeviceTable& delta_rule_device_table(const DeltaRuleInputs& in,
                                                    const DeltaRuleOptions& options,
                                                    std::shared_ptr<DeltaRuleTables>& tables);

// The same for kernels that do not divide sequences into groups: the table has one group. `like` is
// on the device.
const DeltaRuleDeviceTable& sequence_device_table(std::span<const std::int32_t> boundaries,
                                                  const at::Tensor& like,
                                                  std::shared_ptr<DeltaRuleTables>& tables);

}  // namespace packtrain

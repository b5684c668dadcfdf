// Losses of single supervised rows, which the head writes on request. Nothing here waits for the
// device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/metrics/metrics.h"
#include "models/block/batch.h"

namespace packtrain {

// Makes the head write every supervised row's unweighted loss. Each batch gets its part of one
// tensor, which is returned: float32 [supervised rows of all batches] on their device.
at::Tensor request_row_losses(std::span<DeviceBatch> batches);

// Call it when the row losses of `batches` are written; they need sources. Returns float32 [2 *
// num_sources] on their device: the sum of each source's row losses, then the number of rows. A row
// with a weight in its mask byte counts by that weight in both. The sums of several ranks or calls
// may be added.
at::Tensor sum_by_source(std::span<const DeviceBatch> batches, std::int64_t num_sources);

// Call it when the row losses of `batches` are written. Returns float32 [num_adapters] on their
// device: the loss of each adapter, of several that are trained together.
at::Tensor sum_by_adapter(std::span<const DeviceBatch> batches, std::int64_t num_adapters);

// Means of the sums of sum_by_source(). Sources without rows are left out.
std::vector<SourceLoss> mean_by_source(std::span<const double> sums,
                                       const std::vector<std::string>& sources);

}  // namespace packtrain

// The losses of single supervised rows, which the head writes on request, and what is made of them.
// Nothing here waits for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/metrics/metrics.h"
#include "models/batch.h"

namespace packtrain {

// Asks the head for every supervised row's unweighted loss: gives each batch its part of one
// tensor, float32 [supervised rows of all batches] on their device, which is returned.
at::Tensor request_row_losses(std::span<DeviceBatch> batches);

// Of batches with row losses, once they are written, and sources: float32 [2 * num_sources] on
// their device, first the sum of each source's row losses, then how many rows these are; a row
// whose mask byte has a weight counts as that much in both. The sums of several ranks or calls may
// be added.
at::Tensor sum_by_source(std::span<const DeviceBatch> batches, std::int64_t num_sources);

// The means that sums of sum_by_source() stand for; sources without rows are left out.
std::vector<SourceLoss> mean_by_source(std::span<const double> sums,
                                       const std::vector<std::string>& sources);

}  // namespace packtrain

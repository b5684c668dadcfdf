// Sums of an objective's statistics over micro-batches and ranks, and their means.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "framework/metrics/metrics.h"
#include "models/block/batch.h"
#include "models/objectives/objective.h"

namespace packtrain {

// Call it when the row losses of `batches` are written. Returns float64 [2 * statistics] on their
// device, as Objective::sums(). The sums of several ranks or calls may be added.
at::Tensor sum_statistics(std::span<const DeviceBatch> batches, const Objective& objective);

// Means of these sums. Statistics of nothing are left out. `sums` may be longer.
std::vector<ObjectiveStatistic> mean_statistics(std::span<const double> sums,
                                                const std::vector<std::string>& names);

}  // namespace packtrain

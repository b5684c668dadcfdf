// What ranks ask of each other at the end of a step, and what the device reports about the step.
// Loss, norm and requests of all ranks travel in one all-reduce (models/ops/gradient_norm).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "framework/device/device.h"
#include "models/ops/gradient_norm/gradient_norm.h"

namespace packtrain {

// Requests that ranks share at the end of a step.
struct StepRequests {
  bool stop = false;
  bool save = false;  // one rank only
  // Out of memory on this rank. Its loss is set to NaN so that no rank updates.
  bool out_of_memory = false;

  // 1 for each request that this rank makes.
  RequestCounts counts() const;
};

// Outcome of a step over all ranks, as the device reports it. The host does not wait before read().
class StepOutcome {
 public:
  // `num_details`: length of the `details` that OptimizerStep::run gets. `num_adapters`: those that
  // are trained together, or 0.
  explicit StepOutcome(Device& device, std::int64_t num_details = 0, std::int64_t num_adapters = 0);

  // Copies `report` to the host after the work of `compute` so far. `report`: StepScalars::outcome
  // of as many details, then a StepReport of each adapter. It may be freed in compute-stream order.
  void receive(const at::Tensor& report, Stream& compute);

  // The report of one adapter of several.
  struct AdapterValues {
    double loss = 0;
    double grad_norm = 0;
    bool applied = true;
  };
  struct Values {
    double loss = 0;
    double grad_norm = 0;   // before clipping
    bool applied = true;    // false: the step was skipped, nothing was written
    StepRequests requests;  // of any rank
    std::int64_t num_ranks_out_of_memory = 0;
    std::vector<double> details;
    std::vector<AdapterValues> adapters = {};  // empty: several are not trained
  };
  // Waits for the latest receive().
  Values read();

 private:
  std::int64_t num_details_;
  HostBuffer memory_;
  at::Tensor host_;  // float32 [StepReport, details, StepReport of each adapter], view of memory_
  std::unique_ptr<Event> arrived_;
};

}  // namespace packtrain

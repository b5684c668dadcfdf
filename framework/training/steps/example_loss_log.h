// The ledger: which examples a rank trained in each step, and the loss of each. One file a rank,
// examples/rank-N.jsonl in the run folder; all files together hold every piece of every step once,
// through all resumes and numbers of ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>

#include "collators/packed_batch.h"
#include "framework/data/token_store.h"
#include "framework/device/device.h"
#include "framework/metrics/metrics_file.h"
#include "framework/training/steps/batch_source.h"

namespace packtrain {

class ExampleLossLog {
 public:
  // Opens this rank's file and cuts what was written after `first_step`. `store` and `device` must
  // outlive the ledger. Throws Error(kInternal) when the file cannot be read or written.
  ExampleLossLog(const std::string& run_folder, int rank, std::int64_t first_step,
                 const TokenStore& store, Device& device);

  // Starts copying the step's row losses to the host, on the current stream.
  HostBuffer fetch(const at::Tensor& row_losses);
  // Writes the step's lines, once `row_losses` has arrived. `step`: 1 after the first one.
  void write(HostBuffer row_losses, std::int64_t step, std::span<const PackedBatch> micro_batches);

 private:
  const TokenStore& store_;
  MetricsFile file_;
  HostBufferPool buffers_;
};

// Before the ranks open their files, by one rank: makes the folder for a ledger, and in the files
// of ranks from `num_ranks` on (0: when there is no ledger) cuts what was written after
// `first_step`.
void prepare_example_loss_logs(const std::string& run_folder, int num_ranks,
                               std::int64_t first_step);

}  // namespace packtrain

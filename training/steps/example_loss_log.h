// The example loss log: which examples a rank trained in each step, and the loss of each. Each rank
// writes one file, examples/rank-N.jsonl in the run folder. All files together hold every piece of
// every step once, over all resumes and numbers of ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>

#include "collators/packed_batch.h"
#include "framework/data/token_store.h"
#include "framework/device/device.h"
#include "framework/metrics/metrics_file.h"
#include "training/steps/batch_source.h"

namespace packtrain {

class ExampleLossLog {
 public:
  // Opens this rank's file and removes lines after `first_step`. `store` and `device` must outlive
  // the log. Throws Error(kConfig) when the file cannot be read or written.
  ExampleLossLog(const std::string& run_folder, int rank, std::int64_t first_step,
                 const TokenStore& store, Device& device);

  // Starts copying the step's row losses to the host, on the current stream.
  HostBuffer fetch(const at::Tensor& row_losses);
  // Writes the step's lines. Call it when `row_losses` has arrived. `step` counts from 1.
  void write(HostBuffer row_losses, std::int64_t step, std::span<const PackedBatch> micro_batches);
  // Details: MetricsFile.
  std::int64_t num_unwritten_lines() const { return file_.num_unwritten_lines(); }

 private:
  const TokenStore& store_;
  MetricsFile file_;
  HostBufferPool buffers_;
};

// Call it on one rank before the ranks open their files. Makes the folder for the log. Removes
// lines after `first_step` in the files of ranks from `num_ranks` on (0: the run has no log).
void prepare_example_loss_logs(const std::string& run_folder, int num_ranks,
                               std::int64_t first_step);

}  // namespace packtrain

// Prepares this rank's batches ahead of time on its own thread. Another thread makes the next
// epoch's order and packs while this epoch is trained.
#pragma once

#include <cstdint>
#include <future>
#include <mutex>
#include <optional>
#include <vector>

#include "collators/collator.h"
#include "collators/packed_batch.h"
#include "framework/config/config.h"
#include "framework/core/read_ahead.h"
#include "framework/data/token_store.h"
#include "framework/device/device.h"
#include "samplers/planner.h"
#include "samplers/statistics.h"
#include "training/steps/hessian_batches.h"

namespace packtrain {

// A pool of host memory for batches, because pinning memory costs more than filling it.
class HostBufferPool {
 public:
  explicit HostBufferPool(Device& device) : device_(device) {}
  // Both are safe from any thread.
  HostBuffer take(std::size_t size);
  void release(HostBuffer buffer);

 private:
  Device& device_;
  std::mutex mutex_;
  std::vector<HostBuffer> unused_;
};

// What one rank needs for one optimizer step.
struct PreparedStep {
  StepPlan plan;
  PlanStatistics statistics;
  double attention_squares = 0;            // AttentionSpan::squares, over all ranks
  std::vector<PackedBatch> micro_batches;  // of this rank, in host memory of the pool
  std::vector<PackedBatch> mismatched;     // of this rank (mismatched_answers.h), or none
  std::optional<HessianBatches> hessian;   // of this step, or none is due
  std::vector<HostBuffer> buffers;
};

struct BatchSourceOptions {
  int rank = 0;
  Normalize normalize = Normalize::kTokens;
  std::int64_t max_tokens_per_micro_batch = 0;
  CostModel cost;
  bool sources = false;             // batches hold the source of each supervised token
  std::vector<double> speeds = {};  // as in PlanOptions
  std::optional<std::uint64_t> dropout_seed = {};     // batches hold row seeds for dropout
  const RowValues* reference = nullptr;               // as in CollatorOptions
  std::optional<std::uint64_t> mismatched_seed = {};  // steps have mismatched answers
  std::int64_t max_length = 0;                        // of a mismatched example
  std::optional<HessianSettings> hessian = {};        // steps have batches of it when they are due
};

class BatchSource {
 public:
  // Steps first_step .. total_steps - 1. Everything given must outlive the source.
  BatchSource(const TokenStore& store, const Planner& planner, Device& device,
              const BatchSourceOptions& options, std::int64_t first_step, std::int64_t total_steps);

  PreparedStep next();
  // The Hessian batches of any step by the planner's present layout. They have memory of their own.
  std::optional<HessianBatches> hessian_of(std::int64_t step) const;
  // Returns a step's memory to the pool. Call it when the device has read it.
  void recycle(PreparedStep step);
  // Seconds that next() waited since the last call.
  double take_wait_s();

 private:
  PreparedStep prepare(std::int64_t step);
  std::vector<PackedBatch> mismatched_of(const StepPlan& plan, const HostAllocator& allocate) const;
  HessianBatchOptions hessian_options() const;
  void prepare_next_epoch(const StepPlan& plan);

  const TokenStore& store_;
  const Planner& planner_;
  BatchSourceOptions options_;
  std::int64_t total_steps_;
  HostBufferPool pool_;
  LabelWeights label_weights_;
  std::int64_t newest_epoch_ = -1;  // newest epoch begun; the next one is being prepared
  std::future<void> next_epoch_;
  double wait_s_ = 0;
  ReadAhead<PreparedStep> steps_;  // last: its thread uses all of the above
};

}  // namespace packtrain

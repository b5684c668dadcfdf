// Estimated time of an optimizer step on one rank, to compare settings that need different memory.
// The rates are those of an H100 on its host's NVLink, or of a CPU. Only their ratios matter.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/config/config.h"
#include "framework/data/token_store.h"
#include "models/layers/decoder_config.h"
#include "training/plan/memory_plan.h"

namespace packtrain {

// Settings that change memory and time of a step, and none of its numbers.
struct MemorySettings {
  RecomputeByLayer recompute;
  int gather_slots = 0;
  std::int64_t max_tokens = 0;  // of a micro-batch
  Offload offload = Offload::kNone;

  friend bool operator==(const MemorySettings&, const MemorySettings&) = default;
};

// Bytes a second in each direction between a GPU and pinned host memory, while both directions
// copy. `packtrain doctor` measures it.
inline constexpr double kHostCopyBytesPerSecond = 4.5e10;

// Mean work of a rank in a step.
struct StepWork {
  double num_tokens = 0;
  double mean_length = 0;  // of examples
  // Of a step, where the plan is known. Nothing: as many as hold the tokens.
  std::optional<double> num_micro_batches = {};
};

// Without a store examples have data.max_length tokens.
StepWork step_work(const Config& config, const TokenStore* store, int num_ranks);

// A step has num_tokens / max_tokens micro-batches, rounded up, of equal size. Each takes the
// longer of two times, because communication runs during computation:
// - its products of forward and backward, and once more those of forward of layers that are
//   recomputed in full. Each product takes as long as if the micro-batch had some tokens more.
//   Recomputed norms and activation functions take the memory traffic of their outputs.
// - its gathers and reductions. A layer whose weights stay in a slot is not gathered. With
//   parallel.accumulate: local the last micro-batch alone reduces.
// An optimizer's state in host memory takes the time of its copies, after the last micro-batch.
class StepTimeModel {
 public:
  StepTimeModel(const Config& config, const DecoderConfig& decoder, const MemoryRanks& ranks,
                const StepWork& work);

  // `recompute` is that of a micro-batch of mean size.
  double seconds(const MemorySettings& settings) const;
  double num_micro_batches(const MemorySettings& settings) const;  // of a step
  // What the reductions of a step take from the products that run at the same time. It is not in
  // seconds(): settings of memory.fit differ little in it.
  double reduction_seconds(const MemorySettings& settings) const;
  // The step's products and reduction_seconds(): its time where all communication is hidden.
  double busy_seconds(const MemorySettings& settings) const;
  // The copies of an optimizer's state in host memory in a step, to the device or back.
  double state_copy_seconds(const MemorySettings& settings) const;

 private:
  struct Layer {
    double forward_flops = 0;    // of a token
    double step_flops = 0;       // of a token, forward and backward
    double selective_bytes = 0;  // of a token: outputs of norms and activation functions
  };

  double compute_seconds(const RecomputeByLayer& recompute, double num_tokens) const;
  double communication_seconds(int gather_slots, bool reduces) const;

  void add_communication(const Config& config, const DecoderConfig& decoder, int shard_size);

  StepWork work_;
  bool on_gpu_ = false;
  bool is_narrow_ = false;  // products of bfloat16
  bool reduces_once_ = false;
  std::vector<Layer> layers_;
  double head_flops_ = 0;    // of a token, forward and backward
  double gather_bytes_ = 0;  // received by a rank when every layer is gathered once
  double reduce_bytes_ = 0;  // sent by a rank in a reduction of all gradients
  double state_bytes_ = 0;   // a rank's, with masters of weights that are not float32
};

}  // namespace packtrain

// Forward and backward of a single rank as CUDA graphs, one for each recurring size of batch.
// Between kernels of a graph the GPU idles less, which helps when kernels are short.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "collators/packed_batch.h"
#include "framework/config/config.h"
#include "framework/device/captured_work.h"
#include "models/layers/decoder_config.h"
#include "parallel/sharding/sharded_model.h"
#include "training/steps/static_batch.h"

namespace packtrain {

// True when steps with micro-batches of up to `max_tokens` are faster with graphs. `auto`: at most
// 0.6 TFLOP a layer. Measured gains on an H200 (benchmarks/step_graph): 8.5, 5.5 and 4.6 % at 0.12,
// 0.25 and 0.51 TFLOP a layer of Qwen2.5-0.5B. Llama-3.2-1B, whose products are larger, gains 3.8
// and 1.7 % at 0.47 and 0.95.
bool should_use_graphs(CudaGraphs choice, const DecoderConfig& decoder, std::int64_t max_tokens);

// True when a graph can hold a step of this model. A graph cannot wait for values that the host
// reads. Products of experts do that if `has_grouped_kernels` is false
// (ops/experts/grouped_matmul.h). The gated delta rule reads the sequences of a batch there.
bool graphs_support(const DecoderConfig& decoder, bool has_grouped_kernels);

class StepGraphs {
 public:
  // The model must be on one rank and use cuDNN attention: other backends read boundaries on the
  // host. `row_losses`: batches get their row losses too. Both others must outlive this object.
  StepGraphs(ShardedModel& model, const Device& device, bool row_losses = false)
      : model_(model), device_(device), row_losses_(row_losses) {}

  // True for one micro-batch with labels. It has no groups: runs that train groups use no graphs.
  static bool serves(std::span<const PackedBatch> micro_batches);

  // ShardedModel::train for a batch that serves() accepts, padded to its size. The first batch of a
  // size runs without a graph, which times products and builds plans. The second one is captured.
  // The first 16 sizes that recur get graphs, as long as memory holds two steps. The next batch of
  // the size overwrites the loss and the tensors of the batch.
  // After out of memory there is no loss, and no further step is allowed until release().
  struct Trained {
    at::Tensor loss;
    const DeviceBatch& batch;
    std::optional<OutOfMemory> out_of_memory = {};
  };
  Trained train(const PackedBatch& batch);

  // Destroys all graphs and frees their memory. None of them may be in flight.
  void release();

  std::int64_t num_graphs() const { return num_graphs_; }

 private:
  struct Graph {
    std::unique_ptr<StaticBatch> batch;
    std::unique_ptr<CapturedWork> work;  // nothing before the capture
    at::Tensor loss;
    const void* gradient = nullptr;  // where the work writes it
  };

  bool has_capacity() const;
  std::optional<OutOfMemory> capture_train(Graph& graph);

  ShardedModel& model_;
  const Device& device_;
  bool row_losses_;
  std::int64_t num_graphs_ = 0;
  std::map<BatchSize, Graph> graphs_;
};

}  // namespace packtrain

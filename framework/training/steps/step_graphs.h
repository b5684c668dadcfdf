// Forward and backward of a rank alone as CUDA graphs, one for each size of batch that comes again.
// Between kernels of a graph the GPU idles less: worth it where kernels are short.
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
#include "framework/training/steps/static_batch.h"
#include "models/decoder_config.h"
#include "parallel/sharding/sharded_model.h"

namespace packtrain {

// Whether steps with micro-batches of up to `max_tokens` gain by graphs; `auto`: at most 0.6 TFLOP
// a layer. Measured on an H200 (benchmarks/step_graph): 8.5, 5.5 and 4.6 % at 0.12, 0.25 and 0.51
// TFLOP a layer of Qwen2.5-0.5B, 3.8 and 1.7 % at 0.47 and 0.95 of Llama-3.2-1B, whose products are
// larger.
bool should_use_graphs(CudaGraphs choice, const DecoderConfig& decoder, std::int64_t max_tokens);

// Whether a graph can hold a step of this model: a graph cannot wait for what the host reads, as
// products of experts do where `has_grouped_kernels` is false (ops/experts/grouped_matmul.h).
bool graphs_support(const DecoderConfig& decoder, bool has_grouped_kernels);

class StepGraphs {
 public:
  // The model must be a rank's alone, and its attention cuDNN's: other backends read boundaries on
  // the host. All must outlive this.
  StepGraphs(ShardedModel& model, const Device& device) : model_(model), device_(device) {}

  // One micro-batch, with labels.
  static bool serves(std::span<const PackedBatch> micro_batches);

  // ShardedModel::train of a batch that serves() accepts, padded to its size. The first of a size
  // runs kernel by kernel, which times products and builds plans; the second is captured. The first
  // 16 sizes that come twice have graphs, as long as memory holds two steps. The loss, and what
  // lies with the batch, is overwritten by the next batch of the size.
  // Where memory runs out there is no loss, and no step more until release().
  struct Trained {
    at::Tensor loss;
    const DeviceBatch& batch;
    std::optional<OutOfMemory> out_of_memory = {};
  };
  Trained train(const PackedBatch& batch);

  // Forgets all graphs, whose memory is free then. Nothing of them may be under way.
  void release();

  std::int64_t num_graphs() const { return num_graphs_; }

 private:
  struct Graph {
    std::unique_ptr<StaticBatch> batch;
    std::unique_ptr<CapturedWork> work;  // or none yet
    at::Tensor loss;
    const void* gradient = nullptr;  // where the work writes it
  };

  bool has_capacity() const;
  std::optional<OutOfMemory> capture_train(Graph& graph);

  ShardedModel& model_;
  const Device& device_;
  std::int64_t num_graphs_ = 0;
  std::map<BatchSize, Graph> graphs_;
};

}  // namespace packtrain

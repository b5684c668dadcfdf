#include "training/steps/step_graphs.h"

#include <chrono>
#include <utility>

#include "framework/core/logging.h"
#include "models/estimates/flops.h"
#include "training/steps/row_losses.h"

namespace packtrain {
namespace {

constexpr std::int64_t kMaxGraphs = 16;
constexpr double kMaxFlopsPerLayer = 6e11;

}  // namespace

bool should_use_graphs(CudaGraphs choice, const DecoderConfig& decoder, std::int64_t max_tokens) {
  if (choice != CudaGraphs::kAuto) return choice == CudaGraphs::kOn;
  const double flops = training_flops(decoder, static_cast<double>(max_tokens), 0);
  return flops <= kMaxFlopsPerLayer * static_cast<double>(decoder.num_layers);
}

bool graphs_support(const DecoderConfig& decoder, bool has_grouped_kernels) {
  if (decoder.has_other_mixers()) return false;
  return decoder.experts.num_experts == 0 || has_grouped_kernels;
}

bool StepGraphs::serves(std::span<const PackedBatch> micro_batches) {
  if (micro_batches.size() != 1) return false;
  return !micro_batches.front().loss_index.empty();
}

StepGraphs::Trained StepGraphs::train(const PackedBatch& batch) {
  const auto [found, is_first] = graphs_.try_emplace(padded_size(batch));
  Graph& graph = found->second;
  model_.compute().run([&](StreamHandle) {
    if (is_first) {
      graph.batch = std::make_unique<StaticBatch>(found->first, device_);
      if (row_losses_) request_row_losses({&graph.batch->batch(), 1});
    }
    graph.batch->load(batch);
  });
  model_.begin_step(/*num_micro_batches=*/1);
  // A step of several micro-batches may have changed the gradient's address.
  const bool is_stale =
      graph.work != nullptr && graph.gradient != model_.gradient().const_data_ptr();
  const bool wanted = is_stale || (graph.work == nullptr && !is_first && num_graphs_ < kMaxGraphs &&
                                   has_capacity());
  DeviceBatch& on_device = graph.batch->batch();
  if (wanted) {
    if (auto out_of_memory = capture_train(graph)) return {{}, on_device, out_of_memory};
  }
  if (graph.work == nullptr) {
    auto [loss, out_of_memory] = model_.try_train({&on_device, 1});
    return {std::move(loss), on_device, std::move(out_of_memory)};
  }
  model_.compute().run([&](StreamHandle) { graph.work->replay(); });
  return {graph.loss, on_device};
}

// Graphs keep the memory of a step. Steps without a graph need as much again.
bool StepGraphs::has_capacity() const {
  const std::size_t of_a_step = device_.peak_memory_bytes() - device_.memory_use().allocated_bytes;
  return device_.available_memory_bytes() >= 2 * of_a_step;
}

std::optional<OutOfMemory> StepGraphs::capture_train(Graph& graph) {
  const auto begin = std::chrono::steady_clock::now();
  const bool is_new = graph.work == nullptr;
  graph = {std::move(graph.batch), nullptr, {}, nullptr};
  PassResult trained;
  graph.work =
      capture(model_.compute(), [&] { trained = model_.try_train({&graph.batch->batch(), 1}); });
  if (graph.work == nullptr) return {};  // the CPU has no graphs
  if (trained.out_of_memory) {
    graph.work = nullptr;  // it holds only a part of the step
    return trained.out_of_memory;
  }
  graph.loss = std::move(trained.loss);
  if (is_new) ++num_graphs_;
  graph.gradient = model_.gradient().const_data_ptr();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  log_debug("CUDA graph {} made in {:.0f} ms, of a batch of {} rows", num_graphs_, took.count(),
            graph.batch->batch().num_rows());
  return {};
}

void StepGraphs::release() {
  graphs_.clear();
  num_graphs_ = 0;
}

}  // namespace packtrain

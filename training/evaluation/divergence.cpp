#include "training/evaluation/divergence.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "training/steps/upload.h"

namespace packtrain {
namespace {

constexpr std::size_t kMicroBatchesAtOnce = 4;

// Minus the sum of log-probabilities by the model.
double sum_of_losses(const ReferenceModel& of, std::span<const PackedBatch> packed,
                     const Device& device, CollectiveEvaluation& joint) {
  Stream& compute = of.model->compute();
  double sum = 0;
  std::vector<DeviceBatch> batches;
  at::Tensor losses;
  joint.evaluate(*of.model, packed.size(), [&] {
    compute.run([&](StreamHandle) {
      for (const PackedBatch& batch : packed) batches.push_back(upload(batch, device));
      losses = request_log_probs(batches, of.without_adapter);
    });
    return std::span<DeviceBatch>(batches);
  });
  joint.attempt(
      [&] { compute.run([&](StreamHandle) { sum = losses.sum(at::kDouble).item<double>(); }); });
  compute.take_waited();  // belongs to no step
  joint.agree();
  return sum;
}

}  // namespace

double mean_divergence(const ReferenceModel& policy, const ReferenceModel& reference,
                       std::span<const PackedBatch> mismatched, std::int64_t num_examples,
                       const Device& device, World& world, CollectiveEvaluation& joint) {
  double sum = 0;
  for (std::size_t first = 0; first < mismatched.size(); first += kMicroBatchesAtOnce) {
    const auto some =
        mismatched.subspan(first, std::min(kMicroBatchesAtOnce, mismatched.size() - first));
    sum += sum_of_losses(reference, some, device, joint);
    sum -= sum_of_losses(policy, some, device, joint);
  }
  world.control().all_reduce(&sum, 1, DataType::kFloat64, ReduceOp::kSum, nullptr);
  return sum / static_cast<double>(num_examples);
}

}  // namespace packtrain

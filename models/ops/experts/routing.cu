// One warp a row. An expert's rank is a unique number, so the next chosen expert is the one with
// the largest rank below the last one. Nothing is sorted or marked as taken.
#include "framework/device/cuda/check.h"
#include "models/ops/experts/routing_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr unsigned kAllLanes = ~0U;

__device__ int lane() {
  return static_cast<int>(threadIdx.x) % 32;
}

// Returns -1 when the warp has no row.
__device__ std::int64_t row_of_warp(const RoutingShape& shape) {
  const std::int64_t row = std::int64_t{kWarps} * blockIdx.x + threadIdx.x / 32;
  return row < shape.num_rows ? row : -1;
}

__device__ float warp_sum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, offset);
  }
  return value;
}

__device__ std::uint64_t warp_max(std::uint64_t value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const std::uint64_t other = __shfl_xor_sync(kAllLanes, value, offset);
    value = other > value ? other : value;
  }
  return value;
}

// The rank is above 0. It is larger for the larger score and, at equal scores (also +0 and -0), for
// the lower expert. NaN is the largest, as in libtorch's sort. Flipping bits makes the order of
// floats that of unsigned integers.
__device__ std::uint64_t rank_of(float score, std::uint32_t expert) {
  constexpr std::uint32_t kSign = 0x80000000U;
  std::uint32_t bits = __float_as_uint(score);
  if (bits == kSign) bits = 0;
  bits = (bits & kSign) != 0 ? ~bits : bits | kSign;
  if (isnan(score)) bits = ~0U;
  return static_cast<std::uint64_t>(bits) << 32 | ~expert;
}

__device__ std::uint32_t expert_of(std::uint64_t rank) {
  return ~static_cast<std::uint32_t>(rank);
}

// The largest rank below `limit` in the row.
__device__ std::uint64_t next_rank(const float* scores, std::int64_t num_experts,
                                   std::uint64_t limit) {
  std::uint64_t best = 0;
  for (std::int64_t e = lane(); e < num_experts; e += 32) {
    const std::uint64_t rank = rank_of(scores[e], static_cast<std::uint32_t>(e));
    if (rank < limit && rank > best) best = rank;
  }
  return warp_max(best);
}

// Writes the experts in descending order and their scores in place of the weights. Lane s % 32
// writes element s, because the same lane later reads it. Returns the largest score.
__device__ float choose(const RoutingShape& shape, const float* scores, float* weights,
                        std::int32_t* experts) {
  std::uint64_t rank = ~std::uint64_t{0};
  float largest = 0;
  for (std::int64_t s = 0; s < shape.experts_per_row; ++s) {
    rank = next_rank(scores, shape.num_experts, rank);
    const float score = scores[expert_of(rank)];
    if (s == 0) largest = score;
    if (lane() == s % 32) {
      weights[s] = score;
      experts[s] = static_cast<std::int32_t>(expert_of(rank));
    }
  }
  return largest;
}

__device__ float sum_of_exponentials(const float* scores, std::int64_t count, float largest) {
  float sum = 0;
  for (std::int64_t i = lane(); i < count; i += 32) sum += expf(scores[i] - largest);
  return warp_sum(sum);
}

__global__ void __launch_bounds__(kThreads)
    routing_kernel(const RoutingShape shape, const float* logits, const RoutingOutputs outputs) {
  const std::int64_t row = row_of_warp(shape);
  if (row < 0) return;
  const float* const scores = logits + row * shape.num_experts;
  float* const weights = outputs.weights + row * shape.experts_per_row;
  const float largest =
      choose(shape, scores, weights, outputs.experts + row * shape.experts_per_row);
  float all = 0;
  if (!shape.normalize || outputs.probabilities != nullptr) {
    all = sum_of_exponentials(scores, shape.num_experts, largest);
  }
  const float sum =
      shape.normalize ? sum_of_exponentials(weights, shape.experts_per_row, largest) : all;
  for (std::int64_t s = lane(); s < shape.experts_per_row; s += 32) {
    weights[s] = expf(weights[s] - largest) / sum;
  }
  if (outputs.probabilities == nullptr) return;
  float* const probabilities = outputs.probabilities + row * shape.num_experts;
  for (std::int64_t e = lane(); e < shape.num_experts; e += 32) {
    probabilities[e] = expf(scores[e] - largest) / all;
  }
}

// Sum of a b over the warp.
__device__ float dot(const float* a, const float* b, std::int64_t count) {
  float sum = 0;
  for (std::int64_t i = lane(); i < count; i += 32) sum += a[i] * b[i];
  return warp_sum(sum);
}

// dz = p (dp - mean) of all experts, plus w (dw - mean) of the chosen ones.
__global__ void __launch_bounds__(kThreads)
    routing_backward_kernel(const RoutingShape shape, const RoutingGradients in,
                            float* grad_logits) {
  const std::int64_t row = row_of_warp(shape);
  if (row < 0) return;
  const std::int64_t first_choice = row * shape.experts_per_row;
  const std::int64_t first_expert = row * shape.num_experts;
  const float* const weights = in.weights + first_choice;
  const float* const grad_weights = in.grad_weights + first_choice;
  float* const grad = grad_logits + first_expert;
  const float of_chosen = dot(grad_weights, weights, shape.experts_per_row);
  float mean = shape.normalize ? 0 : of_chosen;
  const bool has_grad = in.grad_probabilities != nullptr;
  if (has_grad) {
    mean += dot(in.grad_probabilities + first_expert, in.probabilities + first_expert,
                shape.num_experts);
  }
  for (std::int64_t e = lane(); e < shape.num_experts; e += 32) {
    const float p = in.probabilities == nullptr ? 0 : in.probabilities[first_expert + e];
    grad[e] = p * ((has_grad ? in.grad_probabilities[first_expert + e] : 0) - mean);
  }
  __syncwarp();
  for (std::int64_t s = lane(); s < shape.experts_per_row; s += 32) {  // distinct experts
    grad[in.experts[first_choice + s]] +=
        weights[s] * (grad_weights[s] - (shape.normalize ? of_chosen : 0));
  }
}

unsigned num_blocks(const RoutingShape& shape) {
  return static_cast<unsigned>((shape.num_rows + kWarps - 1) / kWarps);
}

}  // namespace

void launch_routing(const RoutingShape& shape, const float* logits, const RoutingOutputs& outputs,
                    void* stream) {
  if (shape.num_rows == 0) return;
  routing_kernel<<<num_blocks(shape), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      shape, logits, outputs);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

void launch_routing_backward(const RoutingShape& shape, const RoutingGradients& gradients,
                             float* grad_logits, void* stream) {
  if (shape.num_rows == 0) return;
  routing_backward_kernel<<<num_blocks(shape), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      shape, gradients, grad_logits);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain

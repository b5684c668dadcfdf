#include "models/ops/attention/cudnn/attention.h"

#include <ATen/cudnn/Handle.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "framework/core/logging.h"
#include "models/ops/attention/cudnn/layout.h"
#include "models/ops/attention/cudnn/plan.h"
#include "models/ops/attention/packed_heads.h"
#include "models/ops/attention/short/attention.h"

namespace packtrain {
namespace {

CudnnProblem problem_of(const AttentionShape& shape, const AttentionBucket& bucket,
                        std::int64_t max_length, bool backward) {
  CudnnProblem problem;
  problem.backward = backward;
  problem.num_heads = shape.num_heads;
  problem.num_kv_heads = shape.num_kv_heads;
  problem.head_dim = shape.head_dim;
  problem.scale = attention_scale(shape);
  // Kernels are faster without a window that masks nothing.
  problem.window = shape.pattern.within(max_length).window;
  problem.soft_cap = shape.soft_cap;
  problem.num_sequences = bucket.num_sequences;
  problem.max_length = bucket.max_length;
  problem.has_prefixes = bucket.num_keys > 0;
  if (backward) {  // forward plans do not depend on these, and serve all batches
    problem.num_tokens = bucket.num_tokens;
    problem.num_keys = problem.has_prefixes ? bucket.num_keys : bucket.num_tokens;
  }
  const std::int64_t key_elements = 2 * shape.num_kv_heads * shape.head_dim;
  const std::int64_t elements =
      std::max((shape.num_heads * shape.head_dim + key_elements) * bucket.num_tokens,
               key_elements * bucket.num_keys);
  problem.wide_offsets = elements > std::numeric_limits<std::int32_t>::max();
  return problem;
}

using PlanKey = std::pair<at::DeviceIndex, CudnnProblem>;

// All plans of the process. Never destroyed, because cuDNN may be unloaded before static objects
// are.
struct Plans {
  std::mutex mutex;
  std::map<PlanKey, CudnnPlan> plans;
};

Plans& all_plans() {
  static Plans& plans = *new Plans;
  return plans;
}

void* handle() {
  return at::native::getCudnnHandle();
}

const CudnnPlan& plan_for(const CudnnProblem& problem, at::Device device) {
  Plans& all = all_plans();
  const std::lock_guard lock(all.mutex);
  const PlanKey key(device.index(), problem);
  const auto found = all.plans.find(key);
  if (found != all.plans.end()) return found->second;
  const auto start = std::chrono::steady_clock::now();
  const CudnnPlan& plan = all.plans.try_emplace(key, problem, handle()).first->second;
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  log_debug(
      "attention: cuDNN {} plan for {} sequences of up to {}, {} tokens and {} keys built in "
      "{:.0f} "
      "ms, workspace {} MiB",
      problem.backward ? "backward" : "forward", problem.num_sequences, problem.max_length,
      problem.num_tokens, problem.num_keys, elapsed.count(), plan.workspace_bytes() >> 20);
  return plan;
}

void run(const CudnnPlan& plan, const CudnnPointers& pointers, const at::Tensor& qkv) {
  const at::Tensor workspace = at::empty({plan.workspace_bytes()}, qkv.options().dtype(at::kByte));
  plan.run(pointers, workspace.data_ptr(), handle());
}

// Pointers that forward and backward share.
CudnnPointers pointers_of(const Heads& heads, const at::Tensor& y, const at::Tensor& stats,
                          const AttentionLayout& layout) {
  CudnnPointers p;
  p.query = heads.query.data_ptr();
  p.key = heads.key.data_ptr();
  p.value = heads.value.data_ptr();
  p.output = y.data_ptr();
  p.stats = stats.data_ptr();
  p.query_lengths = layout.lengths.select(0, 0).data_ptr();
  p.key_lengths = layout.lengths.select(0, 1).data_ptr();
  p.query_offsets = layout.offsets.select(0, kQueryOffsetRow).data_ptr();
  p.key_offsets = layout.offsets.select(0, kKeyOffsetRow).data_ptr();
  p.head_offsets = layout.offsets.select(0, kHeadOffsetRow).data_ptr();
  p.kv_offsets = layout.offsets.select(0, kKvOffsetRow).data_ptr();
  p.stat_offsets = layout.offsets.select(0, kStatOffsetRow).data_ptr();
  return p;
}

AttentionBucket bucket_of(DeviceBatch& batch, std::int64_t num_rows,
                          const OperatorOptions& options) {
  const std::int64_t rows = std::max(num_rows, options.min_planned_rows);
  if (batch.segments().are_sequences()) {
    return attention_bucket(batch.cu_seqlens.size(0) - 1, batch.max_seqlen, rows);
  }
  const ExpandedKeys& keys = expanded_keys(batch);
  return attention_bucket(keys.num_sequences(), keys.max_keys, rows,
                          std::max(keys.num_keys(), options.min_planned_keys));
}

HeadGradients split_gradients(const at::Tensor& grad, const AttentionShape& shape) {
  const Heads heads = split_heads(grad, shape);
  return {heads.query, heads.key, heads.value};
}

// cuDNN's plan, and the sequences that it leaves to the kernels for short ones; null: none.
struct BackwardParts {
  AttentionBucket bucket;
  ShortUnits* units = nullptr;

  bool has_cudnn() const { return units == nullptr || units->long_sequences.defined(); }
};

void run_cudnn_backward(const BackwardParts& parts, const at::Tensor& grad_output,
                        const at::Tensor& qkv, const PackedHeads& in, const at::Tensor& y,
                        const at::Tensor& stats, const AttentionShape& shape, DeviceBatch& batch,
                        const HeadGradients& grad) {
  const CudnnProblem problem = problem_of(shape, parts.bucket, batch.max_seqlen, /*backward=*/true);
  const CudnnPlan& plan = plan_for(problem, qkv.device());
  const AttentionLayout& layout = attention_layout(batch, in, shape, parts.bucket.num_sequences,
                                                   problem.wide_offsets, parts.units);
  CudnnPointers pointers = pointers_of(in.heads, y, stats, layout);
  pointers.grad_output = grad_output.data_ptr();
  pointers.grad_query = grad.query.data_ptr();
  pointers.grad_key = grad.key.data_ptr();
  pointers.grad_value = grad.value.data_ptr();
  run(plan, pointers, qkv);
}

HeadGradients backward_of(const BackwardParts& parts, const at::Tensor& grad_output,
                          const at::Tensor& qkv, const at::Tensor& y, const at::Tensor& stats,
                          const AttentionShape& shape, DeviceBatch& batch) {
  if (qkv.size(0) == 0) return split_gradients(at::empty_like(qkv), shape);
  const c10::DeviceGuard guard(qkv.device());
  const PackedHeads in = packed_heads(qkv, shape, batch);
  const auto empty_keys = [&] { return at::empty(in.heads.key.sizes(), qkv.options()); };
  // Stores dq in the layout of q (plan.h says why), but not dk and dv. For those cuDNN has a copy
  // of all query heads in its workspace, with a stride num_heads / num_kv_heads times as large.
  const HeadGradients in_qkv = split_gradients(at::empty_like(qkv), shape);
  const HeadGradients grad = {in_qkv.query, empty_keys(), empty_keys()};
  const at::Tensor dense_grad = grad_output.contiguous();
  if (parts.has_cudnn()) {
    run_cudnn_backward(parts, dense_grad, qkv, in, y, stats, shape, batch, grad);
  }
  if (parts.units != nullptr) {
    short_backward(dense_grad, in, y, stats, shape, *parts.units, grad);
  }
  if (in.expanded == nullptr) return grad;
  sum_copies(grad.key, *in.expanded, in_qkv.key);
  sum_copies(grad.value, *in.expanded, in_qkv.value);
  return in_qkv;
}

}  // namespace

AttentionOutput cudnn_forward_at(const AttentionBucket& bucket, const at::Tensor& qkv,
                                 const AttentionShape& shape, DeviceBatch& batch) {
  const at::Tensor y = at::empty({qkv.size(0), shape.num_heads * shape.head_dim}, qkv.options());
  const at::Tensor stats =
      at::empty({qkv.size(0), shape.num_heads}, qkv.options().dtype(at::kFloat));
  if (qkv.size(0) == 0) return {y, {stats}};
  const c10::DeviceGuard guard(qkv.device());
  const CudnnProblem problem = problem_of(shape, bucket, batch.max_seqlen, /*backward=*/false);
  const CudnnPlan& plan = plan_for(problem, qkv.device());
  const PackedHeads in = packed_heads(qkv, shape, batch);
  const AttentionLayout& layout =
      attention_layout(batch, in, shape, bucket.num_sequences, problem.wide_offsets);
  run(plan, pointers_of(in.heads, y, stats, layout), qkv);
  return {y, {stats}};
}

HeadGradients cudnn_backward_at(const AttentionBucket& bucket, const at::Tensor& grad_output,
                                const at::Tensor& qkv, const at::Tensor& y,
                                const std::vector<at::Tensor>& saved, const AttentionShape& shape,
                                DeviceBatch& batch) {
  return backward_of({bucket, nullptr}, grad_output, qkv, y, saved[0], shape, batch);
}

HeadGradients divided_backward(std::int64_t max_keys, const at::Tensor& grad_output,
                               const at::Tensor& qkv, const at::Tensor& y,
                               const std::vector<at::Tensor>& saved, const AttentionShape& shape,
                               DeviceBatch& batch, const OperatorOptions& options) {
  ShortUnits& units = short_units(batch, max_keys);
  AttentionBucket bucket = bucket_of(batch, qkv.size(0), options);
  if (units.long_sequences.defined()) {
    bucket = attention_bucket(units.long_sequences.size(0), bucket.max_length, bucket.num_tokens,
                              bucket.num_keys);
  }
  return backward_of({bucket, &units}, grad_output, qkv, y, saved[0], shape, batch);
}

AttentionOutput cudnn_forward(const at::Tensor& qkv, const AttentionShape& shape,
                              DeviceBatch& batch, const OperatorOptions& options) {
  return cudnn_forward_at(bucket_of(batch, qkv.size(0), options), qkv, shape, batch);
}

HeadGradients cudnn_backward(const at::Tensor& grad_output, const at::Tensor& qkv,
                             const at::Tensor& y, const std::vector<at::Tensor>& saved,
                             const AttentionShape& shape, DeviceBatch& batch,
                             const OperatorOptions& options) {
  const std::int64_t max_keys = short_limit(batch, shape);
  if (max_keys > 0) {
    return divided_backward(max_keys, grad_output, qkv, y, saved, shape, batch, options);
  }
  return cudnn_backward_at(bucket_of(batch, qkv.size(0), options), grad_output, qkv, y, saved,
                           shape, batch);
}

std::int64_t cudnn_workspace_bytes(const AttentionBucket& bucket, const AttentionShape& shape,
                                   bool backward, at::Device device) {
  const c10::DeviceGuard guard(device);
  return plan_for(problem_of(shape, bucket, bucket.max_length, backward), device).workspace_bytes();
}

int cudnn_capability_major() {
  constexpr int kHopper = 9;
  static const int major = [] {
    int device = 0;
    int found = 0;
    const bool is_there =
        cudaGetDevice(&device) == cudaSuccess &&
        cudaDeviceGetAttribute(&found, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess;
    if (!is_there) cudaGetLastError();  // a missing driver is no error: clears it
    return is_there ? found : kHopper;
  }();
  return major;
}

std::int64_t num_cudnn_plans() {
  Plans& all = all_plans();
  const std::lock_guard lock(all.mutex);
  return static_cast<std::int64_t>(all.plans.size());
}

}  // namespace packtrain

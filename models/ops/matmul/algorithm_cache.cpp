#include "models/ops/matmul/algorithm_cache.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "framework/device/cuda/check.h"
#include "models/ops/matmul/algorithm_timer.h"
#include "models/ops/matmul/token_bucket.h"

namespace packtrain {
namespace {

constexpr int kNumCandidates = 12;
constexpr int kNumBesideNear = 3;  // candidates, in addition to choices for near numbers of tokens
constexpr std::int64_t kNearFactor = 2;  // in tokens
constexpr std::size_t kMaxNear = 4;      // choices

// The sizes of weights are fixed by the model. The other dimension is tokens: rows of the output,
// or the summed dimension of weight gradients.
std::int64_t& tokens_of(std::int64_t& rows, std::int64_t& inner, bool sums_tokens) {
  return sums_tokens ? inner : rows;
}

// The stride of an operand, or 0 where it changes with the number of tokens: its rows are tokens.
std::int64_t fixed_stride(const GemmCall& call, const GemmMatrix& matrix, bool has_inner_rows) {
  return call.sums_tokens && has_inner_rows ? 0 : matrix.stride;
}

bool adds_to_output(const GemmCall& call) {
  return call.addend.data == call.out.data;
}

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  PACKTRAIN_CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

[[noreturn]] void throw_unsupported(const GemmCall& call, const char* why) {
  throw Error(ErrorCategory::kDevice,
              "matmul: cuBLASLt has no algorithm for " + call.text() + ": " + why,
              "Sizes that are multiples of 8 are always supported.");
}

// The heuristic's candidates for the call. `of_bucket` asks for the largest number of tokens of the
// call's bucket.
std::vector<cublasLtMatmulAlgo_t> candidates_of(cublasLtHandle_t handle, GemmCall call,
                                                const GemmWorkspace& workspace, bool of_bucket,
                                                int max_candidates) {
  if (of_bucket) {
    std::int64_t& tokens = tokens_of(call.rows, call.inner, call.sums_tokens);
    tokens = token_bucket(tokens);
    if (!call.left.transposed) call.left.stride = std::max(call.left.stride, call.inner);
    if (call.right.transposed) call.right.stride = std::max(call.right.stride, call.inner);
  }
  auto candidates = GemmDescriptors(call).candidates(handle, workspace.bytes, max_candidates);
  if (candidates.empty()) throw_unsupported(call, "the heuristics name none");
  return candidates;
}

bool same(const cublasLtMatmulAlgo_t& a, const cublasLtMatmulAlgo_t& b) {
  return std::equal(std::begin(a.data), std::end(a.data), std::begin(b.data));
}

void add_new(std::vector<cublasLtMatmulAlgo_t>& algorithms, const cublasLtMatmulAlgo_t& more) {
  const bool known = std::ranges::any_of(
      algorithms, [&](const cublasLtMatmulAlgo_t& one) { return same(one, more); });
  if (!known) algorithms.push_back(more);
}

}  // namespace

std::pair<AlgorithmCache::Key, std::int64_t> AlgorithmCache::key_of(const GemmCall& call,
                                                                    const GemmTiming& timing) {
  // A GEMM that adds to its own output uses the key of the GEMM without addend. That one came first
  // and has been timed by then.
  const bool addend = call.addend.data != nullptr && !adds_to_output(call);
  Key key{call.rows,
          call.columns,
          call.inner,
          fixed_stride(call, call.left, !call.left.transposed),
          fixed_stride(call, call.right, call.right.transposed),
          addend ? call.addend.stride : 0,
          call.out.stride,
          address_alignment(call.left.data),
          address_alignment(call.right.data),
          addend ? address_alignment(call.addend.data) : 0,
          address_alignment(call.out.data),
          call.left.transposed,
          call.right.transposed,
          call.bias != nullptr,
          timing.enabled,
          call.sums_tokens,
          call.fast_accumulation,
          call.left.dtype,
          call.right.dtype,
          call.out.dtype,
          call.left.scaling,
          call.right.scaling};
  const std::int64_t tokens = std::exchange(tokens_of(key.rows, key.inner, key.sums_tokens), 0);
  return {key, token_bucket(tokens)};
}

std::vector<cublasLtMatmulAlgo_t> AlgorithmCache::choices_near(const Choices& choices,
                                                               std::int64_t tokens) {
  std::vector<std::pair<std::int64_t, const cublasLtMatmulAlgo_t*>> by_distance;
  const auto end = choices.upper_bound(tokens * kNearFactor);
  for (auto one = choices.lower_bound(tokens / kNearFactor); one != end; ++one) {
    const auto& [of_tokens, choice] = *one;
    if (choice.settled) by_distance.emplace_back(std::abs(of_tokens - tokens), &choice.algorithm);
  }
  std::ranges::sort(by_distance);
  std::vector<cublasLtMatmulAlgo_t> near;
  for (const auto& [distance, algorithm] : by_distance) {
    if (near.size() < kMaxNear) add_new(near, *algorithm);
  }
  return near;
}

// For the bucket and not for the call, so that the choice does not depend on which call came first.
cublasLtMatmulAlgo_t AlgorithmCache::heuristic_choice(cublasLtHandle_t handle, const GemmCall& call,
                                                      const GemmWorkspace& workspace) {
  return candidates_of(handle, call, workspace, true, 1)[0];
}

cublasLtMatmulAlgo_t AlgorithmCache::fastest(cublasLtHandle_t handle, const GemmCall& call,
                                             const GemmWorkspace& workspace,
                                             const std::vector<cublasLtMatmulAlgo_t>& near) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  GemmDescriptors descriptors(call);
  const int num_wanted = near.empty() ? kNumCandidates : kNumBesideNear;
  auto candidates = candidates_of(handle, call, workspace, false, num_wanted);
  const auto more = near.empty() ? candidates_of(handle, call, workspace, true, num_wanted) : near;
  for (const cublasLtMatmulAlgo_t& algorithm : more) add_new(candidates, algorithm);
  const AlgorithmTimes times = time_algorithms(handle, descriptors, call, candidates, workspace);
  ++num_timed_;
  timing_seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
  log_debug(
      "matmul {}: algorithm {} of {}, {:.1f} us (the heuristics' first: {:.1f}); {:.2f} s spent "
      "on timing so far",
      call.text(), times.best + 1, candidates.size(), times.microseconds[times.best],
      times.microseconds[0], timing_seconds_);
  return candidates[times.best];
}

bool AlgorithmCache::may_time(const GemmCall& call, const GemmWorkspace& workspace,
                              const GemmTiming& timing) const {
  if (!timing.enabled || adds_to_output(call) || is_captured(workspace.stream)) return false;
  if (timing.share >= 1) return true;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - timing.since;
  return timing_seconds_ - timing.seconds_before < timing.share * elapsed.count();
}

AlgorithmCache::Choice AlgorithmCache::choose(cublasLtHandle_t handle, const GemmCall& call,
                                              const GemmWorkspace& workspace,
                                              const GemmTiming& timing, const Choices& choices,
                                              std::int64_t tokens) {
  if (!timing.enabled) return {heuristic_choice(handle, call, workspace), true};
  const std::vector<cublasLtMatmulAlgo_t> near = choices_near(choices, tokens);
  if (may_time(call, workspace, timing)) return {fastest(handle, call, workspace, near), true};
  return {near.empty() ? heuristic_choice(handle, call, workspace) : near.front(), false};
}

cublasLtMatmulAlgo_t AlgorithmCache::algorithm_of(cublasLtHandle_t handle, const GemmCall& call,
                                                  const GemmWorkspace& workspace,
                                                  const GemmTiming& timing) {
  const auto [key, tokens] = key_of(call, timing);
  Choices& choices = chosen_[key];
  const auto known = choices.find(tokens);
  if (known != choices.end() && (known->second.settled || !may_time(call, workspace, timing))) {
    return known->second.algorithm;
  }
  const Choice choice = choose(handle, call, workspace, timing, choices, tokens);
  choices.insert_or_assign(tokens, choice);
  return choice.algorithm;
}

void AlgorithmCache::run(cublasLtHandle_t handle, const GemmCall& call,
                         const GemmWorkspace& workspace, const GemmTiming& timing) {
  GemmDescriptors descriptors(call);
  const auto status =
      descriptors.run(handle, call, algorithm_of(handle, call, workspace, timing), workspace);
  if (status == CUBLAS_STATUS_SUCCESS) return;
  // The bucket's algorithm may not support this number of tokens; one for the call itself does.
  const auto candidates = descriptors.candidates(handle, workspace.bytes, 1);
  if (candidates.empty()) throw_unsupported(call, cublasLtGetStatusString(status));
  check_cublas(descriptors.run(handle, call, candidates[0], workspace), call.text().c_str());
}

}  // namespace packtrain

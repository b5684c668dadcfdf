// Chooses the cuBLASLt algorithm of a GEMM on first use and keeps it for the process. All numbers
// of tokens of a token_bucket() share one choice; the sizes of weights are exact. Timing runs the
// heuristic's candidates on the call's own operands, writes its output several times, and keeps the
// fastest. It waits for the GPU: about 30 ms for up to 24 candidates. If near numbers of tokens
// were timed before, their choices and the heuristic's first few are sufficient, about 6 ms. Timing
// is not possible while a graph is captured, when the output is also the addend, and when the time
// for it is used up. The nearest choice is used until timing is possible. Calls without timing have
// choices of their own.
#pragma once

#include <compare>
#include <map>
#include <utility>
#include <vector>

#include "models/block/operator_options.h"
#include "models/ops/matmul/cublaslt.h"

namespace packtrain {

class AlgorithmCache {
 public:
  // Runs the call on the current device. Throws Error(kDevice), which names the call, when cuBLASLt
  // cannot.
  void run(cublasLtHandle_t handle, const GemmCall& call, const GemmWorkspace& workspace,
           const GemmTiming& timing);
  std::int64_t num_timed() const { return num_timed_; }  // GEMMs so far
  double timing_seconds() const { return timing_seconds_; }

 private:
  // Properties of a call that a choice depends on.
  struct Key {
    std::int64_t rows, columns, inner;
    std::int64_t left_stride, right_stride, addend_stride, out_stride;
    std::size_t left_alignment, right_alignment, addend_alignment, out_alignment;
    bool left_transposed, right_transposed, bias, timed, sums_tokens, fast_accumulation;
    DataType left_dtype, right_dtype, output_dtype;
    Fp8Scaling left_scaling, right_scaling;
    auto operator<=>(const Key&) const = default;
  };

  struct Choice {
    cublasLtMatmulAlgo_t algorithm;
    bool settled;  // false: to be timed later
  };
  // Choices for one weight, by token_bucket().
  using Choices = std::map<std::int64_t, Choice>;

  // Returns the key, which has no number of tokens, and the number of tokens.
  static std::pair<Key, std::int64_t> key_of(const GemmCall& call, const GemmTiming& timing);
  static cublasLtMatmulAlgo_t heuristic_choice(cublasLtHandle_t handle, const GemmCall& call,
                                               const GemmWorkspace& workspace);
  // Settled choices for near numbers of tokens, nearest first.
  static std::vector<cublasLtMatmulAlgo_t> choices_near(const Choices& choices,
                                                        std::int64_t tokens);
  cublasLtMatmulAlgo_t fastest(cublasLtHandle_t handle, const GemmCall& call,
                               const GemmWorkspace& workspace,
                               const std::vector<cublasLtMatmulAlgo_t>& near);
  bool may_time(const GemmCall& call, const GemmWorkspace& workspace,
                const GemmTiming& timing) const;
  Choice choose(cublasLtHandle_t handle, const GemmCall& call, const GemmWorkspace& workspace,
                const GemmTiming& timing, const Choices& choices, std::int64_t tokens);
  cublasLtMatmulAlgo_t algorithm_of(cublasLtHandle_t handle, const GemmCall& call,
                                    const GemmWorkspace& workspace, const GemmTiming& timing);

  double timing_seconds_ = 0;
  std::int64_t num_timed_ = 0;
  std::map<Key, Choices> chosen_;
};

}  // namespace packtrain

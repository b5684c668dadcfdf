// Which cuBLASLt algorithm runs a product. Chosen on first use and kept for the process, one choice
// for all numbers of tokens of a token_bucket(), weights' sizes exactly. With timing: the
// heuristics' candidates run on the call's own operands, writing its output again and again, and
// the fastest is kept; that waits for the GPU. Of up to 24 candidates, some 30 ms; where numbers of
// tokens near it were timed before, their choices and the heuristics' first few are enough, some 6.
// Where that may not be (a graph is captured, the output is also the addend, the time that timing
// may take is used up) the nearest choice serves until it may.
#pragma once

#include <chrono>
#include <compare>
#include <map>
#include <utility>
#include <vector>

#include "models/ops/matmul/cublaslt.h"

namespace packtrain {

class AlgorithmCache {
 public:
  // Runs the call on the current device. Throws Error(kDevice) naming it when cuBLASLt cannot.
  void run(cublasLtHandle_t handle, const GemmCall& call, const GemmWorkspace& workspace);
  void set_timing(bool timing);
  // From now on timing takes at most this share of the time; 1 is no limit.
  void limit_timing(double share);
  std::int64_t num_timed() const { return num_timed_; }  // products, so far

 private:
  // What a choice depends on.
  struct Key {
    std::int64_t rows, columns, inner;
    std::int64_t left_stride, right_stride, addend_stride, out_stride;
    std::size_t left_alignment, right_alignment, addend_alignment, out_alignment;
    bool left_transposed, right_transposed, bias, bfloat16_input, bfloat16_output;
    auto operator<=>(const Key&) const = default;
  };

  struct Choice {
    cublasLtMatmulAlgo_t algorithm;
    bool settled;  // else until there is time for timing
  };
  // Of a product's weights, whatever the number of tokens: choices by token_bucket().
  using Choices = std::map<std::int64_t, Choice>;

  // Of a call with no tokens: its tokens are in the second.
  static std::pair<Key, std::int64_t> key_of(const GemmCall& call);
  static cublasLtMatmulAlgo_t heuristic_choice(cublasLtHandle_t handle, const GemmCall& call,
                                               const GemmWorkspace& workspace);
  // The settled ones of products with about as many tokens, the nearest first.
  static std::vector<cublasLtMatmulAlgo_t> choices_near(const Choices& choices,
                                                        std::int64_t tokens);
  cublasLtMatmulAlgo_t fastest(cublasLtHandle_t handle, const GemmCall& call,
                               const GemmWorkspace& workspace,
                               const std::vector<cublasLtMatmulAlgo_t>& near);
  bool may_time(const GemmCall& call, const GemmWorkspace& workspace) const;
  Choice choose(cublasLtHandle_t handle, const GemmCall& call, const GemmWorkspace& workspace,
                const Choices& choices, std::int64_t tokens);
  cublasLtMatmulAlgo_t algorithm_of(cublasLtHandle_t handle, const GemmCall& call,
                                    const GemmWorkspace& workspace);

  using Clock = std::chrono::steady_clock;

  bool timing_ = true;
  double timing_share_ = 1;
  Clock::time_point limited_since_;
  double limited_seconds_ = 0;  // spent on timing since then
  double timing_seconds_ = 0;
  std::int64_t num_timed_ = 0;
  std::map<Key, Choices> chosen_;
};

}  // namespace packtrain

// Which cuBLASLt algorithm runs a product. Chosen on first use and kept for the process, one choice
// for all numbers of tokens of a token_bucket(), weights' sizes exactly. With timing: the
// heuristics' candidates run on the call's own operands, writing its output again and again, and
// the fastest is kept; that waits for the GPU. Of up to 24 candidates, some 30 ms; where numbers of
// tokens near it were timed before, their choices and the heuristics' first few are enough, some 6.
#pragma once

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

  // Of a product's weights, whatever the number of tokens: choices by token_bucket().
  using Choices = std::map<std::int64_t, cublasLtMatmulAlgo_t>;

  // Of a call with no tokens: its tokens are in the second.
  static std::pair<Key, std::int64_t> key_of(const GemmCall& call);
  static cublasLtMatmulAlgo_t favourite(cublasLtHandle_t handle, const GemmCall& call,
                                        const GemmWorkspace& workspace);
  // Of products with about as many tokens.
  static std::vector<cublasLtMatmulAlgo_t> choices_near(const Choices& choices,
                                                        std::int64_t tokens);
  cublasLtMatmulAlgo_t fastest(cublasLtHandle_t handle, const GemmCall& call,
                               const GemmWorkspace& workspace,
                               const std::vector<cublasLtMatmulAlgo_t>& near);
  cublasLtMatmulAlgo_t algorithm_of(cublasLtHandle_t handle, const GemmCall& call,
                                    const GemmWorkspace& workspace);

  bool timing_ = true;
  double timing_seconds_ = 0;
  std::int64_t num_timed_ = 0;
  std::map<Key, Choices> chosen_;
};

}  // namespace packtrain

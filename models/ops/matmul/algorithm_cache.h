// Which cuBLASLt algorithm runs a product. Chosen on first use and kept for the process, one choice
// for all numbers of tokens of a token_bucket(), weights' sizes exactly. With timing: the
// heuristics' candidates run on the call's own operands, writing its output again and again, and
// the fastest is kept; that waits for the GPU.
#pragma once

#include <compare>
#include <map>

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

  static Key key_of(const GemmCall& call);
  static cublasLtMatmulAlgo_t favourite(cublasLtHandle_t handle, const GemmCall& call,
                                        const GemmWorkspace& workspace);
  cublasLtMatmulAlgo_t fastest(cublasLtHandle_t handle, const GemmCall& call,
                               const GemmWorkspace& workspace);
  cublasLtMatmulAlgo_t algorithm_of(cublasLtHandle_t handle, const GemmCall& call,
                                    const GemmWorkspace& workspace);

  bool timing_ = true;
  double timing_seconds_ = 0;
  std::int64_t num_timed_ = 0;
  std::map<Key, cublasLtMatmulAlgo_t> chosen_;
};

}  // namespace packtrain

// Which cuBLASLt algorithm runs a product. Chosen on first use and kept for the process, one choice
// for all numbers of tokens within a sixteenth of each other (packs differ a little from step to
// step), weights' sizes exactly. With timing: the heuristics' candidates run on the call's own
// operands, writing its output again and again, and the fastest is kept; that waits for the GPU.
#pragma once

#include <compare>
#include <map>

#include "models/ops/matmul/cublaslt.h"

namespace packtrain {

// The number of tokens that stands for all of its bucket: the largest.
std::int64_t token_bucket(std::int64_t num_tokens);

class AlgorithmCache {
 public:
  // Runs the call on the current device. Throws Error(kDevice) naming it when cuBLASLt cannot.
  void run(cublasLtHandle_t handle, const GemmCall& call, const GemmWorkspace& workspace);
  void set_timing(bool timing);

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
  std::map<Key, cublasLtMatmulAlgo_t> chosen_;
};

}  // namespace packtrain

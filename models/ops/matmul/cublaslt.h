// A thin layer over cuBLASLt: one GEMM, its descriptors and its candidate algorithms.
#pragma once

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "framework/core/data_type.h"
#include "models/ops/matmul/fp8_scaling.h"

namespace packtrain {

// A matrix in memory: rows of `stride` elements or, transposed, columns.
struct GemmMatrix {
  const void* data = nullptr;
  std::int64_t stride = 0;
  bool transposed = false;
  DataType dtype = DataType::kFloat32;  // kBFloat16, kFloat32, or an 8-bit float of an operand
  const float* scale = nullptr;         // on the device, of an operand of 8-bit floats
  Fp8Scaling scaling = Fp8Scaling::kTensorWise;
};

// out = scale left right (+ addend) (+ bias), all row-major: left [rows, inner], right [inner,
// columns].
struct GemmCall {
  GemmMatrix left;
  GemmMatrix right;
  GemmMatrix addend;  // null data: none; may be out
  GemmMatrix out;
  const void* bias = nullptr;  // null: none
  float scale = 1;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t inner = 0;
  bool sums_tokens = false;        // tokens are the inner dimension, otherwise the rows
  bool fast_accumulation = false;  // of 8-bit floats

  void* out_data() const { return const_cast<void*>(out.data); }
  // For example "[2, 3] x [3, 4], bfloat16 -> float32".
  std::string text() const;
};

// Memory for the partial sums of algorithms, and the stream.
struct GemmWorkspace {
  void* data = nullptr;
  std::size_t bytes = 0;
  cudaStream_t stream = nullptr;
};

// cuBLASLt's descriptors of one call. cuBLASLt is column-major, so it computes the transposed
// product: out^T = right^T left^T.
class GemmDescriptors {
 public:
  explicit GemmDescriptors(const GemmCall& call);

  // Returns at most `max_candidates` algorithms, the first choice of the heuristic first. Excludes
  // algorithms that sum parts in the output's dtype or with atomics.
  std::vector<cublasLtMatmulAlgo_t> candidates(cublasLtHandle_t handle, std::size_t workspace_bytes,
                                               int max_candidates);
  // Runs the call of these descriptors, or one of the same shape.
  cublasStatus_t run(cublasLtHandle_t handle, const GemmCall& call,
                     const cublasLtMatmulAlgo_t& algorithm, const GemmWorkspace& workspace);

 private:
  cublasLtMatmulDescOpaque_t operation_;
  cublasLtMatrixLayoutOpaque_t left_;
  cublasLtMatrixLayoutOpaque_t right_;
  cublasLtMatrixLayoutOpaque_t addend_;
  cublasLtMatrixLayoutOpaque_t out_;
  std::array<std::size_t, 4> alignments_;  // of left, right, addend, out, in bytes
};

// The largest power of two, at most 16, that divides an address. Kernels differ by this alignment.
std::size_t address_alignment(const void* address);

// Throws Error(kDevice), which names the call, unless the status is CUBLAS_STATUS_SUCCESS.
void check_cublas(cublasStatus_t status, const char* what);

}  // namespace packtrain

#include "models/ops/matmul/cublaslt.h"

#include <fmt/format.h>

#include "framework/core/error.h"

namespace packtrain {
namespace {

cudaDataType_t data_type(DataType type) {
  switch (type) {
    case DataType::kBFloat16:
      return CUDA_R_16BF;
    case DataType::kFloat8E4M3:
      return CUDA_R_8F_E4M3;
    case DataType::kFloat8E5M2:
      return CUDA_R_8F_E5M2;
    default:
      return CUDA_R_32F;
  }
}

cublasLtMatmulMatrixScale_t scale_mode(Fp8Scaling scaling) {
  switch (scaling) {
    case Fp8Scaling::kBlockWise1x128:
      return CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    case Fp8Scaling::kBlockWise128x128:
      return CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
    default:
      return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  }
}

const char* name_of(Fp8Scaling scaling) {
  switch (scaling) {
    case Fp8Scaling::kBlockWise1x128:
      return " (1 x 128)";
    case Fp8Scaling::kBlockWise128x128:
      return " (128 x 128)";
    default:
      return "";
  }
}

const char* name_of(DataType type) {
  switch (type) {
    case DataType::kBFloat16:
      return "bfloat16";
    case DataType::kFloat8E4M3:
      return "e4m3";
    case DataType::kFloat8E5M2:
      return "e5m2";
    default:
      return "float32";
  }
}

// Describes a row-major [rows, columns] matrix as the column-major [columns, rows] matrix that has
// the same memory.
cublasLtMatrixLayoutOpaque_t layout_of(const GemmMatrix& matrix, std::int64_t rows,
                                       std::int64_t columns) {
  cublasLtMatrixLayoutOpaque_t layout;
  if (matrix.transposed) std::swap(rows, columns);
  check_cublas(cublasLtMatrixLayoutInit(&layout, data_type(matrix.dtype),
                                        static_cast<std::uint64_t>(columns),
                                        static_cast<std::uint64_t>(rows), matrix.stride),
               "cublasLtMatrixLayoutInit");
  return layout;
}

template <typename Value>
void set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute,
         const Value& value) {
  check_cublas(cublasLtMatmulDescSetAttribute(&operation, attribute,
                                              static_cast<const void*>(&value), sizeof(value)),
               "cublasLtMatmulDescSetAttribute");
}

template <typename Value>
void set(cublasLtMatmulPreferenceOpaque_t& preference,
         cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
  check_cublas(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)),
               "cublasLtMatmulPreferenceSetAttribute");
}

}  // namespace

std::string GemmCall::text() const {
  const auto name = [](const GemmMatrix& matrix) {
    return std::string(name_of(matrix.dtype)) + name_of(matrix.scaling);
  };
  const std::string inputs =
      name(left) == name(right) ? name(left) : name(left) + " x " + name(right);
  return fmt::format("[{}, {}]{} x [{}, {}]{}{}{}, {} -> {}", rows, inner,
                     left.transposed ? "^T" : "", inner, columns, right.transposed ? "^T" : "",
                     addend.data != nullptr ? " + addend" : "", bias != nullptr ? " + bias" : "",
                     inputs, name_of(out.dtype));
}

GemmDescriptors::GemmDescriptors(const GemmCall& call)
    : left_(layout_of(call.left, call.rows, call.inner)),
      right_(layout_of(call.right, call.inner, call.columns)),
      addend_(
          layout_of(call.addend.data != nullptr ? call.addend : call.out, call.rows, call.columns)),
      out_(layout_of(call.out, call.rows, call.columns)),
      alignments_{address_alignment(call.left.data), address_alignment(call.right.data),
                  address_alignment(call.addend.data != nullptr ? call.addend.data : call.out.data),
                  address_alignment(call.out.data)} {
  check_cublas(cublasLtMatmulDescInit(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
               "cublasLtMatmulDescInit");
  const auto operation_of = [](const GemmMatrix& matrix) {
    return matrix.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, operation_of(call.right));
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSB, operation_of(call.left));
  if (call.bias != nullptr) {
    set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.bias);
  }
  if (call.left.scale == nullptr) return;
  set(operation_, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, call.right.scale);
  set(operation_, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, call.left.scale);
  set(operation_, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, scale_mode(call.right.scaling));
  set(operation_, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, scale_mode(call.left.scaling));
  set(operation_, CUBLASLT_MATMUL_DESC_FAST_ACCUM,
      static_cast<std::int8_t>(call.fast_accumulation ? 1 : 0));
}

std::vector<cublasLtMatmulAlgo_t> GemmDescriptors::candidates(cublasLtHandle_t handle,
                                                              std::size_t workspace_bytes,
                                                              int max_candidates) {
  cublasLtMatmulPreferenceOpaque_t preference;
  check_cublas(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
  const auto bytes = [this](std::size_t i) { return static_cast<std::uint32_t>(alignments_[i]); };
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace_bytes});
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytes(1));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytes(0));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, bytes(2));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, bytes(3));
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(max_candidates));
  int num_found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle, &operation_, &right_, &left_, &addend_, &out_,
                                     &preference, max_candidates, results.data(), &num_found);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) {
    check_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
  }
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < num_found; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<std::size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
  }
  return algorithms;
}

cublasStatus_t GemmDescriptors::run(cublasLtHandle_t handle, const GemmCall& call,
                                    const cublasLtMatmulAlgo_t& algorithm,
                                    const GemmWorkspace& workspace) {
  const float beta = call.addend.data != nullptr ? 1 : 0;
  const void* addend = call.addend.data != nullptr ? call.addend.data : call.out.data;
  return cublasLtMatmul(handle, &operation_, &call.scale, call.right.data, &right_, call.left.data,
                        &left_, &beta, addend, &addend_, call.out_data(), &out_, &algorithm,
                        workspace.data, workspace.bytes, workspace.stream);
}

std::size_t address_alignment(const void* address) {
  std::size_t alignment = 16;
  while (reinterpret_cast<std::uintptr_t>(address) % alignment != 0) alignment /= 2;
  return alignment;
}

void check_cublas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ErrorCategory::kDevice, std::string("matmul: ") + what + " returned " +
                                          cublasLtGetStatusName(status) + " (" +
                                          cublasLtGetStatusString(status) + ")");
}

}  // namespace packtrain

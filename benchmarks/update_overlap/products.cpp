#include "benchmarks/update_overlap/products.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>

#include <limits>

#include "framework/device/cuda/check.h"
#include "framework/device/cuda/cuda_stream.h"
#include "models/ops/matmul/cublaslt.h"

namespace packtrain {
namespace {

constexpr std::int64_t kWorkspaceBytes = std::int64_t{64} << 20;
constexpr int kCandidates = 8;
constexpr int kWarmUpRuns = 2;
constexpr int kTimedRuns = 10;

// cuBLASLt is column-major: out^T [columns, rows] = op(left) op(right).
struct ColumnMajor {
  bool left_transposed;
  bool right_transposed;
  std::int64_t columns;
  std::int64_t rows;
  std::int64_t inner;
};

ColumnMajor column_major(const LayerProduct& p) {
  switch (p.kind) {
    case ProductKind::kForward:
      return {true, false, p.outputs, p.tokens, p.inputs};
    case ProductKind::kInputGradient:
      return {false, false, p.inputs, p.tokens, p.outputs};
    case ProductKind::kWeightGradient:
      break;
  }
  return {false, true, p.inputs, p.outputs, p.tokens};
}

template <typename Value>
void set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute,
         Value value) {
  check_cublas(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof(value)),
               "cublasLtMatmulDescSetAttribute");
}

void init_layout(cublasLtMatrixLayoutOpaque_t& layout, std::int64_t rows, std::int64_t columns) {
  check_cublas(cublasLtMatrixLayoutInit(&layout, CUDA_R_16BF, static_cast<std::uint64_t>(rows),
                                        static_cast<std::uint64_t>(columns), rows),
               "cublasLtMatrixLayoutInit");
}

}  // namespace

Products::Products(std::int64_t numel) {
  const auto options = at::TensorOptions(at::kCUDA).dtype(at::kBFloat16);
  left_ = at::randn({numel}, options);
  right_ = at::randn({numel}, options);
  out_ = at::empty({numel}, options);
  workspace_ = at::empty({kWorkspaceBytes}, options.dtype(at::kByte));
  check_cublas(cublasLtCreate(&handle_), "cublasLtCreate");
}

Products::~Products() {
  cublasLtDestroy(handle_);
}

void Products::run(const LayerProduct& product, cudaStream_t stream) {
  auto found = prepared_.find(product);
  if (found == prepared_.end()) {
    found = prepared_.emplace(product, prepare(product, stream)).first;
  }
  check_cublas(call(found->second, stream), "cublasLtMatmul");
}

Products::Prepared Products::prepare(const LayerProduct& product, cudaStream_t stream) {
  Prepared p{};
  const ColumnMajor m = column_major(product);
  check_cublas(cublasLtMatmulDescInit(&p.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
               "cublasLtMatmulDescInit");
  set(p.operation, CUBLASLT_MATMUL_DESC_TRANSA, m.left_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(p.operation, CUBLASLT_MATMUL_DESC_TRANSB, m.right_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (product.num_multiprocessors > 0) {
    set(p.operation, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, product.num_multiprocessors);
  }
  init_layout(p.layouts[0], m.left_transposed ? m.inner : m.columns,
              m.left_transposed ? m.columns : m.inner);
  init_layout(p.layouts[1], m.right_transposed ? m.rows : m.inner,
              m.right_transposed ? m.inner : m.rows);
  init_layout(p.layouts[2], m.columns, m.rows);
  cublasLtMatmulPreferenceOpaque_t preference;
  check_cublas(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
  check_cublas(
      cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                           &kWorkspaceBytes, sizeof(kWorkspaceBytes)),
      "cublasLtMatmulPreferenceSetAttribute");
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> candidates;
  int count = 0;
  check_cublas(cublasLtMatmulAlgoGetHeuristic(handle_, &p.operation, &p.layouts[0], &p.layouts[1],
                                              &p.layouts[2], &p.layouts[2], &preference,
                                              kCandidates, candidates.data(), &count),
               "cublasLtMatmulAlgoGetHeuristic");
  float best = std::numeric_limits<float>::infinity();
  Prepared chosen = p;
  for (int i = 0; i < count; ++i) {
    p.algorithm = candidates[i].algo;
    const float milliseconds = time(p, stream);
    if (milliseconds >= best) continue;
    best = milliseconds;
    chosen = p;
  }
  return chosen;
}

float Products::time(Prepared& prepared, cudaStream_t stream) {
  CudaEvent begin(/*timing=*/true);
  CudaEvent end(/*timing=*/true);
  for (int i = 0; i < kWarmUpRuns + kTimedRuns; ++i) {
    if (i == kWarmUpRuns) PACKTRAIN_CUDA_CHECK(cudaEventRecord(begin.get(), stream));
    check_cublas(call(prepared, stream), "cublasLtMatmul");
  }
  PACKTRAIN_CUDA_CHECK(cudaEventRecord(end.get(), stream));
  end.synchronize();
  float milliseconds = 0;
  PACKTRAIN_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
  return milliseconds;
}

cublasStatus_t Products::call(Prepared& prepared, cudaStream_t stream) {
  const float one = 1;
  const float zero = 0;
  return cublasLtMatmul(handle_, &prepared.operation, &one, left_.data_ptr(), &prepared.layouts[0],
                        right_.data_ptr(), &prepared.layouts[1], &zero, out_.data_ptr(),
                        &prepared.layouts[2], out_.data_ptr(), &prepared.layouts[2],
                        &prepared.algorithm, workspace_.data_ptr(), kWorkspaceBytes, stream);
}

}  // namespace packtrain

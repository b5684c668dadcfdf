// Matrix products in bfloat16 on a part of the GPU's multiprocessors.
#pragma once

#include <ATen/core/Tensor.h>
#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <map>

namespace packtrain {

enum class ProductKind { kForward, kInputGradient, kWeightGradient };

// A linear layer's product: tokens x inputs x outputs.
struct LayerProduct {
  ProductKind kind = ProductKind::kForward;
  std::int64_t tokens = 0;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  int num_multiprocessors = 0;  // 0: all

  auto operator<=>(const LayerProduct&) const = default;
};

// All products read and write the same memory, which has random numbers.
class Products {
 public:
  // `numel`: elements of the largest matrix.
  explicit Products(std::int64_t numel);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // The first call of a product times cuBLASLt's candidates on `stream`, and waits for it.
  void run(const LayerProduct& product, cudaStream_t stream);

 private:
  struct Prepared {
    cublasLtMatmulDescOpaque_t operation;
    std::array<cublasLtMatrixLayoutOpaque_t, 3> layouts;  // left, right, out
    cublasLtMatmulAlgo_t algorithm;
  };
  Prepared prepare(const LayerProduct& product, cudaStream_t stream);
  float time(Prepared& prepared, cudaStream_t stream);  // milliseconds of kTimedRuns
  cublasStatus_t call(Prepared& prepared, cudaStream_t stream);

  cublasLtHandle_t handle_ = nullptr;
  at::Tensor left_;
  at::Tensor right_;
  at::Tensor out_;
  at::Tensor workspace_;
  std::map<LayerProduct, Prepared> prepared_;
};

}  // namespace packtrain

// Times a product's candidate algorithms against each other.
#pragma once

#include <vector>

#include "models/ops/matmul/cublaslt.h"

namespace packtrain {

struct AlgorithmTimes {
  std::vector<double> microseconds;  // of each candidate; infinite where it does not run
  std::size_t best = 0;              // the first, unless another is clearly faster
};

// Runs each candidate a few times on the call's operands and waits for the GPU. The output holds
// the product afterwards, so `call.addend` must not be the output.
AlgorithmTimes time_algorithms(cublasLtHandle_t handle, GemmDescriptors& descriptors,
                               const GemmCall& call,
                               const std::vector<cublasLtMatmulAlgo_t>& candidates,
                               const GemmWorkspace& workspace);

}  // namespace packtrain

// Times the candidate algorithms of a GEMM.
#pragma once

#include <vector>

#include "models/ops/matmul/cublaslt.h"

namespace packtrain {

struct AlgorithmTimes {
  std::vector<double> microseconds;  // of each candidate; infinite when it does not run
  std::size_t best = 0;              // the first one, unless another is clearly faster
};

// Runs each candidate a few times on the call's operands and waits for the GPU. The output then
// holds the product, so `call.addend` must not be the output.
AlgorithmTimes time_algorithms(cublasLtHandle_t handle, GemmDescriptors& descriptors,
                               const GemmCall& call,
                               const std::vector<cublasLtMatmulAlgo_t>& candidates,
                               const GemmWorkspace& workspace);

}  // namespace packtrain

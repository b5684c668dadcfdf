// Products of few rows with a weight in NF4, which is decoded on its way to the tensor cores. See
// nf4_gemm_kernel.cuh.
#include <algorithm>
#include <array>

#include "framework/device/cuda/check.h"
#include "models/ops/nf4/nf4_gemm_kernel.cuh"

namespace packtrain {
namespace {

constexpr int kMaxParts = 4;

constexpr int ceil_divide(int a, int b) {
  return (a + b - 1) / b;
}

// How many clusters of 1 to kMaxParts blocks run at the same time. Larger clusters leave
// multiprocessors without a block: 30 of four blocks fit an H100 of 132.
using ActiveClusters = std::array<int, kMaxParts>;

template <typename Kernel>
ActiveClusters count_active_clusters(Kernel kernel, cudaLaunchConfig_t config) {
  ActiveClusters active{};
  for (unsigned parts = 1; parts <= kMaxParts; ++parts) {
    config.gridDim.x = parts;
    config.attrs[0].val.clusterDim.x = parts;
    PACKTRAIN_CUDA_CHECK(cudaOccupancyMaxActiveClusters(&active[parts - 1], kernel, &config));
  }
  return active;
}

// Into how many parts the depth is divided, so that the fewest stages run one after another. A
// block also takes about as long as `kOverhead` stages to start and to end.
int choose_num_parts(const ActiveClusters& active, int num_tiles, int num_stages) {
  constexpr int kOverhead = 6;
  int best = 1;
  int best_stages = 0;
  for (int parts = 1; parts <= std::min(kMaxParts, num_stages); ++parts) {
    const int at_a_time = std::max(active[static_cast<std::size_t>(parts - 1)], 1);
    const int stages =
        ceil_divide(num_tiles, at_a_time) * (ceil_divide(num_stages, parts) + kOverhead);
    if (parts == 1 || stages < best_stages) {
      best = parts;
      best_stages = stages;
    }
  }
  return best;
}

template <bool kForward, int kTokens>
void launch(device::Nf4GemmKernelArguments& a, cudaStream_t stream) {
  using Storage = device::Nf4GemmStorage<kTokens>;
  constexpr int kBytes = sizeof(Storage);
  const int depth = kForward ? a.weight.num_columns : a.weight.num_rows;
  a.left_map = make_bf16_tensor_map(a.left, {a.num_rows, depth, a.left_stride},
                                    {kTokens, device::kStageDepth});
  const int high = ceil_divide(a.num_rows, kTokens);
  const int wide = ceil_divide(a.width, device::kNf4TileColumns);
  const auto kernel = device::nf4_gemm_kernel<kForward, kTokens>;
  PACKTRAIN_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {1, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1, static_cast<unsigned>(high), static_cast<unsigned>(wide));
  config.blockDim = dim3(device::kGemmThreads);
  config.dynamicSmemBytes = kBytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  // A process has one GPU.
  static const ActiveClusters active = count_active_clusters(kernel, config);
  const int parts = choose_num_parts(active, high * wide, a.num_stages);
  config.gridDim.x = static_cast<unsigned>(parts);
  cluster.val.clusterDim.x = static_cast<unsigned>(parts);
  PACKTRAIN_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, a, parts));
}

template <bool kForward>
void launch(const Nf4GemmArguments& arguments, void* stream) {
  device::Nf4GemmKernelArguments a{arguments, {}, 0, 0};
  a.width = kForward ? a.weight.num_rows : a.weight.num_columns;
  a.num_stages = (kForward ? a.weight.num_columns : a.weight.num_rows) / device::kStageDepth;
  if (a.num_rows <= 128) {
    launch<kForward, 128>(a, static_cast<cudaStream_t>(stream));
  } else {
    launch<kForward, 256>(a, static_cast<cudaStream_t>(stream));
  }
}

}  // namespace

void launch_nf4_gemm_forward(const Nf4GemmArguments& arguments, void* stream) {
  launch<true>(arguments, stream);
}

void launch_nf4_gemm_backward(const Nf4GemmArguments& arguments, void* stream) {
  launch<false>(arguments, stream);
}

}  // namespace packtrain

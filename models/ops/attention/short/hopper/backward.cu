// Backward of attention over short sequences with Hopper's matrix instructions: one block of
// threads for all rows of a unit and one key head.
//
// For blocks of 128 keys, for each query head, for tiles of 64 queries that see these keys:
//    S^T = K Q^T, P^T = exp(scale S^T - logsumexp), dP^T = V dO^T, dS^T = P^T (dP^T - delta)
//    dV += P^T dO, dK += dS^T Q, dQ = dS K, with delta = sum(dO O) of each query.
// (FlashAttention-2's equations, Dao, arXiv 2307.08691). One warp group loads tiles and computes
// delta (producer.cuh). Two multiply, each with 64 keys (consumer.cuh). P^T and dS^T stay in their
// registers as left operands. dS^T also goes to shared memory for dQ. Its sums run
// over the keys of both. So dK and dV are written once, and dQ without atomics. With several blocks
// of keys, the same thread adds to the same place of the workspace. The result is deterministic.
#include "framework/device/cuda/check.h"
#include "models/ops/attention/short/hopper/consumer.cuh"
#include "models/ops/attention/short/hopper/producer.cuh"
#include "models/ops/attention/short/launch.h"
#include "models/ops/cuda/hopper/tensor_map.h"

namespace packtrain {
namespace {

// Launch bounds give 168 registers to each of 384 threads.
constexpr int kProducerRegisters = 40;
constexpr int kConsumerRegisters = 232;
static_assert(kProducerRegisters + device::kConsumerGroups * kConsumerRegisters == 3 * 168);

template <int D>
__global__ void __launch_bounds__(device::kShortThreads, 1)
    backward_kernel(const __grid_constant__ device::ShortKernelArguments arguments) {
  extern __shared__ __align__(1024) unsigned char bytes[];
  auto& shared = *reinterpret_cast<device::ShortShared<D>*>(bytes);
  if (threadIdx.x == 0) shared.init_barriers();
  device::UnitRows{arguments.rows, shared.state}.fill();
  if (threadIdx.x < device::kGroupThreads) {
    device::warpgroup_reg_dealloc<kProducerRegisters>();
    device::ShortProducer<D>(arguments, shared).run();
  } else {
    device::warpgroup_reg_alloc<kConsumerRegisters>();
    device::ShortConsumer<D>(arguments, shared).run();
  }
}

template <int D>
device::ShortMaps maps_of(const ShortAttentionArguments& a) {
  const std::int64_t width = std::int64_t{a.num_heads} * D;
  const std::int64_t key_width = std::int64_t{a.num_kv_heads} * D;
  const MatrixExtent of_query = {a.num_rows, width, a.query_stride};
  const MatrixExtent of_key = {a.num_keys, key_width, a.key_stride};
  const MatrixExtent of_output = {a.num_rows, width, width};
  const BoxExtent keys = {kUnitKeys, 64};
  const BoxExtent queries = {kUnitQueries, 64};
  return {make_bf16_tensor_map(a.query, of_query, queries),
          make_bf16_tensor_map(a.key, of_key, keys),
          make_bf16_tensor_map(a.value, of_key, keys),
          make_bf16_tensor_map(a.grad_output, of_output, queries),
          make_bf16_tensor_map(a.output, of_output, queries),
          make_bf16_tensor_map(a.grad_query, of_query, queries)};
}

template <int D>
void launch(const ShortAttentionArguments& arguments, void* stream) {
  const auto kernel = backward_kernel<D>;
  constexpr int kBytes = sizeof(device::ShortShared<D>);
  PACKTRAIN_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const auto blocks = static_cast<unsigned>(arguments.num_units * arguments.num_kv_heads);
  if (blocks == 0) return;
  const device::ShortKernelArguments all = {arguments, maps_of<D>(arguments)};
  kernel<<<blocks, device::kShortThreads, kBytes, static_cast<cudaStream_t>(stream)>>>(all);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void launch_short_attention_backward_hopper(const ShortAttentionArguments& arguments,
                                            void* stream) {
  arguments.head_dim == 64 ? launch<64>(arguments, stream) : launch<128>(arguments, stream);
}

}  // namespace packtrain

// CUB's radix sort is stable, so that tokens of equal ids stay in order and the sums are
// deterministic.
#include <cub/device/device_radix_sort.cuh>

#include "framework/device/cuda/check.h"
#include "models/ops/embedding/embedding_launch.h"

namespace packtrain {
namespace {

// Number of bits of ids below vocab_size. The sort needs only these.
int num_id_bits(std::int64_t vocab_size) {
  int bits = 1;
  while ((std::int64_t{1} << bits) < vocab_size) ++bits;
  return bits;
}

__global__ void number_tokens_kernel(std::int32_t* tokens, std::int64_t num_tokens) {
  const std::int64_t token = std::int64_t{blockDim.x} * blockIdx.x + threadIdx.x;
  if (token < num_tokens) tokens[token] = static_cast<std::int32_t>(token);
}

}  // namespace

std::size_t token_sort_bytes(std::int64_t num_tokens, std::int64_t vocab_size) {
  std::size_t bytes = 0;
  const std::int32_t* in = nullptr;
  std::int32_t* out = nullptr;
  PACKTRAIN_CUDA_CHECK(cub::DeviceRadixSort::SortPairs(nullptr, bytes, in, out, in, out, num_tokens,
                                                       0, num_id_bits(vocab_size)));
  return bytes;
}

void sort_token_ids(const std::int32_t* ids, std::int64_t num_tokens, std::int64_t vocab_size,
                    std::int32_t* sorted, std::int32_t* tokens, std::int32_t* order,
                    void* temporary, std::size_t temporary_bytes, void* stream) {
  if (num_tokens == 0) return;
  constexpr int kThreads = 256;
  const auto on = static_cast<cudaStream_t>(stream);
  const auto blocks = static_cast<unsigned>((num_tokens + kThreads - 1) / kThreads);
  number_tokens_kernel<<<blocks, kThreads, 0, on>>>(tokens, num_tokens);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
  const std::int32_t* numbered = tokens;
  PACKTRAIN_CUDA_CHECK(cub::DeviceRadixSort::SortPairs(temporary, temporary_bytes, ids, sorted,
                                                       numbered, order, num_tokens, 0,
                                                       num_id_bits(vocab_size), on));
}

}  // namespace packtrain

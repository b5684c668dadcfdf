#include <algorithm>
#include <numeric>
#include <string>

#include "framework/core/error.h"
#include "framework/device/cuda/check.h"
#include "models/ops/cuda/launch.h"
#include "models/ops/qk_norm/qk_norm_backward.cuh"
#include "models/ops/qk_norm/qk_norm_launch.h"

namespace packtrain {
namespace {

constexpr int kScalarSlots = 8;  // of a thread, where heads are not whole 16-byte vectors

bool is_backward(const QkNormArguments& a) {
  return a.grads.query.data != nullptr;
}

// Tokens of a block, for about kRounds heads in each group of threads.
int tile_rows(const QkNormArguments& a, int heads_in_flight) {
  constexpr int kRounds = 8;
  constexpr int kMaxAngles = 2048;  // 16 KiB of shared memory
  const int num_heads = a.qkv.num_query_heads + a.qkv.num_key_heads;
  const int most = std::max(1, kMaxAngles / std::max(1, a.angles.num_pairs));
  return std::clamp(kRounds * heads_in_flight / num_heads, 1, most);
}

// Tokens of a block in backward. Few tokens a block keep the multiprocessors equally busy at the
// end. The number of blocks has a limit, so that the time for their partial sums stays small.
int block_rows(std::int64_t num_rows) {
  constexpr std::int64_t kRows = 32;
  constexpr std::int64_t kMaxBlocks = 1024;
  const std::int64_t rows_each = (num_rows + kMaxBlocks - 1) / kMaxBlocks;
  return static_cast<int>((rows_each + kRows - 1) / kRows * kRows);
}

// Number of tokens for which `num_groups` groups of threads do whole rounds of `num_heads` heads,
// at least kLeast.
int whole_rounds(int num_groups, int num_heads) {
  constexpr int kLeast = 8;
  const int rows = num_groups / std::gcd(num_groups, num_heads);
  return (kLeast + rows - 1) / rows * rows;
}

template <typename T, int N, int M>
void launch_backward(const QkNormArguments& a, int threads, cudaStream_t stream) {
  const dim3 block(threads, device::kQkBackwardThreads / threads);
  const int num_groups = static_cast<int>(block.y);
  const device::QkBackwardArguments arguments{a,
                                              block_rows(a.num_rows),
                                              {whole_rounds(num_groups, a.grads.num_query_heads),
                                               whole_rounds(num_groups, a.grads.num_key_heads)}};
  const int tile_rows = std::max(arguments.tile_rows[0], arguments.tile_rows[1]);
  const std::size_t rows_bytes = device::HeadCopies<T, N, M>::kSharedBytes +
                                 2 * sizeof(float) * tile_rows * a.angles.num_pairs;
  const std::size_t sums_bytes = device::kQkBackwardThreads / 32 * sizeof(float) * a.head_dim;
  launch_dependent(device::qk_norm_backward_kernel<T, N, M>,
                   dim3(static_cast<unsigned>(qk_norm_backward_blocks(a)), 3), block, stream,
                   arguments, std::max(rows_bytes, sums_bytes));
}

template <typename T, int N, int M>
void launch_slots(const QkNormArguments& a, cudaStream_t stream) {
  const int num_slots = a.head_dim / (2 * N);
  int threads = 1;
  while (threads < num_slots && threads < 32) threads *= 2;
  if (num_slots > threads * M) {
    throw Error(ErrorCategory::kInternal, "qk_norm: got heads of " + std::to_string(a.head_dim) +
                                              " elements, wanted 512 at most");
  }
  if (is_backward(a)) return launch_backward<T, N, M>(a, threads, stream);
  const dim3 block(threads, device::kQkThreads / threads);
  const int rows = tile_rows(a, static_cast<int>(block.y));
  const std::size_t table_bytes = 2 * sizeof(float) * rows * a.angles.num_pairs;
  const auto blocks = static_cast<unsigned>((a.num_rows + rows - 1) / rows);
  device::qk_norm_forward_kernel<T, N, M><<<blocks, block, table_bytes, stream>>>(a, rows);
}

template <typename T>
void launch_type(const QkNormArguments& a, cudaStream_t stream) {
  const bool vectors = can_vectorize_heads(a.qkv, a.angles, a.head_dim, sizeof(T)) &&
                       can_vectorize_heads(a.grads, a.angles, a.head_dim, sizeof(T)) &&
                       can_vectorize(a.head_dim, sizeof(T), a.output, a.query_weight, a.key_weight);
  if (vectors && a.head_dim * sizeof(T) <= 1024) {
    launch_slots<T, 16 / sizeof(T), 1>(a, stream);
  } else {
    launch_slots<T, 1, kScalarSlots>(a, stream);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

std::int64_t qk_norm_backward_blocks(const QkNormArguments& a) {
  if (a.num_rows == 0) return 0;
  const std::int64_t rows = block_rows(a.num_rows);
  return (a.num_rows + rows - 1) / rows;
}

void launch_qk_norm(const QkNormArguments& arguments, void* stream) {
  if (arguments.num_rows == 0) return;
  if (arguments.dtype == DataType::kBFloat16) {
    launch_type<__nv_bfloat16>(arguments, static_cast<cudaStream_t>(stream));
  } else {
    launch_type<float>(arguments, static_cast<cudaStream_t>(stream));
  }
}

}  // namespace packtrain

// Forward gathers 16-byte vectors. Backward zeroes rows of ids that do not occur, which needs no
// order and can run while the ids are sorted. Sorted ids are cut into chunks of kChunk. A block
// sums the rows of each id of its chunk in order. An id inside one chunk is written directly. An id
// that crosses chunks leaves one partial sum in each; a second kernel adds these in order. The
// result is deterministic, and a frequent id is summed by many blocks in parallel.
#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/dependent_launch.cuh"
#include "models/ops/cuda/divisor.cuh"
#include "models/ops/cuda/launch.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/embedding/embedding_launch.h"

namespace packtrain {
namespace {

constexpr int kGatherThreads = 256;
constexpr int kGatherRuns = 4;  // in flight in a thread
constexpr int kChunk = 32;      // sorted ids
constexpr int kChunkThreads = 128;
constexpr int kRowsInFlight = 8;
constexpr int kZeroThreads = 256;
constexpr int kZeroRuns = 8;  // of a thread

template <typename T, int N>
__global__ void __launch_bounds__(kGatherThreads)
    gather_kernel(const EmbeddingArguments a, const device::Divisor vectors_per_row,
                  const std::int64_t num_vectors) {
  device::Vec<T, N> runs[kGatherRuns] = {};
  const std::int64_t first = std::int64_t{kGatherThreads * kGatherRuns} * blockIdx.x + threadIdx.x;
#pragma unroll
  for (int r = 0; r < kGatherRuns; ++r) {
    const std::int64_t run = first + r * kGatherThreads;
    if (run >= num_vectors) continue;
    const std::int64_t token = vectors_per_row.quotient(run);
    const std::int64_t from = (a.ids[token] - token) * a.hidden + run * N;
    runs[r] = device::load_vec<N>(static_cast<const T*>(a.rows) + from);
  }
#pragma unroll
  for (int r = 0; r < kGatherRuns; ++r) {
    const std::int64_t run = first + r * kGatherThreads;
    if (run < num_vectors) device::store_vec(runs[r], static_cast<T*>(a.output) + run * N);
  }
}

__global__ void __launch_bounds__(kZeroThreads)
    mark_present_kernel(const std::int32_t* ids, std::int64_t num_tokens, std::uint8_t* present) {
  const std::int64_t token = std::int64_t{kZeroThreads} * blockIdx.x + threadIdx.x;
  if (token < num_tokens) present[ids[token]] = 1;
}

// `rows` has num_words words, and each row words_per_row of them.
template <typename Word>
__global__ void __launch_bounds__(kZeroThreads)
    zero_absent_kernel(const std::uint8_t* present, const device::Divisor words_per_row,
                       std::int64_t num_words, Word* rows) {
  const std::int64_t first = std::int64_t{kZeroThreads * kZeroRuns} * blockIdx.x + threadIdx.x;
#pragma unroll
  for (int r = 0; r < kZeroRuns; ++r) {
    const std::int64_t word = first + r * kZeroThreads;
    if (word < num_words && present[words_per_row.quotient(word)] == 0) rows[word] = Word{};
  }
}

// Writes N elements of a row of the gradient, or adds to them.
template <typename G, int N>
__device__ void write_gradient(const EmbeddingArguments& a, std::int64_t place, float (&sum)[N]) {
  G* grad = static_cast<G*>(a.output) + place;
  if (a.accumulate) {
    float before[N];
    device::load(grad, before);
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += before[i];
  }
  device::store(sum, grad);
}

// Offset of a chunk's partial sums. [0] belongs to the id that began in an earlier chunk, [1] to
// the id that begins here and continues in the next chunk.
__device__ std::int64_t partial_place(const EmbeddingArguments& a, std::int64_t chunk, int which) {
  return (2 * chunk + which) * a.hidden;
}

// Writes the sum of ids [first, last) of the chunk, all equal, to the gradient or to the partial
// sums.
template <typename G, int N>
__device__ void finish_run(const EmbeddingArguments& a, std::int64_t chunk, std::int64_t first,
                           std::int64_t last, std::int64_t column, float (&sum)[N]) {
  const std::int32_t id = a.ids[first];
  const bool from_before = first == chunk * kChunk && first > 0 && a.ids[first - 1] == id;
  const bool continues = last < a.num_tokens && a.ids[last] == id;
  if (from_before || continues) {
    float* to = a.partials + partial_place(a, chunk, from_before ? 0 : 1) + column;
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = sum[i];
  } else {
    write_gradient<G>(a, id * a.hidden + column, sum);
  }
#pragma unroll
  for (int i = 0; i < N; ++i) sum[i] = 0;
}

template <typename T, typename G, int N>
__global__ void __launch_bounds__(kChunkThreads) sum_chunks_kernel(const EmbeddingArguments a) {
  // sum_partials_kernel may be launched now: it waits for the end of this kernel before it reads.
  device::trigger_programmatic_launch();
  const std::int64_t column = (std::int64_t{kChunkThreads} * blockIdx.y + threadIdx.x) * N;
  if (column >= a.hidden) return;
  const std::int64_t chunk = blockIdx.x;
  const std::int64_t begin = chunk * kChunk;
  const std::int64_t end = begin + kChunk < a.num_tokens ? begin + kChunk : a.num_tokens;
  const T* rows = static_cast<const T*>(a.rows) + column;
  float sum[N] = {};
  std::int64_t first = begin;  // of the id that is being summed
  for (std::int64_t base = begin; base < end; base += kRowsInFlight) {
    device::Vec<T, N> under_way[kRowsInFlight] = {};
#pragma unroll
    for (int r = 0; r < kRowsInFlight; ++r) {
      if (base + r < end) under_way[r] = device::load_vec<N>(rows + a.order[base + r] * a.hidden);
    }
#pragma unroll
    for (int r = 0; r < kRowsInFlight; ++r) {
      if (base + r >= end) break;
      if (a.ids[base + r] != a.ids[first]) {
        finish_run<G>(a, chunk, first, base + r, column, sum);
        first = base + r;
      }
      float values[N];
      device::unpack(under_way[r], values);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += values[i];
    }
  }
  finish_run<G>(a, chunk, first, end, column, sum);
}

// One block a chunk. Sums the id that begins in the chunk and continues after it, if there is one.
template <typename G, int N>
__global__ void __launch_bounds__(kChunkThreads) sum_partials_kernel(const EmbeddingArguments a) {
  device::grid_dependency_synchronize();
  const std::int64_t column = (std::int64_t{kChunkThreads} * blockIdx.y + threadIdx.x) * N;
  const std::int64_t chunk = blockIdx.x;
  const std::int64_t next = (chunk + 1) * kChunk;
  if (column >= a.hidden || next >= a.num_tokens) return;
  const std::int32_t id = a.ids[next];
  const bool begins_here =
      a.ids[chunk * kChunk] != id || chunk == 0 || a.ids[chunk * kChunk - 1] != id;
  if (a.ids[next - 1] != id || !begins_here) return;
  float sum[N];
  device::load(a.partials + partial_place(a, chunk, 1) + column, sum);
#pragma unroll 4
  for (std::int64_t later = chunk + 1; later * kChunk < a.num_tokens && a.ids[later * kChunk] == id;
       ++later) {
    float values[N];
    device::load(a.partials + partial_place(a, later, 0) + column, values);
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += values[i];
  }
  write_gradient<G>(a, id * a.hidden + column, sum);
}

template <typename T, int N>
void launch_gather(const EmbeddingArguments& a, cudaStream_t stream) {
  constexpr int kBlockRuns = kGatherThreads * kGatherRuns;
  const std::int64_t vectors_per_row = a.hidden / N;
  const std::int64_t num_vectors = a.num_tokens * vectors_per_row;
  const auto blocks = static_cast<unsigned>((num_vectors + kBlockRuns - 1) / kBlockRuns);
  gather_kernel<T, N>
      <<<blocks, kGatherThreads, 0, stream>>>(a, device::Divisor(vectors_per_row), num_vectors);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

template <typename T, typename G, int N>
void launch_sums(const EmbeddingArguments& a, cudaStream_t stream) {
  constexpr std::int64_t kBlockColumns = std::int64_t{kChunkThreads} * N;
  const dim3 grid(static_cast<unsigned>(num_embedding_chunks(a.num_tokens)),
                  static_cast<unsigned>((a.hidden + kBlockColumns - 1) / kBlockColumns));
  sum_chunks_kernel<T, G, N><<<grid, kChunkThreads, 0, stream>>>(a);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
  launch_dependent(sum_partials_kernel<G, N>, grid, dim3(kChunkThreads), stream, a);
}

template <typename T, typename G>
void launch_backward_types(const EmbeddingArguments& a, cudaStream_t stream) {
  constexpr int kVecSize = 16 / sizeof(T);
  // Accesses to partial sums and to a float32 gradient are the widest: 16 or 32 bytes.
  if (can_vectorize(a.hidden, sizeof(T), a.rows, a.output, a.partials)) {
    launch_sums<T, G, kVecSize>(a, stream);
  } else {
    launch_sums<T, G, 1>(a, stream);
  }
}

template <typename Word>
void launch_zeros(const std::uint8_t* present, std::int64_t vocab_size, std::int64_t row_bytes,
                  void* rows, cudaStream_t stream) {
  constexpr std::int64_t kBlockWords = kZeroThreads * kZeroRuns;
  const std::int64_t words_per_row = row_bytes / static_cast<std::int64_t>(sizeof(Word));
  const std::int64_t num_words = vocab_size * words_per_row;
  const auto blocks = static_cast<unsigned>((num_words + kBlockWords - 1) / kBlockWords);
  zero_absent_kernel<<<blocks, kZeroThreads, 0, stream>>>(present, device::Divisor(words_per_row),
                                                          num_words, static_cast<Word*>(rows));
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

std::int64_t num_embedding_chunks(std::int64_t num_tokens) {
  return (num_tokens + kChunk - 1) / kChunk;
}

void launch_embedding_forward(const EmbeddingArguments& a, void* stream) {
  if (a.num_tokens == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  const bool vectors =
      can_vectorize(a.hidden, static_cast<std::int64_t>(size_of(a.dtype)), a.rows, a.output);
  if (a.dtype == DataType::kBFloat16) {
    vectors ? launch_gather<__nv_bfloat16, 8>(a, on) : launch_gather<__nv_bfloat16, 1>(a, on);
  } else {
    vectors ? launch_gather<float, 4>(a, on) : launch_gather<float, 1>(a, on);
  }
}

void zero_absent_rows(const std::int32_t* ids, std::int64_t num_tokens, std::int64_t vocab_size,
                      std::int64_t row_bytes, std::uint8_t* present, void* rows, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  PACKTRAIN_CUDA_CHECK(cudaMemsetAsync(present, 0, static_cast<std::size_t>(vocab_size), on));
  if (num_tokens > 0) {
    const auto blocks = static_cast<unsigned>((num_tokens + kZeroThreads - 1) / kZeroThreads);
    mark_present_kernel<<<blocks, kZeroThreads, 0, on>>>(ids, num_tokens, present);
    PACKTRAIN_CUDA_CHECK(cudaGetLastError());
  }
  if (can_vectorize(row_bytes, 1, rows)) {
    launch_zeros<uint4>(present, vocab_size, row_bytes, rows, on);
  } else {
    launch_zeros<std::uint16_t>(present, vocab_size, row_bytes, rows, on);
  }
}

void launch_embedding_backward(const EmbeddingArguments& a, void* stream) {
  if (a.num_tokens == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  if (a.dtype == DataType::kBFloat16) {
    a.grad_dtype == DataType::kBFloat16 ? launch_backward_types<__nv_bfloat16, __nv_bfloat16>(a, on)
                                        : launch_backward_types<__nv_bfloat16, float>(a, on);
  } else {
    a.grad_dtype == DataType::kBFloat16 ? launch_backward_types<float, __nv_bfloat16>(a, on)
                                        : launch_backward_types<float, float>(a, on);
  }
}

}  // namespace packtrain

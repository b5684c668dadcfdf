// A block takes every n-th row and keeps as much of a row as fits in shared memory. The first pass
// finds the largest logit and the sum of exponentials (online softmax, Milakov and Gimelshein,
// arXiv 1805.02867). The second pass writes the gradient. It refills each vector of shared memory
// that it has used with the next row (cp.async), so that loads are always in flight. Rows far wider
// than shared memory are split between the two blocks of a cluster. With s = cap tanh(z / cap), or
// s = z without a cap, and L = log sum_v exp(s_v):
//    l = L - s_label
//    dz_v = w exp(s_v - L) - w [v = label], times 1 - (s_v / cap)^2 with a cap
#include <algorithm>

#include "framework/device/cuda/architecture.h"
#include "framework/device/cuda/check.h"
#include "models/ops/cuda/async_copy.cuh"
#include "models/ops/cuda/cluster.cuh"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/linear_cross_entropy/cross_entropy_launch.h"
#include "models/ops/linear_cross_entropy/softmax.cuh"

namespace packtrain {
namespace {

constexpr int kWideThreads = 1024;   // of the only block of a multiprocessor
constexpr int kNarrowThreads = 512;  // of each of two blocks
constexpr int kLoadsInFlight = 2;

template <typename T, bool kCapped, int kThreads>
struct Row {
  static constexpr int kVecSize = 16 / sizeof(T);
  using Packed = device::Vec<T, kVecSize>;

  Packed* runs;  // of this part of the row
  Packed* kept;  // the first `num_kept` vectors, in shared memory; each thread reads only its own
  const Packed* next;  // the block's next row, or null
  int first_run;       // of this part, in the row
  int num_runs;
  int num_kept;
  int num_early;   // vectors of the first of two cp.async groups; a multiple of kThreads
  int vocab_size;  // columns from the start of the part
  device::Cap cap;

  // Padded vocabulary columns are set to -inf.
  __device__ Packed masked(const Packed& packed, int index) const {
    if ((index + 1) * kVecSize <= vocab_size) return packed;
    float s[kVecSize];
    device::unpack(packed, s);
#pragma unroll
    for (int i = 0; i < kVecSize; ++i) {
      if (index * kVecSize + i >= vocab_size) s[i] = -INFINITY;
    }
    return device::pack<T>(s);
  }

  __device__ void unpack(const Packed& packed, float (&s)[kVecSize]) const {
    device::unpack(packed, s);
    if (kCapped) {
#pragma unroll
      for (int i = 0; i < kVecSize; ++i) s[i] = cap.of(s[i]);
    }
  }

  __device__ void add(const Packed& packed, device::Softmax& softmax) const {
    float s[kVecSize];
    unpack(packed, s);
    float here = s[0];
#pragma unroll
    for (int i = 1; i < kVecSize; ++i) here = fmaxf(here, s[i]);
    here *= device::kLog2E;
    if (here > softmax.largest) {
      softmax.sum *= device::power_of_2(softmax.largest - here);
      softmax.largest = here;
    }
#pragma unroll
    for (int i = 0; i < kVecSize; ++i)
      softmax.sum += device::power_of_2(s[i] * device::kLog2E - softmax.largest);
  }

  __device__ void copy_to_shared(const Packed* from) const {
    int index = threadIdx.x;
    for (; index < num_early; index += kThreads) device::cp_async(from + index, kept + index, true);
    device::cp_async_commit_group();
    for (; index < num_kept; index += kThreads) device::cp_async(from + index, kept + index, true);
    device::cp_async_commit_group();
  }

  // This thread's softmax state of the row. The first group is summed while the second one arrives.
  __device__ device::Softmax read() const {
    device::Softmax softmax;
    int index = threadIdx.x;
    device::cp_async_wait_group<1>();
    for (; index < num_early; index += kThreads) add(masked(kept[index], index), softmax);
    device::cp_async_wait_group<0>();
    for (; index < num_kept; index += kThreads) add(masked(kept[index], index), softmax);
    for (; index < num_runs; index += kThreads * kLoadsInFlight) {
      Packed loaded[kLoadsInFlight];
#pragma unroll
      for (int u = 0; u < kLoadsInFlight; ++u) {
        if (index + u * kThreads < num_runs) loaded[u] = runs[index + u * kThreads];
      }
#pragma unroll
      for (int u = 0; u < kLoadsInFlight; ++u) {
        const int here = index + u * kThreads;
        if (here < num_runs) add(masked(loaded[u], here), softmax);
      }
    }
    return softmax;
  }

  // factor 2^(s log2(e) - largest), times the derivative of the cap.
  __device__ float gradient(float s, float largest, float factor) const {
    const float g = factor * device::power_of_2(s * device::kLog2E - largest);
    return kCapped ? g * cap.slope(s) : g;
  }

  __device__ void store_vec(const Packed& packed, int index, float largest, float factor) const {
    float s[kVecSize];
    unpack(packed, s);
#pragma unroll
    for (int i = 0; i < kVecSize; ++i) s[i] = gradient(s[i], largest, factor);
    device::store(s, reinterpret_cast<T*>(runs + index));
  }

  // Starts with the vectors that were read last, which are still in L2.
  __device__ void write(float largest, float factor) const {
    const int first_reread =
        static_cast<int>(threadIdx.x) +
        (num_kept - static_cast<int>(threadIdx.x) + kThreads - 1) / kThreads * kThreads;
    for (int index = first_reread; index < num_runs; index += kThreads * kLoadsInFlight) {
      Packed loaded[kLoadsInFlight];
#pragma unroll
      for (int u = 0; u < kLoadsInFlight; ++u) {
        if (index + u * kThreads < num_runs) loaded[u] = runs[index + u * kThreads];
      }
#pragma unroll
      for (int u = 0; u < kLoadsInFlight; ++u) {
        const int here = index + u * kThreads;
        if (here < num_runs) store_vec(loaded[u], here, largest, factor);
      }
    }
    int index = threadIdx.x;
    // Two groups are committed even without a next row, so that wait_group in read() counts right.
    for (; index < num_early; index += kThreads) consume_vec(index, largest, factor);
    device::cp_async_commit_group();
    for (; index < num_kept; index += kThreads) consume_vec(index, largest, factor);
    device::cp_async_commit_group();
  }

  __device__ void consume_vec(int index, float largest, float factor) const {
    store_vec(kept[index], index, largest, factor);
    if (next != nullptr) device::cp_async(next + index, kept + index, true);
  }
};

// Part `part` of `num_parts` of a row. The caller sets `runs` and `next`.
template <typename T, bool kCapped, int kThreads>
__device__ Row<T, kCapped, kThreads> part_of_row(const CrossEntropyArguments& a, int part,
                                                 int num_parts, int num_kept, void* kept) {
  Row<T, kCapped, kThreads> row;
  const int row_runs = static_cast<int>((a.vocab_size + row.kVecSize - 1) / row.kVecSize);
  const int part_runs = (row_runs + num_parts - 1) / num_parts;
  row.first_run = part * part_runs;
  row.kept = static_cast<decltype(row.kept)>(kept);
  row.num_runs = min(part_runs, row_runs - row.first_run);
  row.num_kept = min(num_kept, row.num_runs);
  row.num_early = row.num_kept / (2 * kThreads) * kThreads;
  row.vocab_size = static_cast<int>(a.vocab_size) - row.first_run * row.kVecSize;
  row.cap = {a.soft_cap, 1.0F / a.soft_cap};
  return row;
}

// A cluster of kParts blocks has one row.
template <typename T, bool kCapped, int kThreads, int kParts>
__global__ void __launch_bounds__(kThreads, kThreads == kWideThreads ? 1 : 2)
    cross_entropy_kernel(const CrossEntropyArguments a, int num_kept) {
  using Vec = typename Row<T, kCapped, kThreads>::Packed;
  constexpr int kVecSize = Row<T, kCapped, kThreads>::kVecSize;
  extern __shared__ uint4 kept[];
  __shared__ device::Softmax scratch[2][kThreads / 32];
  __shared__ device::Softmax of_parts[2][kParts];
  const int part = kParts > 1 ? device::block_rank_in_cluster() : 0;
  const std::int64_t first_row = blockIdx.x / kParts;
  const std::int64_t num_rows_at_once = gridDim.x / kParts;
  auto row = part_of_row<T, kCapped, kThreads>(a, part, kParts, num_kept, kept);
  const auto runs_of = [&](std::int64_t n) {
    return reinterpret_cast<Vec*>(static_cast<T*>(a.logits) + n * a.row_stride) + row.first_run;
  };
  row.copy_to_shared(runs_of(first_row));
  if constexpr (kParts > 1) device::cluster_sync();  // remote writes need a running block
  bool odd = false;
  for (std::int64_t n = first_row; n < a.num_rows; n += num_rows_at_once) {
    row.runs = runs_of(n);
    row.next = n + num_rows_at_once < a.num_rows ? runs_of(n + num_rows_at_once) : nullptr;
    T* logits = reinterpret_cast<T*>(row.runs) - row.first_run * kVecSize;
    const int label = a.labels[n];
    const float weight = a.weights != nullptr ? a.weights[n] : 0.0F;
    float label_logit = device::to_float(logits[label]);
    if (kCapped) label_logit = row.cap.of(label_logit);
    // The barriers in these calls also order the reads of the label's logit before write()
    // overwrites it.
    const device::Softmax softmax = device::cluster_merged(
        device::block_merged<kThreads>(row.read(), scratch[odd]), of_parts[odd]);
    odd = !odd;
    const float log_sum = softmax.log_sum();
    if (part == 0 && threadIdx.x == 0) {
      a.losses[n] = log_sum - label_logit;
    }
    if (a.weights == nullptr) continue;
    const float factor = weight / softmax.sum;
    row.write(softmax.largest, factor);
    const int label_run = label / kVecSize - row.first_run;
    const bool is_here = label_run >= 0 && label_run < row.num_runs;
    if (is_here && threadIdx.x == label_run % kThreads) {  // has just written it
      float minus = weight;
      if (kCapped) minus *= row.cap.slope(label_logit);
      logits[label] =
          device::from_float<T>(row.gradient(label_logit, softmax.largest, factor) - minus);
    }
  }
}

// Launches `blocks` blocks a multiprocessor. Each one keeps `kept_bytes` of its part of a row in
// shared memory.
template <typename T, bool kCapped, int kThreads, int kParts = 1>
void launch(const CrossEntropyArguments& a, int blocks, std::int64_t kept_bytes,
            cudaStream_t stream) {
  auto* kernel = cross_entropy_kernel<T, kCapped, kThreads, kParts>;
  PACKTRAIN_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(kept_bytes)));
  const std::int64_t rows_at_once = std::min<std::int64_t>(
      a.num_rows, device_attribute(cudaDevAttrMultiProcessorCount) * blocks / kParts);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {kParts, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(rows_at_once * kParts));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = static_cast<std::size_t>(kept_bytes);
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = kParts > 1 ? 1 : 0;
  PACKTRAIN_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, a, static_cast<int>(kept_bytes / 16)));
}

// Two blocks a multiprocessor where two rows fit in its shared memory. Otherwise one block, which
// keeps as much as fits. Where that is less than three quarters of a row, two blocks share a row.
template <typename T, bool kCapped>
void launch(const CrossEntropyArguments& a, cudaStream_t stream) {
  constexpr int kStatic = 1024;  // upper bound of the kernel's static shared memory
  const int overhead = device_attribute(cudaDevAttrReservedSharedMemoryPerBlock) + kStatic;
  const int memory = device_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  const int block_memory = max_shared_memory_per_block() - kStatic;
  // Kernels that were compiled for older GPUs have no cluster instructions.
  const bool has_clusters =
      device_attribute(cudaDevAttrClusterLaunch) != 0 && compiled_architecture() >= 90;
  const std::int64_t row_bytes = (a.vocab_size * static_cast<int>(sizeof(T)) + 15) / 16 * 16;
  const std::int64_t most_bytes = std::min(memory - overhead, block_memory) / 16 * 16;
  if (a.weights == nullptr) {  // nothing is read twice
    launch<T, kCapped, kNarrowThreads>(a, 2, 0, stream);
  } else if (2 * (row_bytes + overhead) <= memory && row_bytes <= block_memory) {
    launch<T, kCapped, kNarrowThreads>(a, 2, row_bytes, stream);
  } else if (has_clusters && 4 * most_bytes < 3 * row_bytes) {
    const std::int64_t part_bytes = (row_bytes / 16 + 1) / 2 * 16;
    launch<T, kCapped, kWideThreads, 2>(a, 1, std::min(most_bytes, part_bytes), stream);
  } else {
    launch<T, kCapped, kWideThreads>(a, 1, std::min(most_bytes, row_bytes), stream);
  }
}

}  // namespace

void launch_cross_entropy(const CrossEntropyArguments& arguments, void* stream) {
  if (arguments.num_rows == 0) return;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  const bool capped = arguments.soft_cap != 0;
  if (arguments.dtype == DataType::kBFloat16) {
    capped ? launch<__nv_bfloat16, true>(arguments, cuda_stream)
           : launch<__nv_bfloat16, false>(arguments, cuda_stream);
  } else {
    capped ? launch<float, true>(arguments, cuda_stream)
           : launch<float, false>(arguments, cuda_stream);
  }
}

}  // namespace packtrain

// One block a row: the first reading finds the largest logit and the sum of exponentials (online
// softmax, Milakov and Gimelshein, arXiv 1805.02867) and keeps what it can of the row in shared
// memory; the second, which writes the gradient, reads only the rest again.
// With s = cap tanh(z / cap), or z without cap, and L = log sum_v exp(s_v):
//   l = L - s_label + z_loss L^2
//   dz_v = w (1 + 2 z_loss L) exp(s_v - L) - w [v = label], times 1 - (s_v / cap)^2 with a cap
#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/linear_cross_entropy/cross_entropy_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 512;
constexpr int kBlocksPerMultiprocessor = 3;  // one reads while others write
constexpr int kLoadsInFlight = 2;
constexpr float kLog2E = 1.44269504088896F;
constexpr float kLn2 = 0.693147180559945F;

// 2^x, within 2 units of the last place; without the scaling for denormal results of exp2f.
__device__ float power_of_2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// cap tanh(z / cap), and minus infinity where z is that.
__device__ float capped(float z, float cap) {
  if (z == -INFINITY) return z;
  return cap * (1.0F - __fdividef(2.0F, 1.0F + power_of_2(2.0F * kLog2E / cap * z)));
}

// Softmax's running state in powers of 2: sum = sum of 2^(s log2(e) - largest).
struct Softmax {
  float largest = -INFINITY;  // s log2(e)
  float sum = 0;

  __device__ float log_sum() const { return (largest + log2f(sum)) * kLn2; }
};

__device__ Softmax merged(Softmax a, Softmax b) {
  const float largest = fmaxf(a.largest, b.largest);
  if (largest == -INFINITY) return a;  // nothing seen yet: no inf - inf
  return {largest,
          a.sum * power_of_2(a.largest - largest) + b.sum * power_of_2(b.largest - largest)};
}

// The merged state of all threads of the block, on each; in one order.
__device__ Softmax block_merged(Softmax mine) {
  __shared__ Softmax of_warps[kThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) {
    const Softmax other = {__shfl_xor_sync(~0U, mine.largest, offset),
                           __shfl_xor_sync(~0U, mine.sum, offset)};
    mine = merged(mine, other);  // lane 0 has it in the end
  }
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = mine;
  __syncthreads();
  Softmax all = of_warps[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) all = merged(all, of_warps[warp]);
  return all;
}

template <typename T, bool kCapped>
struct Row {
  static constexpr int kRun = 16 / sizeof(T);
  using Packed = device::Run<T, kRun>;

  Packed* runs;
  Packed* kept;  // the first `num_kept` runs, in shared memory
  int num_runs;
  int num_kept;
  int vocab_size;
  float cap;

  // With minus infinity beyond the vocabulary.
  __device__ Packed load(int index) const {
    const Packed packed = runs[index];
    if ((index + 1) * kRun <= vocab_size) return packed;
    float s[kRun];
    device::unpack(packed, s);
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      if (index * kRun + i >= vocab_size) s[i] = -INFINITY;
    }
    return device::pack<T>(s);
  }

  __device__ void unpack(const Packed& packed, float (&s)[kRun]) const {
    device::unpack(packed, s);
    if (kCapped) {
#pragma unroll
      for (int i = 0; i < kRun; ++i) s[i] = capped(s[i], cap);
    }
  }

  __device__ void add(const Packed& packed, Softmax& softmax) const {
    float s[kRun];
    unpack(packed, s);
    float here = s[0];
#pragma unroll
    for (int i = 1; i < kRun; ++i) here = fmaxf(here, s[i]);
    here *= kLog2E;
    if (here > softmax.largest) {
      softmax.sum *= power_of_2(softmax.largest - here);
      softmax.largest = here;
    }
#pragma unroll
    for (int i = 0; i < kRun; ++i) softmax.sum += power_of_2(s[i] * kLog2E - softmax.largest);
  }

  // This thread's share of the row.
  __device__ Softmax read() const {
    Softmax softmax;
    for (int first = threadIdx.x; first < num_runs; first += kThreads * kLoadsInFlight) {
      Packed loaded[kLoadsInFlight];
#pragma unroll
      for (int u = 0; u < kLoadsInFlight; ++u) {
        if (first + u * kThreads < num_runs) loaded[u] = load(first + u * kThreads);
      }
#pragma unroll
      for (int u = 0; u < kLoadsInFlight; ++u) {
        const int index = first + u * kThreads;
        if (index >= num_runs) break;
        if (index < num_kept) kept[index] = loaded[u];
        add(loaded[u], softmax);
      }
    }
    return softmax;
  }

  // factor 2^(s log2(e) - largest), times the cap's derivative.
  __device__ float gradient(float s, float largest, float factor) const {
    const float g = factor * power_of_2(s * kLog2E - largest);
    return kCapped ? g * (1.0F - (s / cap) * (s / cap)) : g;
  }

  __device__ void write_run(const Packed& packed, int index, float largest, float factor) const {
    float s[kRun];
    unpack(packed, s);
#pragma unroll
    for (int i = 0; i < kRun; ++i) s[i] = gradient(s[i], largest, factor);
    device::store(s, reinterpret_cast<T*>(runs + index));
  }

  // What was read last is still in the second-level cache, so backwards. A thread finds in shared
  // memory what it put there itself.
  __device__ void write(float largest, float factor) const {
    const int first = threadIdx.x;
    const int count = (num_runs - first + kThreads - 1) / kThreads;
    for (int index = first + (count - 1) * kThreads; index >= first;
         index -= kThreads * kLoadsInFlight) {
      Packed loaded[kLoadsInFlight];
#pragma unroll
      for (int u = 0; u < kLoadsInFlight; ++u) {
        const int here = index - u * kThreads;
        if (here >= first) loaded[u] = here < num_kept ? kept[here] : load(here);
      }
#pragma unroll
      for (int u = 0; u < kLoadsInFlight; ++u) {
        const int here = index - u * kThreads;
        if (here >= first) write_run(loaded[u], here, largest, factor);
      }
    }
  }
};

template <typename T, bool kCapped>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    cross_entropy_kernel(const CrossEntropyArguments a, int num_kept) {
  using Run = typename Row<T, kCapped>::Packed;
  constexpr int kRun = Row<T, kCapped>::kRun;
  extern __shared__ uint4 kept[];
  T* logits = static_cast<T*>(a.logits) + blockIdx.x * a.row_stride;
  const int vocab_size = static_cast<int>(a.vocab_size);
  const Row<T, kCapped> row{reinterpret_cast<Run*>(logits),
                            reinterpret_cast<Run*>(kept),
                            (vocab_size + kRun - 1) / kRun,
                            num_kept,
                            vocab_size,
                            a.soft_cap};
  const int label = a.labels[blockIdx.x];
  const float weight = a.weights[blockIdx.x];
  float label_logit = device::to_float(logits[label]);
  if (kCapped) label_logit = capped(label_logit, a.soft_cap);
  const Softmax softmax = block_merged(row.read());
  const float log_sum = softmax.log_sum();
  if (threadIdx.x == 0) {
    a.losses[blockIdx.x] = log_sum - label_logit + a.z_loss * log_sum * log_sum;
  }
  if (!a.gradients) return;
  const float factor = weight * (1.0F + 2.0F * a.z_loss * log_sum) / softmax.sum;
  row.write(softmax.largest, factor);
  if (threadIdx.x == label / kRun % kThreads) {  // who has just written there
    float minus = weight;
    if (kCapped) minus *= 1.0F - (label_logit / a.soft_cap) * (label_logit / a.soft_cap);
    logits[label] =
        device::from_float<T>(row.gradient(label_logit, softmax.largest, factor) - minus);
  }
}

// Bytes of dynamic shared memory a block may have so that the wanted number of blocks fits.
int kept_bytes_per_block() {
  int device = 0;
  int per_multiprocessor = 0;
  int reserved = 0;
  PACKTRAIN_CUDA_CHECK(cudaGetDevice(&device));
  PACKTRAIN_CUDA_CHECK(cudaDeviceGetAttribute(&per_multiprocessor,
                                              cudaDevAttrMaxSharedMemoryPerMultiprocessor, device));
  PACKTRAIN_CUDA_CHECK(
      cudaDeviceGetAttribute(&reserved, cudaDevAttrReservedSharedMemoryPerBlock, device));
  constexpr int kStatic = 1024;  // more than the kernel's own
  return (per_multiprocessor / kBlocksPerMultiprocessor - reserved - kStatic) / 1024 * 1024;
}

template <typename T, bool kCapped>
void launch(const CrossEntropyArguments& a, cudaStream_t stream) {
  auto* kernel = cross_entropy_kernel<T, kCapped>;
  const std::int64_t row_bytes = (a.vocab_size * static_cast<int>(sizeof(T)) + 15) / 16 * 16;
  const int kept_bytes =
      a.gradients ? static_cast<int>(std::min<std::int64_t>(kept_bytes_per_block(), row_bytes)) : 0;
  PACKTRAIN_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kept_bytes));
  kernel<<<static_cast<unsigned>(a.num_rows), kThreads, kept_bytes, stream>>>(a, kept_bytes / 16);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void launch_cross_entropy(const CrossEntropyArguments& arguments, void* stream) {
  if (arguments.num_rows == 0) return;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  const bool capped = arguments.soft_cap != 0;
  if (arguments.bfloat16) {
    capped ? launch<__nv_bfloat16, true>(arguments, cuda_stream)
           : launch<__nv_bfloat16, false>(arguments, cuda_stream);
  } else {
    capped ? launch<float, true>(arguments, cuda_stream)
           : launch<float, false>(arguments, cuda_stream);
  }
}

}  // namespace packtrain

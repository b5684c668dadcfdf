// A block works on every n-th row, and keeps what it can of a row in shared memory. The first pass
// finds the largest logit and the sum of exponentials (online softmax, Milakov and Gimelshein,
// arXiv 1805.02867); the second writes the gradient, and where it has used up a place in shared
// memory the next row's logits are already on their way there. So memory never rests while a block
// computes. With s = cap tanh(z / cap), or z without cap, and L = log sum_v exp(s_v):
//   l = L - s_label + z_loss L^2
//   dz_v = w (1 + 2 z_loss L) exp(s_v - L) - w [v = label], times 1 - (s_v / cap)^2 with a cap
#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/linear_cross_entropy/cross_entropy_launch.h"
#include "models/ops/linear_cross_entropy/softmax.cuh"

namespace packtrain {
namespace {

constexpr int kWideThreads = 1024;   // of a block that has a multiprocessor to itself
constexpr int kNarrowThreads = 512;  // of one of two
constexpr int kLoadsInFlight = 2;

// Starts a copy of 16 bytes to shared memory.
__device__ void copy_async(void* to, const void* from) {
  const auto shared = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
}
__device__ void end_copy_group() {
  asm volatile("cp.async.commit_group;");
}
// Waits for this thread's copies but for the latest kNumGroups groups.
template <int kNumGroups>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kNumGroups) : "memory");
}

template <typename T, bool kCapped, int kThreads>
struct Row {
  static constexpr int kRun = 16 / sizeof(T);
  using Packed = device::Run<T, kRun>;

  Packed* runs;
  Packed* kept;        // the first `num_kept` runs, in shared memory: each thread's own places
  const Packed* next;  // the runs of the block's next row, or null
  int num_runs;
  int num_kept;
  int num_early;  // of those kept, copied in a first group; a multiple of kThreads
  int vocab_size;
  device::Cap cap;

  // With minus infinity beyond the vocabulary.
  __device__ Packed masked(const Packed& packed, int index) const {
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
      for (int i = 0; i < kRun; ++i) s[i] = cap.of(s[i]);
    }
  }

  __device__ void add(const Packed& packed, device::Softmax& softmax) const {
    float s[kRun];
    unpack(packed, s);
    float here = s[0];
#pragma unroll
    for (int i = 1; i < kRun; ++i) here = fmaxf(here, s[i]);
    here *= device::kLog2E;
    if (here > softmax.largest) {
      softmax.sum *= device::power_of_2(softmax.largest - here);
      softmax.largest = here;
    }
#pragma unroll
    for (int i = 0; i < kRun; ++i)
      softmax.sum += device::power_of_2(s[i] * device::kLog2E - softmax.largest);
  }

  __device__ void copy_to_shared(const Packed* from) const {
    int index = threadIdx.x;
    for (; index < num_early; index += kThreads) copy_async(kept + index, from + index);
    end_copy_group();
    for (; index < num_kept; index += kThreads) copy_async(kept + index, from + index);
    end_copy_group();
  }

  // This thread's share of the row, of which the kept part has been copied.
  __device__ device::Softmax read() const {
    device::Softmax softmax;
    int index = threadIdx.x;
    wait_for_copies<1>();
    for (; index < num_early; index += kThreads) add(masked(kept[index], index), softmax);
    wait_for_copies<0>();
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

  // factor 2^(s log2(e) - largest), times the cap's derivative.
  __device__ float gradient(float s, float largest, float factor) const {
    const float g = factor * device::power_of_2(s * device::kLog2E - largest);
    return kCapped ? g * cap.slope(s) : g;
  }

  __device__ void write_run(const Packed& packed, int index, float largest, float factor) const {
    float s[kRun];
    unpack(packed, s);
#pragma unroll
    for (int i = 0; i < kRun; ++i) s[i] = gradient(s[i], largest, factor);
    device::store(s, reinterpret_cast<T*>(runs + index));
  }

  // First what was read last, which is still in the second-level cache.
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
        if (here < num_runs) write_run(loaded[u], here, largest, factor);
      }
    }
    int index = threadIdx.x;
    for (; index < num_early; index += kThreads) use_up(index, largest, factor);
    end_copy_group();
    for (; index < num_kept; index += kThreads) use_up(index, largest, factor);
    end_copy_group();
  }

  __device__ void use_up(int index, float largest, float factor) const {
    write_run(kept[index], index, largest, factor);
    if (next != nullptr) copy_async(kept + index, next + index);
  }
};

template <typename T, bool kCapped, int kThreads>
__global__ void __launch_bounds__(kThreads, kThreads == kWideThreads ? 1 : 2)
    cross_entropy_kernel(const CrossEntropyArguments a, int num_kept) {
  using Slice = Row<T, kCapped, kThreads>;
  using Run = typename Slice::Packed;
  constexpr int kRun = Slice::kRun;
  extern __shared__ uint4 kept[];
  __shared__ device::Softmax scratch[2][kThreads / 32];
  const int vocab_size = static_cast<int>(a.vocab_size);
  Slice row;
  row.kept = reinterpret_cast<Run*>(kept);
  row.num_runs = (vocab_size + kRun - 1) / kRun;
  row.num_kept = num_kept;
  row.num_early = num_kept / (2 * kThreads) * kThreads;
  row.vocab_size = vocab_size;
  row.cap = {a.soft_cap, 1.0F / a.soft_cap};
  const auto runs_of = [&](std::int64_t n) {
    return reinterpret_cast<Run*>(static_cast<T*>(a.logits) + n * a.row_stride);
  };
  row.copy_to_shared(runs_of(blockIdx.x));
  bool odd = false;
  for (std::int64_t n = blockIdx.x; n < a.num_rows; n += gridDim.x) {
    row.runs = runs_of(n);
    row.next = n + gridDim.x < a.num_rows ? runs_of(n + gridDim.x) : nullptr;
    T* logits = reinterpret_cast<T*>(row.runs);
    const int label = a.labels[n];
    const float weight = a.weights[n];
    float label_logit = device::to_float(logits[label]);
    if (kCapped) label_logit = row.cap.of(label_logit);
    const device::Softmax softmax = device::block_merged<kThreads>(row.read(), scratch[odd]);
    odd = !odd;
    const float log_sum = softmax.log_sum();
    if (threadIdx.x == 0) {
      a.losses[n] = log_sum - label_logit + a.z_loss * log_sum * log_sum;
    }
    if (!a.gradients) continue;
    const float factor = weight * (1.0F + 2.0F * a.z_loss * log_sum) / softmax.sum;
    row.write(softmax.largest, factor);
    if (threadIdx.x == label / kRun % kThreads) {  // who has just written there
      float minus = weight;
      if (kCapped) minus *= row.cap.slope(label_logit);
      logits[label] =
          device::from_float<T>(row.gradient(label_logit, softmax.largest, factor) - minus);
    }
  }
}

int device_attribute(cudaDeviceAttr attribute) {
  int device = 0;
  int value = 0;
  PACKTRAIN_CUDA_CHECK(cudaGetDevice(&device));
  PACKTRAIN_CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, device));
  return value;
}

template <typename T, bool kCapped, int kThreads>
void launch(const CrossEntropyArguments& a, int blocks, int kept_bytes, cudaStream_t stream) {
  auto* kernel = cross_entropy_kernel<T, kCapped, kThreads>;
  PACKTRAIN_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kept_bytes));
  const std::int64_t grid =
      std::min<std::int64_t>(a.num_rows, device_attribute(cudaDevAttrMultiProcessorCount) * blocks);
  kernel<<<static_cast<unsigned>(grid), kThreads, kept_bytes, stream>>>(a, kept_bytes / 16);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

// Two blocks a multiprocessor where two rows fit into its shared memory, else one, which keeps what
// it can.
template <typename T, bool kCapped>
void launch(const CrossEntropyArguments& a, cudaStream_t stream) {
  constexpr int kStatic = 1024;  // more than the kernel's own
  const int overhead = device_attribute(cudaDevAttrReservedSharedMemoryPerBlock) + kStatic;
  const int memory = device_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  const std::int64_t row_bytes = (a.vocab_size * static_cast<int>(sizeof(T)) + 15) / 16 * 16;
  if (!a.gradients) {  // nothing is read twice
    launch<T, kCapped, kNarrowThreads>(a, 2, 0, stream);
  } else if (2 * (row_bytes + overhead) <= memory) {
    launch<T, kCapped, kNarrowThreads>(a, 2, static_cast<int>(row_bytes), stream);
  } else {
    const auto kept = std::min<std::int64_t>((memory - overhead) / 16 * 16, row_bytes);
    launch<T, kCapped, kWideThreads>(a, 1, static_cast<int>(kept), stream);
  }
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

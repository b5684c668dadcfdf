// One block a row: one reading for the largest logit and the sum of exponentials (online softmax,
// Milakov and Gimelshein, arXiv 1805.02867), one reading and writing for the gradient.
//   l = log sum_v exp(z_v) - z_label;  dz_v = w (exp(z_v) / sum - [v = label])
#include "framework/device/cuda/check.h"
#include "models/ops/cuda/launch.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/linear_cross_entropy/cross_entropy_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 512;

__device__ float block_max(float value, float* scratch) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(~0U, value, offset));
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  for (int w = 0; w < kThreads / 32; ++w) value = fmaxf(value, scratch[w]);
  return value;
}

// The row's largest logit and the sum of exp(z - largest), on every thread.
template <typename T, int N>
__device__ float2 softmax_sum(const T* row, std::int64_t vocab_size, float* scratch) {
  float largest = -INFINITY;
  float sum = 0;
  for (std::int64_t c = threadIdx.x * N; c < vocab_size; c += kThreads * N) {
    float z[N];
    device::load(row + c, z);
    float here = z[0];
#pragma unroll
    for (int i = 1; i < N; ++i) here = fmaxf(here, z[i]);
    if (here > largest) {
      sum *= __expf(largest - here);
      largest = here;
    }
#pragma unroll
    for (int i = 0; i < N; ++i) sum += __expf(z[i] - largest);
  }
  const float top = block_max(largest, scratch);
  // A thread without elements has sum 0, and exp of minus infinity is 0.
  return {top, device::block_sum(sum * __expf(largest - top), scratch)};
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) cross_entropy_kernel(const CrossEntropyArguments a) {
  __shared__ float scratch[32];
  T* row = static_cast<T*>(a.logits) + blockIdx.x * a.vocab_size;
  const std::int64_t label = a.labels[blockIdx.x];
  const float2 softmax = softmax_sum<T, N>(row, a.vocab_size, scratch);
  if (threadIdx.x == 0) {
    a.losses[blockIdx.x] = softmax.x + logf(softmax.y) - device::to_float(row[label]);
  }
  if (!a.gradients) return;
  __syncthreads();  // the label's logit has been read
  const float weight = a.weights[blockIdx.x];
  const float scale = weight / softmax.y;
  for (std::int64_t c = threadIdx.x * N; c < a.vocab_size; c += kThreads * N) {
    float z[N];
    device::load(row + c, z);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      z[i] = scale * __expf(z[i] - softmax.x) - (c + i == label ? weight : 0.0F);
    }
    device::store(z, row + c);
  }
}

template <typename T>
void launch(const CrossEntropyArguments& a, cudaStream_t stream) {
  constexpr int kRun = 16 / sizeof(T);
  const auto rows = static_cast<unsigned>(a.num_rows);
  if (can_vectorize(a.vocab_size, sizeof(T), a.logits)) {
    cross_entropy_kernel<T, kRun><<<rows, kThreads, 0, stream>>>(a);
  } else {
    cross_entropy_kernel<T, 1><<<rows, kThreads, 0, stream>>>(a);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void launch_cross_entropy(const CrossEntropyArguments& arguments, void* stream) {
  if (arguments.num_rows == 0) return;
  if (arguments.bfloat16) {
    launch<__nv_bfloat16>(arguments, static_cast<cudaStream_t>(stream));
  } else {
    launch<float>(arguments, static_cast<cudaStream_t>(stream));
  }
}

}  // namespace packtrain

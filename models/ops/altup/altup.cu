// Bound by memory. A warp has a row, and each lane has the same columns of all copies. So sums over
// copies stay in a lane, and sums over columns are of one warp in a fixed order. No lane reads what
// another one writes.
#include "framework/device/cuda/check.h"
#include "models/ops/altup/altup_launch.h"
#include "models/ops/cuda/alignment.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/cuda/warp_sum.cuh"

namespace packtrain {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;

// The row of a warp, and the first column of a lane, whose next one is 32 vectors further.
struct Place {
  std::int64_t row = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  int lane = static_cast<int>(threadIdx.x % 32);

  // Offset of the row in [T, C H].
  __device__ std::int64_t copies(const AltUpArguments& a) const {
    return row * a.num_copies * a.hidden;
  }
};

// A vector of each copy. Missing copies have 0. C is num_copies or more.
template <int C, int N, typename T>
__device__ void load_copies(const AltUpArguments& a, const T* from, float (&to)[C][N]) {
#pragma unroll
  for (int i = 0; i < C; ++i) {
    if (i < a.num_copies) {
      device::load<N>(from + i * a.hidden, to[i]);
    } else {
#pragma unroll
      for (int n = 0; n < N; ++n) to[i][n] = 0;
    }
  }
}

// L of a row. Missing copies have 0.
template <int C, typename T>
__device__ void load_mixing(const AltUpArguments& a, std::int64_t row, float (&to)[C][C]) {
  const T* from = static_cast<const T*>(a.coefficients) + row * a.num_copies * a.num_copies;
#pragma unroll
  for (int j = 0; j < C; ++j) {
#pragma unroll
    for (int i = 0; i < C; ++i) {
      const bool exists = j < a.num_copies && i < a.num_copies;
      to[j][i] = exists ? device::to_float(from[j * a.num_copies + i]) : 0.0F;
    }
  }
}

// 1 + K of a row. Missing copies have 0.
template <int C, typename T>
__device__ void load_factors(const AltUpArguments& a, std::int64_t row, float (&to)[C]) {
  const T* from = static_cast<const T*>(a.coefficients) + row * a.num_copies;
#pragma unroll
  for (int j = 0; j < C; ++j) to[j] = j < a.num_copies ? device::to_float(from[j]) : 0.0F;
}

// y_j = x_j + sum over i of m_ji x_i. kTransposed: of m_ij.
template <bool kTransposed, int C, int N, typename T>
__device__ void store_mixed(const AltUpArguments& a, const float (&mixing)[C][C],
                            const float (&x)[C][N], T* to) {
#pragma unroll
  for (int j = 0; j < C; ++j) {
    float y[N];
#pragma unroll
    for (int n = 0; n < N; ++n) y[n] = x[j][n];
#pragma unroll
    for (int i = 0; i < C; ++i) {
      const float factor = kTransposed ? mixing[i][j] : mixing[j][i];
#pragma unroll
      for (int n = 0; n < N; ++n) y[n] += factor * x[i][n];
    }
    if (j < a.num_copies) device::store(y, to + j * a.hidden);
  }
}

template <typename T, int N, int C>
__global__ void __launch_bounds__(kThreads) predict_kernel(const AltUpArguments a) {
  const Place place;
  if (place.row >= a.num_rows) return;
  float mixing[C][C];
  load_mixing<C, T>(a, place.row, mixing);
  const T* x = static_cast<const T*>(a.rows) + place.copies(a);
  T* y = static_cast<T*>(a.output) + place.copies(a);
  for (int column = place.lane * N; column < a.hidden; column += 32 * N) {
    float values[C][N];
    load_copies(a, x + column, values);
    store_mixed<false>(a, mixing, values, y + column);
  }
}

template <typename T, int N, int C>
__global__ void __launch_bounds__(kThreads, C > 4 ? 2 : 4)
    predict_backward_kernel(const AltUpArguments a) {
  const Place place;
  if (place.row >= a.num_rows) return;
  float mixing[C][C];
  load_mixing<C, T>(a, place.row, mixing);
  const T* grad = static_cast<const T*>(a.grad) + place.copies(a);
  const T* x = static_cast<const T*>(a.rows) + place.copies(a);
  T* dx = static_cast<T*>(a.output) + place.copies(a);
  float sums[C][C] = {};
  for (int column = place.lane * N; column < a.hidden; column += 32 * N) {
    float g[C][N];
    float values[C][N];
    load_copies(a, grad + column, g);
    load_copies(a, x + column, values);
    store_mixed<true>(a, mixing, g, dx + column);
#pragma unroll
    for (int j = 0; j < C; ++j) {
#pragma unroll
      for (int i = 0; i < C; ++i) {
#pragma unroll
        for (int n = 0; n < N; ++n) sums[j][i] += g[j][n] * values[i][n];
      }
    }
  }
  float* of_mixing = a.grad_coefficients + place.row * a.num_copies * a.num_copies;
#pragma unroll
  for (int j = 0; j < C; ++j) {
#pragma unroll
    for (int i = 0; i < C; ++i) {
      if (j >= a.num_copies || i >= a.num_copies) continue;
      const float sum = device::warp_sum(sums[j][i]);
      if (place.lane == 0) of_mixing[j * a.num_copies + i] = sum;
    }
  }
}

// a - p_active of a vector.
template <int N, typename T>
__device__ void load_innovation(const T* activated, const T* predicted, float (&to)[N]) {
  float p[N];
  device::load<N>(activated, to);
  device::load<N>(predicted, p);
#pragma unroll
  for (int n = 0; n < N; ++n) to[n] -= p[n];
}

template <typename T, int N, int C>
__global__ void __launch_bounds__(kThreads) correct_kernel(const AltUpArguments a) {
  const Place place;
  if (place.row >= a.num_rows) return;
  float factors[C];
  load_factors<C, T>(a, place.row, factors);
  const T* p = static_cast<const T*>(a.rows) + place.copies(a);
  const T* activated = static_cast<const T*>(a.activated) + place.row * a.hidden;
  T* y = static_cast<T*>(a.output) + place.copies(a);
  for (int column = place.lane * N; column < a.hidden; column += 32 * N) {
    float innovation[N];
    float values[C][N];
    load_innovation<N>(activated + column, p + a.active * a.hidden + column, innovation);
    load_copies(a, p + column, values);
#pragma unroll
    for (int j = 0; j < C; ++j) {
#pragma unroll
      for (int n = 0; n < N; ++n) values[j][n] += factors[j] * innovation[n];
      if (j < a.num_copies) device::store(values[j], y + j * a.hidden + column);
    }
  }
}

// A lane reads all of its vectors of the gradient before it replaces the one of the active copy.
template <typename T, int N, int C>
__global__ void __launch_bounds__(kThreads) correct_backward_kernel(const AltUpArguments a) {
  const Place place;
  if (place.row >= a.num_rows) return;
  float factors[C];
  load_factors<C, T>(a, place.row, factors);
  const T* predicted = static_cast<const T*>(a.rows) + place.copies(a) + a.active * a.hidden;
  const T* activated = static_cast<const T*>(a.activated) + place.row * a.hidden;
  T* grad = static_cast<T*>(a.output) + place.copies(a);
  T* of_activated = static_cast<T*>(a.grad_activated) + place.row * a.hidden;
  float sums[C] = {};
  for (int column = place.lane * N; column < a.hidden; column += 32 * N) {
    float innovation[N];
    float g[C][N];
    load_innovation<N>(activated + column, predicted + column, innovation);
    load_copies(a, grad + column, g);
    float of_active[N];
    device::load<N>(grad + a.active * a.hidden + column, of_active);
    float da[N] = {};
#pragma unroll
    for (int j = 0; j < C; ++j) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
        da[n] += factors[j] * g[j][n];
        sums[j] += g[j][n] * innovation[n];
      }
    }
#pragma unroll
    for (int n = 0; n < N; ++n) of_active[n] -= da[n];
    device::store(da, of_activated + column);
    device::store(of_active, grad + a.active * a.hidden + column);
  }
#pragma unroll
  for (int j = 0; j < C; ++j) {
    if (j >= a.num_copies) continue;
    const float sum = device::warp_sum(sums[j]);
    if (place.lane == 0) a.grad_coefficients[place.row * a.num_copies + j] = sum;
  }
}

enum class Pass { kPredict, kPredictBackward, kCorrect, kCorrectBackward };

template <Pass P, typename T, int N, int C>
void launch_copies(const AltUpArguments& a, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((a.num_rows + kWarps - 1) / kWarps);
  if constexpr (P == Pass::kPredict) predict_kernel<T, N, C><<<blocks, kThreads, 0, stream>>>(a);
  if constexpr (P == Pass::kPredictBackward) {
    predict_backward_kernel<T, N, C><<<blocks, kThreads, 0, stream>>>(a);
  }
  if constexpr (P == Pass::kCorrect) correct_kernel<T, N, C><<<blocks, kThreads, 0, stream>>>(a);
  if constexpr (P == Pass::kCorrectBackward) {
    correct_backward_kernel<T, N, C><<<blocks, kThreads, 0, stream>>>(a);
  }
}

// Eight copies have short vectors, because the sums of their products take 64 registers.
template <Pass P, typename T, int C>
void launch_type(const AltUpArguments& a, cudaStream_t stream) {
  constexpr int kRun = C > 4 ? 2 : 16 / sizeof(T);
  const bool vectors = a.hidden % kRun == 0 && are_aligned(kRun * sizeof(T), a.rows, a.activated,
                                                           a.grad, a.output, a.grad_activated);
  vectors ? launch_copies<P, T, kRun, C>(a, stream) : launch_copies<P, T, 1, C>(a, stream);
}

template <Pass P, int C>
void launch_most_copies(const AltUpArguments& a, cudaStream_t stream) {
  a.dtype == DataType::kBFloat16 ? launch_type<P, __nv_bfloat16, C>(a, stream)
                                 : launch_type<P, float, C>(a, stream);
}

template <Pass P>
void launch_pass(const AltUpArguments& a, void* stream) {
  if (a.num_rows == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  a.num_copies <= 4 ? launch_most_copies<P, 4>(a, on) : launch_most_copies<P, 8>(a, on);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void launch_altup_predict(const AltUpArguments& arguments, void* stream) {
  launch_pass<Pass::kPredict>(arguments, stream);
}

void launch_altup_predict_backward(const AltUpArguments& arguments, void* stream) {
  launch_pass<Pass::kPredictBackward>(arguments, stream);
}

void launch_altup_correct(const AltUpArguments& arguments, void* stream) {
  launch_pass<Pass::kCorrect>(arguments, stream);
}

void launch_altup_correct_backward(const AltUpArguments& arguments, void* stream) {
  launch_pass<Pass::kCorrectBackward>(arguments, stream);
}

}  // namespace packtrain

// Elementwise and bound by memory. A thread has kRuns 16-byte vectors of each input in flight, at
// least four loads in all.
#include "framework/device/cuda/check.h"
#include "models/ops/activation/activation_launch.h"
#include "models/ops/activation/evaluate.cuh"
#include "models/ops/cuda/divisor.cuh"
#include "models/ops/cuda/launch.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/fp8/amax.cuh"

namespace packtrain {
namespace {

constexpr int kThreads = 256;
template <bool kGated>
constexpr int kRuns = kGated ? 2 : 4;

template <typename T, int N>
struct Operands {
  device::Vec<T, N> gate;  // the whole input when not gated
  device::Vec<T, N> up;
  device::Vec<T, N> grad;
};

// Offsets of a vector in the output and in the inputs.
struct RowOffsets {
  std::int64_t output;
  std::int64_t input;
};

template <bool kGated>
__device__ RowOffsets place_of(const ActivationArguments& a, const device::Divisor& vectors_per_row,
                               std::int64_t run, int run_numel) {
  if constexpr (!kGated) return {run * run_numel, run * run_numel};
  const std::int64_t row = vectors_per_row.quotient(run);
  return {run * run_numel, run * run_numel + row * a.inner};
}

template <ActivationKind kKind, bool kGated, typename T, int N>
__device__ void forward(const ActivationArguments& a, const Operands<T, N>& in,
                        const RowOffsets& at, std::uint32_t& amax) {
  float z[N];
  float up[N];
  device::unpack(in.gate, z);
  device::unpack(in.up, up);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    z[i] = device::evaluate<kKind>(z[i]).value;
    if constexpr (kGated) z[i] *= device::evaluate_up<kKind>(up[i]).value;
  }
  if (a.amax != nullptr) amax = device::largest_magnitude(z, amax);
  device::store(z, static_cast<T*>(a.output) + at.output);
}

template <ActivationKind kKind, bool kGated, typename T, int N>
__device__ void backward(const ActivationArguments& a, const Operands<T, N>& in,
                         const RowOffsets& at, std::uint32_t& amax) {
  float z[N];
  float up[N];
  float g[N];
  float y[N];
  device::unpack(in.gate, z);
  device::unpack(in.up, up);
  device::unpack(in.grad, g);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const device::ValueAndSlope f = device::evaluate<kKind>(z[i]);
    const device::ValueAndSlope u = device::evaluate_up<kKind>(up[i]);
    y[i] = kGated ? f.value * u.value : f.value;
    z[i] = kGated ? f.slope * u.value * g[i] : f.slope * g[i];
    up[i] = f.value * g[i] * u.slope;
  }
  if (a.amax != nullptr) {
    amax = device::largest_magnitude(z, amax);
    if constexpr (kGated) amax = device::largest_magnitude(up, amax);
  }
  T* dx = static_cast<T*>(a.output) + at.input;
  device::store(z, dx);
  if constexpr (kGated) device::store(up, dx + a.inner);
  if (a.recomputed_output != nullptr)
    device::store(y, static_cast<T*>(a.recomputed_output) + at.output);
}

template <ActivationKind kKind, bool kGated, bool kBackward, typename T, int N>
__global__ void __launch_bounds__(kThreads)
    activation_kernel(const ActivationArguments a, const device::Divisor vectors_per_row,
                      const std::int64_t num_vectors) {
  Operands<T, N> operands[kRuns<kGated>] = {};
  RowOffsets places[kRuns<kGated>];
  const std::int64_t first = std::int64_t{kThreads * kRuns<kGated>} * blockIdx.x + threadIdx.x;
#pragma unroll
  for (int r = 0; r < kRuns<kGated>; ++r) {
    const std::int64_t run = first + r * kThreads;
    places[r] = place_of<kGated>(a, vectors_per_row, run, N);
    if (run >= num_vectors) continue;
    const T* x = static_cast<const T*>(a.x) + places[r].input;
    operands[r].gate = device::load_vec<N>(x);
    if constexpr (kGated) operands[r].up = device::load_vec<N>(x + a.inner);
    if constexpr (kBackward) {
      operands[r].grad =
          device::load_vec<N>(static_cast<const T*>(a.grad_output) + places[r].output);
    }
  }
  std::uint32_t amax = 0;
#pragma unroll
  for (int r = 0; r < kRuns<kGated>; ++r) {
    if (first + r * kThreads >= num_vectors) continue;
    if constexpr (kBackward) {
      backward<kKind, kGated>(a, operands[r], places[r], amax);
    } else {
      forward<kKind, kGated>(a, operands[r], places[r], amax);
    }
  }
  if (a.amax == nullptr) return;
  device::enter_amax<T>(amax, threadIdx.x, blockIdx.x * (kThreads / 32) + threadIdx.x / 32, a.amax);
}

template <ActivationKind kKind, bool kGated, typename T, int N>
void launch_vectors(const ActivationArguments& a, cudaStream_t stream) {
  const std::int64_t vectors_per_row = a.inner / N;
  const std::int64_t num_vectors = a.num_rows * vectors_per_row;
  constexpr std::int64_t kBlockRuns = kThreads * kRuns<kGated>;
  const auto blocks = static_cast<unsigned>((num_vectors + kBlockRuns - 1) / kBlockRuns);
  if (a.grad_output == nullptr) {
    activation_kernel<kKind, kGated, false, T, N>
        <<<blocks, kThreads, 0, stream>>>(a, device::Divisor(vectors_per_row), num_vectors);
  } else {
    activation_kernel<kKind, kGated, true, T, N>
        <<<blocks, kThreads, 0, stream>>>(a, device::Divisor(vectors_per_row), num_vectors);
  }
}

template <ActivationKind kKind, bool kGated, typename T>
void launch_type(const ActivationArguments& a, cudaStream_t stream) {
  if (can_vectorize(a.inner, sizeof(T), a.x, a.grad_output, a.output, a.recomputed_output)) {
    launch_vectors<kKind, kGated, T, 16 / sizeof(T)>(a, stream);
  } else {
    launch_vectors<kKind, kGated, T, 1>(a, stream);
  }
}

template <ActivationKind kKind>
void launch_kind(const ActivationArguments& a, cudaStream_t stream) {
  if (a.activation.gated) {
    a.dtype == DataType::kBFloat16 ? launch_type<kKind, true, __nv_bfloat16>(a, stream)
                                   : launch_type<kKind, true, float>(a, stream);
  } else {
    a.dtype == DataType::kBFloat16 ? launch_type<kKind, false, __nv_bfloat16>(a, stream)
                                   : launch_type<kKind, false, float>(a, stream);
  }
}

}  // namespace

void launch_activation(const ActivationArguments& arguments, void* stream) {
  if (arguments.num_rows == 0 || arguments.inner == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  switch (arguments.activation.kind) {
    case ActivationKind::kSilu:
      launch_kind<ActivationKind::kSilu>(arguments, on);
      break;
    case ActivationKind::kGeluTanh:
      launch_kind<ActivationKind::kGeluTanh>(arguments, on);
      break;
    case ActivationKind::kGeluErf:
      launch_kind<ActivationKind::kGeluErf>(arguments, on);
      break;
    case ActivationKind::kClampedSwish:
      launch_kind<ActivationKind::kClampedSwish>(arguments, on);
      break;
    case ActivationKind::kSquaredRelu:
      launch_kind<ActivationKind::kSquaredRelu>(arguments, on);
      break;
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain

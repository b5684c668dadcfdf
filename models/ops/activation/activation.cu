// Elementwise, bound by memory: each thread has kRuns runs of 16 bytes of each input under way,
// four runs or more in all.
#include "framework/device/cuda/check.h"
#include "models/ops/activation/activation_launch.h"
#include "models/ops/cuda/divisor.cuh"
#include "models/ops/cuda/launch.h"
#include "models/ops/cuda/vector.cuh"

namespace packtrain {
namespace {

constexpr int kThreads = 256;
template <bool kGated>
constexpr int kRuns = kGated ? 2 : 4;

struct ValueAndSlope {
  float value;
  float slope;
};

// 1 / (1 + e^-z) to about 2 ulp; 0 where e^-z is infinite.
__device__ float logistic(float z) {
  return __fdividef(1.0F, 1.0F + __expf(-z));
}

// (1 + erf(z / sqrt(2))) / 2 to 1e-7, from bell = e^(-z^2 / 2): Abramowitz and Stegun, Handbook of
// Mathematical Functions, 7.1.26. erff would keep the arithmetic busier than the memory.
__device__ float normal_share(float z, float bell) {
  constexpr float kSqrtHalf = 0.70710678118654752F;
  const float t = __fdividef(1.0F, 1.0F + 0.3275911F * kSqrtHalf * fabsf(z));
  float sum = 1.061405429F;
  sum = sum * t - 1.453152027F;
  sum = sum * t + 1.421413741F;
  sum = sum * t - 0.284496736F;
  sum = sum * t + 0.254829592F;
  const float tail = 0.5F * sum * t * bell;
  return z < 0 ? tail : 1.0F - tail;
}

template <ActivationKind kKind>
__device__ ValueAndSlope evaluate(float z) {
  if constexpr (kKind == ActivationKind::kGeluErf) {
    constexpr float kDensity = 0.39894228040143268F;  // 1 / sqrt(2 pi)
    const float bell = __expf(-0.5F * z * z);
    const float share = normal_share(z, bell);
    return {z * share, share + z * kDensity * bell};
  } else if constexpr (kKind == ActivationKind::kGeluTanh) {
    constexpr float kScale = 1.59576912160573071F;  // 2 sqrt(2 / pi)
    constexpr float kCubic = 0.044715F;
    const float square = z * z;
    const float s = logistic(kScale * z * (1.0F + kCubic * square));
    const float slope = kScale * (1.0F + 3.0F * kCubic * square);
    return {z * s, s + z * s * (1.0F - s) * slope};
  } else if constexpr (kKind == ActivationKind::kClampedSwish) {
    const float clamped = fminf(z, kSwishLimit);
    const float s = logistic(kSwishScale * clamped);
    const float slope = s + clamped * s * (1.0F - s) * kSwishScale;
    return {clamped * s, z <= kSwishLimit ? slope : 0.0F};
  } else {
    const float s = logistic(z);
    return {z * s, s + z * s * (1.0F - s)};
  }
}

// What the gate is multiplied by.
template <ActivationKind kKind>
__device__ ValueAndSlope evaluate_up(float up) {
  if constexpr (kKind == ActivationKind::kClampedSwish) {
    const float clamped = fminf(fmaxf(up, -kSwishLimit), kSwishLimit);
    return {clamped + 1.0F, clamped == up ? 1.0F : 0.0F};
  } else {
    return {up, 1.0F};
  }
}

template <typename T, int N>
struct Operands {
  device::Run<T, N> gate;  // or the whole input
  device::Run<T, N> up;
  device::Run<T, N> grad;
};

// Where a run of the output lies, and where its inputs do.
struct Place {
  std::int64_t output;
  std::int64_t input;
};

template <bool kGated>
__device__ Place place_of(const ActivationArguments& a, const device::Divisor& runs_a_row,
                          std::int64_t run, int run_numel) {
  if constexpr (!kGated) return {run * run_numel, run * run_numel};
  const std::int64_t row = runs_a_row.quotient(run);
  return {run * run_numel, run * run_numel + row * a.inner};
}

template <ActivationKind kKind, bool kGated, typename T, int N>
__device__ void forward(const ActivationArguments& a, const Operands<T, N>& in, const Place& at) {
  float z[N];
  float up[N];
  device::unpack(in.gate, z);
  device::unpack(in.up, up);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    z[i] = evaluate<kKind>(z[i]).value;
    if constexpr (kGated) z[i] *= evaluate_up<kKind>(up[i]).value;
  }
  device::store(z, static_cast<T*>(a.output) + at.output);
}

template <ActivationKind kKind, bool kGated, typename T, int N>
__device__ void backward(const ActivationArguments& a, const Operands<T, N>& in, const Place& at) {
  float z[N];
  float up[N];
  float g[N];
  float y[N];
  device::unpack(in.gate, z);
  device::unpack(in.up, up);
  device::unpack(in.grad, g);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const ValueAndSlope f = evaluate<kKind>(z[i]);
    const ValueAndSlope u = evaluate_up<kKind>(up[i]);
    y[i] = kGated ? f.value * u.value : f.value;
    z[i] = kGated ? f.slope * u.value * g[i] : f.slope * g[i];
    up[i] = f.value * g[i] * u.slope;
  }
  T* dx = static_cast<T*>(a.output) + at.input;
  device::store(z, dx);
  if constexpr (kGated) device::store(up, dx + a.inner);
  if (a.remade_y != nullptr) device::store(y, static_cast<T*>(a.remade_y) + at.output);
}

template <ActivationKind kKind, bool kGated, bool kBackward, typename T, int N>
__global__ void __launch_bounds__(kThreads)
    activation_kernel(const ActivationArguments a, const device::Divisor runs_a_row,
                      const std::int64_t num_runs) {
  Operands<T, N> operands[kRuns<kGated>] = {};
  Place places[kRuns<kGated>];
  const std::int64_t first = std::int64_t{kThreads * kRuns<kGated>} * blockIdx.x + threadIdx.x;
#pragma unroll
  for (int r = 0; r < kRuns<kGated>; ++r) {
    const std::int64_t run = first + r * kThreads;
    places[r] = place_of<kGated>(a, runs_a_row, run, N);
    if (run >= num_runs) continue;
    const T* x = static_cast<const T*>(a.x) + places[r].input;
    operands[r].gate = device::read_run<N>(x);
    if constexpr (kGated) operands[r].up = device::read_run<N>(x + a.inner);
    if constexpr (kBackward) {
      operands[r].grad =
          device::read_run<N>(static_cast<const T*>(a.grad_output) + places[r].output);
    }
  }
#pragma unroll
  for (int r = 0; r < kRuns<kGated>; ++r) {
    if (first + r * kThreads >= num_runs) continue;
    if constexpr (kBackward) {
      backward<kKind, kGated>(a, operands[r], places[r]);
    } else {
      forward<kKind, kGated>(a, operands[r], places[r]);
    }
  }
}

template <ActivationKind kKind, bool kGated, typename T, int N>
void launch_runs(const ActivationArguments& a, cudaStream_t stream) {
  const std::int64_t runs_a_row = a.inner / N;
  const std::int64_t num_runs = a.num_rows * runs_a_row;
  constexpr std::int64_t kBlockRuns = kThreads * kRuns<kGated>;
  const auto blocks = static_cast<unsigned>((num_runs + kBlockRuns - 1) / kBlockRuns);
  if (a.grad_output == nullptr) {
    activation_kernel<kKind, kGated, false, T, N>
        <<<blocks, kThreads, 0, stream>>>(a, device::Divisor(runs_a_row), num_runs);
  } else {
    activation_kernel<kKind, kGated, true, T, N>
        <<<blocks, kThreads, 0, stream>>>(a, device::Divisor(runs_a_row), num_runs);
  }
}

template <ActivationKind kKind, bool kGated, typename T>
void launch_type(const ActivationArguments& a, cudaStream_t stream) {
  if (can_vectorize(a.inner, sizeof(T), a.x, a.grad_output, a.output, a.remade_y)) {
    launch_runs<kKind, kGated, T, 16 / sizeof(T)>(a, stream);
  } else {
    launch_runs<kKind, kGated, T, 1>(a, stream);
  }
}

template <ActivationKind kKind>
void launch_kind(const ActivationArguments& a, cudaStream_t stream) {
  if (a.activation.gated) {
    a.bfloat16 ? launch_type<kKind, true, __nv_bfloat16>(a, stream)
               : launch_type<kKind, true, float>(a, stream);
  } else {
    a.bfloat16 ? launch_type<kKind, false, __nv_bfloat16>(a, stream)
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
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain

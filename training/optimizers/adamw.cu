// One pass over the shard, one vector of elements a thread. The kernel is bound by memory. 16-byte
// accesses with enough loads in flight are sufficient.
#include <cuda_bf16.h>

#include <cstdint>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/fp8/amax.cuh"
#include "training/optimizers/adamw_cuda.h"
#include "training/optimizers/stochastic_rounding.h"

namespace packtrain {
namespace {

constexpr int kThreads = 256;
constexpr int kVecSize = 4;  // elements: 16 bytes of float32

__device__ void update(const AdamWArguments& a, float decay, float clip_factor, float gradient,
                       float& w, float& m, float& v) {
  const float g = clip_factor * gradient;
  m = a.beta1 * m + a.one_minus_beta1 * g;
  v = a.beta2 * v + a.one_minus_beta2 * g * g;
  w = w * decay - a.step_size * m / (sqrtf(v) * a.inverse_root_bias2 + a.epsilon);
}

// Binary search for the first piece that ends after element i.
__device__ int find_piece(const AdamWArguments& a, std::int64_t i) {
  int low = 0;
  int high = a.num_pieces - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (a.pieces[middle].end <= i) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

template <int N>
__device__ void store_moments(const AdamWArguments& a, const AdamWPiece& /*piece*/, std::int64_t i,
                              const float (&m)[N], const float (&v)[N], float* /*dtype*/) {
  device::store(m, static_cast<float*>(a.exp_avg) + i);
  device::store(v, static_cast<float*>(a.exp_avg_sq) + i);
}

template <int N>
__device__ void store_moments(const AdamWArguments& a, const AdamWPiece& piece, std::int64_t i,
                              const float (&m)[N], const float (&v)[N], __nv_bfloat16* /*dtype*/) {
  using Bits = device::Vec<std::uint16_t, N>;
  const std::int64_t element = i + piece.element_offset;
  Bits first;
  Bits second;
  RandomWords random{};
#pragma unroll
  for (int k = 0; k < N; ++k) {
    if (k % 4 == 0) random = moment_random(a.seed, a.step, (element + k) / 4);
    const std::uint32_t bits = random.values[N == 1 ? element % 4 : k % 4];
    first.values[k] = round_stochastically(__float_as_uint(m[k]), bits);
    second.values[k] = round_stochastically(__float_as_uint(v[k]), bits >> 16);
  }
  *reinterpret_cast<Bits*>(static_cast<std::uint16_t*>(a.exp_avg) + i) = first;
  *reinterpret_cast<Bits*>(static_cast<std::uint16_t*>(a.exp_avg_sq) + i) = second;
}

// Returns the largest magnitude of a weight so far. It is read early, so that the update does not
// wait for it. An old number is too small at most, which costs an atomic operation.
__device__ std::uint32_t known_amax(const AdamWArguments& a, const AdamWPiece& piece) {
  return piece.amax < 0 ? 0 : *static_cast<volatile std::uint32_t*>(a.amax + piece.amax);
}

// Enters the largest magnitude of the numbers as written. Rounding keeps their order, so the
// largest one is rounded alone. Few warps have a larger one than is known. Lanes of a warp may have
// different pieces, or none.
template <int N>
__device__ void enter_amax(const AdamWArguments& a, const AdamWPiece& piece, std::uint32_t known,
                           const float (&w)[N]) {
  std::uint32_t most = device::largest_magnitude(w, 0);
  if (a.weight != nullptr) {
    const auto written = device::from_float<__nv_bfloat16>(__uint_as_float(most));
    most = __float_as_uint(device::to_float(written));
  }
  const unsigned lanes = __match_any_sync(__activemask(), piece.amax);
  most = __reduce_max_sync(lanes, most);
  const bool is_first =
      threadIdx.x % 32 == static_cast<unsigned>(__ffs(static_cast<int>(lanes))) - 1;
  if (is_first && piece.amax >= 0 && most > known) atomicMax(a.amax + piece.amax, most);
}

template <typename Gradient, typename Moment, int N>
__global__ void __launch_bounds__(kThreads) adamw_kernel(const __grid_constant__ AdamWArguments a) {
  const std::int64_t i = a.begin + (std::int64_t{kThreads} * blockIdx.x + threadIdx.x) * N;
  if (i >= a.end()) return;
  const bool skips = *a.skip != 0;  // tested after the other loads are issued
  const float clip_factor = *a.clip_factor;
  const AdamWPiece& piece = a.pieces[find_piece(a, i)];
  const std::uint32_t known = a.amax == nullptr ? 0 : known_amax(a, piece);
  float g[N];
  float w[N];
  float m[N];
  float v[N];
  device::load(static_cast<const Gradient*>(a.grad) + i, g);
  device::load(a.master + i, w);
  device::load(static_cast<const Moment*>(a.exp_avg) + i, m);
  device::load(static_cast<const Moment*>(a.exp_avg_sq) + i, v);
  if (skips) return;
#pragma unroll
  for (int k = 0; k < N; ++k) update(a, piece.decay, clip_factor, g[k], w[k], m[k], v[k]);
  device::store(w, a.master + i);
  store_moments(a, piece, i, m, v, static_cast<Moment*>(nullptr));
  if (a.weight != nullptr) device::store(w, static_cast<__nv_bfloat16*>(a.weight) + i);
  if (a.amax != nullptr) enter_amax(a, piece, known, w);
}

bool aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % (kVecSize * sizeof(float)) == 0;
}

// True when each vector is inside one piece, is aligned for one access, and starts with the first
// of four elements that share random words.
bool can_take_runs(const AdamWArguments& a) {
  bool fits = a.begin % kVecSize == 0 && aligned(a.master) && aligned(a.grad) &&
              aligned(a.exp_avg) && aligned(a.exp_avg_sq) && aligned(a.weight);
  for (int p = 0; p < a.num_pieces; ++p) {
    fits = fits && a.pieces[p].end % kVecSize == 0 && a.pieces[p].element_offset % kVecSize == 0;
  }
  return fits;
}

template <typename Gradient, typename Moment>
void launch(const AdamWArguments& a, cudaStream_t stream) {
  const std::int64_t numel = a.end() - a.begin;
  const auto blocks = [numel](int run) {
    const std::int64_t per_block = std::int64_t{kThreads} * run;
    return static_cast<unsigned>((numel + per_block - 1) / per_block);
  };
  if (can_take_runs(a)) {
    adamw_kernel<Gradient, Moment, kVecSize><<<blocks(kVecSize), kThreads, 0, stream>>>(a);
  } else {
    adamw_kernel<Gradient, Moment, 1><<<blocks(1), kThreads, 0, stream>>>(a);
  }
}

template <typename Gradient>
void launch_with(const AdamWArguments& a, cudaStream_t stream) {
  if (a.moments_dtype == DataType::kBFloat16) {
    launch<Gradient, __nv_bfloat16>(a, stream);
  } else {
    launch<Gradient, float>(a, stream);
  }
}

}  // namespace

void launch_adamw(const AdamWArguments& arguments, void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (arguments.grad_dtype == DataType::kBFloat16) {
    launch_with<__nv_bfloat16>(arguments, cuda_stream);
  } else {
    launch_with<float>(arguments, cuda_stream);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain

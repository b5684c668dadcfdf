// A block rotates all heads of a few tokens. Its threads first issue the loads of their slots and
// then compute the sines and cosines while these are in flight.
#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/heads.cuh"
#include "models/ops/cuda/launch.h"
#include "models/ops/rotary/rotary_launch.h"

namespace packtrain {
namespace {

constexpr int kMaxThreads = 512;
constexpr int kSlots = 2;  // in flight in a thread

// How a launch is laid over tokens.
struct Tiling {
  int num_heads;  // visited
  int slots_per_head;
  int rows;  // tokens a block
};

template <typename T, int N>
struct Slot {
  device::Vec<T, N> first;
  device::Vec<T, N> second;
};

// The slot of a thread.
struct Place {
  int row;  // in the block
  int head;
  int slot;
};

__device__ Place place_of(const Tiling& tiling, unsigned item) {
  const unsigned head = item / tiling.slots_per_head;
  const unsigned row = head / tiling.num_heads;
  return {static_cast<int>(row), static_cast<int>(head - row * tiling.num_heads),
          static_cast<int>(item - head * tiling.slots_per_head)};
}

template <typename T, int N>
__device__ Slot<T, N> read_slot(const RotaryArguments& a, std::int64_t first_row,
                                const Place& place) {
  const T* head = device::head_of<T>(a.parts, first_row + place.row, place.head);
  return {device::load_vec<N>(head + device::first_run<N>(a.angles, place.slot)),
          device::load_vec<N>(head + device::second_run<N>(a.angles, place.slot))};
}

template <typename T, int N>
__device__ void write_slot(const RotaryArguments& a, std::int64_t first_row, const Place& place,
                           const Slot<T, N>& slot, const device::Angles<N>& angles) {
  float first[N];
  float second[N];
  device::unpack(slot.first, first);
  device::unpack(slot.second, second);
  if (place.head < a.parts.num_query_heads + a.parts.num_key_heads) {
    device::rotate(a.angles, angles, place.slot, first, second);
  }
  T* head = static_cast<T*>(a.output) +
            ((first_row + place.row) * a.num_output_heads + place.head) * a.head_dim;
  device::store(first, head + device::first_run<N>(a.angles, place.slot));
  device::store(second, head + device::second_run<N>(a.angles, place.slot));
}

template <typename T, int N>
__global__ void __launch_bounds__(kMaxThreads)
    rotary_kernel(const RotaryArguments a, const Tiling tiling) {
  extern __shared__ __align__(16) float table[];
  const std::int64_t first_row = std::int64_t{tiling.rows} * blockIdx.x;
  const std::int64_t rows_left = a.num_rows - first_row;
  const int rows = rows_left < tiling.rows ? static_cast<int>(rows_left) : tiling.rows;
  const unsigned num_items = rows * tiling.num_heads * tiling.slots_per_head;
  for (unsigned base = 0; base < num_items; base += kSlots * blockDim.x) {
    Slot<T, N> slots[kSlots] = {};
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      const unsigned item = base + s * blockDim.x + threadIdx.x;
      if (item < num_items) slots[s] = read_slot<T, N>(a, first_row, place_of(tiling, item));
    }
    if (base == 0) {
      device::write_angles<N>(a.angles, first_row, rows, threadIdx.x, blockDim.x, table);
      __syncthreads();
    }
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      const unsigned item = base + s * blockDim.x + threadIdx.x;
      if (item >= num_items) continue;
      const Place place = place_of(tiling, item);
      write_slot(a, first_row, place, slots[s],
                 device::angles_of<N>(a.angles, table, place.row, rows));
    }
  }
}

template <typename T, int N>
void launch_slots(const RotaryArguments& a, cudaStream_t stream) {
  constexpr int kWantedItems = 512;
  constexpr int kMaxAngles = 2048;  // 16 KiB of shared memory
  Tiling tiling{};
  tiling.num_heads = a.parts.num_query_heads + a.parts.num_key_heads + a.parts.num_value_heads;
  tiling.slots_per_head = a.in_place ? a.angles.num_pairs / N : a.head_dim / (2 * N);
  const int row_items = tiling.num_heads * tiling.slots_per_head;
  if (row_items == 0) return;
  tiling.rows = std::clamp(kWantedItems / row_items, 1,
                           std::max(1, kMaxAngles / std::max(1, a.angles.num_pairs)));
  const int wanted = (tiling.rows * row_items + kSlots - 1) / kSlots;
  const int threads = std::min(kMaxThreads, (wanted + 31) / 32 * 32);
  const auto blocks = static_cast<unsigned>((a.num_rows + tiling.rows - 1) / tiling.rows);
  const std::size_t shared_bytes = 2 * sizeof(float) * tiling.rows * a.angles.num_pairs;
  rotary_kernel<T, N><<<blocks, threads, shared_bytes, stream>>>(a, tiling);
}

template <typename T>
void launch_type(const RotaryArguments& a, cudaStream_t stream) {
  const bool vectors = can_vectorize_heads(a.parts, a.angles, a.head_dim, sizeof(T)) &&
                       can_vectorize(a.head_dim, sizeof(T), a.output);
  if (vectors) {
    launch_slots<T, 16 / sizeof(T)>(a, stream);
  } else {
    launch_slots<T, 1>(a, stream);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void launch_rotary(const RotaryArguments& arguments, void* stream) {
  if (arguments.num_rows == 0) return;
  if (arguments.dtype == DataType::kBFloat16) {
    launch_type<__nv_bfloat16>(arguments, static_cast<cudaStream_t>(stream));
  } else {
    launch_type<float>(arguments, static_cast<cudaStream_t>(stream));
  }
}

}  // namespace packtrain

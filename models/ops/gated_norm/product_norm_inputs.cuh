// Reads the inputs of a product norm to registers.
#pragma once

#include <cstdint>

#include "models/ops/cuda/async_copy.cuh"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/gated_norm/product_norm_launch.h"

namespace packtrain::device {

// A thread has R runs of N elements of a part. They stay as they are in memory, in half the
// registers of float32.
template <int N, int R, typename T>
struct NormRuns {
  Vec<T, N> values[R];

  __device__ static int column(int run) {
    return (static_cast<int>(threadIdx.x) + static_cast<int>(blockDim.x) * run) * N;
  }

  NormRuns() = default;
  __device__ NormRuns(const T* from, int width) {
    constexpr float kZeros[N] = {};
#pragma unroll
    for (int r = 0; r < R; ++r) {
      values[r] = column(r) < width ? load_vec<N>(from + column(r)) : pack<T>(kZeros);
    }
  }
};

template <int N, int R, typename T>
struct ProductNormInputs {
  NormRuns<N, R, T> x;
  NormRuns<N, R, T> z;
  NormRuns<N, R, T> g;
};

// The inputs of the rows of a block, gridDim.x apart. Those of the next row are copied to shared
// memory while the block works on a row. A thread reads only what it copied itself, so no barrier
// is needed.
template <int N, int R, typename T>
class ProductNormRows {
 public:
  static constexpr bool kAhead = sizeof(Vec<T, N>) == 16 && R <= 2;
  static constexpr int kSharedBytesOfThread = kAhead ? 3 * R * 16 : 0;

  __device__ ProductNormRows(const ProductNormArguments& a, int begin, void* shared)
      : a_(a), begin_(begin), slots_(static_cast<Vec<T, N>*>(shared) + threadIdx.x) {
    copy(blockIdx.x);
  }

  __device__ ProductNormInputs<N, R, T> take(std::int64_t row) {
    if constexpr (kAhead) {
      ProductNormInputs<N, R, T> inputs;
      cp_async_wait_group<0>();
#pragma unroll
      for (int r = 0; r < R; ++r) {
        inputs.x.values[r] = *slot(0, r);
        inputs.z.values[r] = *slot(1, r);
        inputs.g.values[r] = *slot(2, r);
      }
      copy(row + gridDim.x);
      return inputs;
    } else {
      return {{x(row), a_.width}, {z(row), a_.width}, {g(row), a_.width}};
    }
  }

 private:
  __device__ std::int64_t place(std::int64_t row) const {
    return row * a_.num_parts * a_.width + begin_;
  }
  __device__ const T* x(std::int64_t row) const { return static_cast<const T*>(a_.x) + place(row); }
  __device__ const T* z(std::int64_t row) const {
    return static_cast<const T*>(a_.z) + row * a_.z_stride + begin_;
  }
  __device__ const T* g(std::int64_t row) const {
    return static_cast<const T*>(a_.grad_output) + place(row);
  }
  __device__ Vec<T, N>* slot(int input, int run) const {
    return slots_ + (input * R + run) * blockDim.x;
  }

  __device__ void copy(std::int64_t row) {
    if constexpr (kAhead) {
      if (row >= a_.num_rows) return;
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const int column = NormRuns<N, R, T>::column(r);
        const bool present = column < a_.width;
        cp_async(x(row) + column, slot(0, r), present);
        cp_async(z(row) + column, slot(1, r), present);
        cp_async(g(row) + column, slot(2, r), present);
      }
      cp_async_commit_group();
    }
  }

  const ProductNormArguments& a_;
  int begin_;
  Vec<T, N>* slots_;
};

}  // namespace packtrain::device

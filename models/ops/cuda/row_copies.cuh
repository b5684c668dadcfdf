// Rows that whole warps hold in registers: V vectors of 16 bytes a thread. A row has blockDim.x
// threads. A block has blockDim.y rows in flight and walks over many.
#pragma once

#include "models/ops/cuda/async_copy.cuh"
#include "models/ops/cuda/vector.cuh"

namespace packtrain::device {

constexpr int kRowThreads = 512;  // upper limit of a block

// The vectors of a row that a thread has: contiguous over the lanes of a warp, and kStep elements
// apart for one thread.
template <int N, int V>
struct WarpShare {
  static constexpr int kStep = 32 * N;
  int column;  // of the first vector
  bool held[V];

  __device__ explicit WarpShare(std::int64_t hidden)
      : column(static_cast<int>(threadIdx.x / 32 * 32 * V + threadIdx.x % 32) * N) {
#pragma unroll
    for (int v = 0; v < V; ++v) held[v] = column + v * kStep < hidden;
  }
};

// A thread's vectors of one row, of each input tensor. Vectors beyond the row are 0.
template <typename T, int N, int V, int kInputs>
struct RegisterRow {
  Vec<T, N> runs[kInputs][V];
  std::int64_t index;
  std::int64_t offset;  // of the thread's first vector
};

// Pipeline of a thread's rows: the next kStages rows are on their way to shared memory. Each thread
// copies and reads only its own vectors, so cp.async.wait_group is enough and no barrier is needed.
template <typename T, int N, int V, int kInputs, int kStages>
class RowCopies {
 public:
  static constexpr int kSharedBytes = kStages * kInputs * V * 16 * kRowThreads;
  struct Shape {
    std::int64_t num_rows;
    std::int64_t row_stride;  // elements
  };

  // Copies the first kInputs of `tensors`.
  template <int kTensors>
  __device__ RowCopies(const void* const (&tensors)[kTensors], const Shape& shape,
                       const WarpShare<N, V>& share, void* shared)
      : shape_(shape),
        share_(share),
        places_(static_cast<Vec<T, N>*>(shared) + threadIdx.y * blockDim.x + threadIdx.x),
        row_(std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y),
        offset_(row_ * shape.row_stride + share.column) {
#pragma unroll
    for (int input = 0; input < kInputs; ++input) {
      tensors_[input] = static_cast<const T*>(tensors[input]);
    }
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) {
      issue_load(row_ + stage * stride(), offset_ + stage * stride() * shape_.row_stride, stage);
    }
  }

  __device__ static std::int64_t stride() { return gridDim.x * blockDim.y; }  // rows to the next
  __device__ std::int64_t next_row() const { return row_; }
  __device__ bool has_row() const { return row_ < shape_.num_rows; }

  // Returns the thread's next row. The caller checks has_row() first.
  __device__ RegisterRow<T, N, V, kInputs> take() {
    RegisterRow<T, N, V, kInputs> row = {};
    cp_async_wait_group<kStages - 1>();
#pragma unroll
    for (int v = 0; v < V; ++v) {
#pragma unroll
      for (int input = 0; input < kInputs; ++input) {
        if (share_.held[v]) row.runs[input][v] = *place(stage_, input, v);
      }
    }
    row.index = row_;
    row.offset = offset_;
    const std::int64_t ahead = kStages * stride();
    issue_load(row_ + ahead, offset_ + ahead * shape_.row_stride, stage_);
    row_ += stride();
    offset_ += stride() * shape_.row_stride;
    stage_ = (stage_ + 1) % kStages;
    return row;
  }

 private:
  __device__ Vec<T, N>* place(int stage, int input, int v) const {
    return places_ + ((stage * kInputs + input) * V + v) * kRowThreads;
  }

  // Issues the copies of a row, if that row exists. Commits a group in any case, so that the number
  // of groups in flight is always kStages and wait_group counts right.
  __device__ void issue_load(std::int64_t row, std::int64_t offset, int stage) const {
    if (row < shape_.num_rows) {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        if (!share_.held[v]) continue;
#pragma unroll
        for (int input = 0; input < kInputs; ++input) {
          cp_async(tensors_[input] + offset + v * share_.kStep, place(stage, input, v), true);
        }
      }
    }
    cp_async_commit_group();
  }

  Shape shape_;
  const WarpShare<N, V>& share_;
  const T* tensors_[kInputs];
  Vec<T, N>* places_;
  std::int64_t row_;
  std::int64_t offset_;
  int stage_ = 0;
};

}  // namespace packtrain::device

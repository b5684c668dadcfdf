// Pipeline of the heads that a group of threads visits in backward: the next ones are on their way
// to shared memory (cp.async).
#pragma once

#include "models/ops/cuda/async_copy.cuh"
#include "models/ops/qk_norm/qk_norm.cuh"

namespace packtrain::device {

constexpr int kQkBackwardThreads = 128;
constexpr int kQkBackwardBlocks = 5;  // of a multiprocessor
constexpr int kQkStages = 2;          // heads of a group in flight

struct QkBackwardArguments {
  QkNormArguments operands;
  int block_rows;    // tokens of a block
  int tile_rows[2];  // tokens of one table of sines and cosines, for queries and for keys: their
                     // heads are whole rounds of the block's groups
};

// Heads that share a weight: the queries or the keys.
struct HeadRange {
  HeadPart x;
  HeadPart grad;
  int first;
  int count;
  int tile_rows;
  const void* weight;

  __device__ HeadRange(const QkBackwardArguments& backward, bool keys)
      : x(keys ? backward.operands.qkv.key : backward.operands.qkv.query),
        grad(keys ? backward.operands.grads.key : backward.operands.grads.query),
        first(keys ? backward.operands.grads.num_query_heads : 0),
        count(keys ? backward.operands.grads.num_key_heads
                   : backward.operands.grads.num_query_heads),
        tile_rows(backward.tile_rows[keys ? 1 : 0]),
        weight(keys ? backward.operands.key_weight : backward.operands.query_weight) {}
};

// A head of the block's tokens; `head` counts in its range. Beyond the last head, present is false
// and the values are 0.
template <typename T, int N, int M>
struct HeadInputs {
  HeadShare<T, N, M> x;
  HeadShare<T, N, M> grad;
  float inverse;
  int row;
  int head;
  bool present;
};

// Each thread copies and reads only its own vectors, so no barrier is needed. Vectors smaller than
// 16 bytes are read directly, because cp.async.cg copies 16 bytes.
template <typename T, int N, int M>
class HeadCopies {
 public:
  static constexpr bool kAhead = N > 1;
  static constexpr int kPlaces = kAhead ? kQkStages * 2 * 2 * M : 0;  // 16-byte slots of a thread
  static constexpr int kSharedBytes = kPlaces * kQkBackwardThreads * 16;

  __device__ HeadCopies(const QkNormArguments& a, const Head<T, N, M>& held, const HeadRange& range,
                        const Tile& tokens, void* shared)
      : held_(held),
        range_(range),
        num_rows_(tokens.num_rows),
        num_normed_(a.grads.num_query_heads + a.grads.num_key_heads),
        x_(static_cast<const T*>(range.x.data) + tokens.first_row * range.x.row_stride),
        grad_(static_cast<const T*>(range.grad.data) + tokens.first_row * range.grad.row_stride),
        inverse_(a.inverse_rms + tokens.first_row * num_normed_ + range.first),
        places_(static_cast<Vec<T, N>*>(shared) + threadIdx.y * blockDim.x + threadIdx.x),
        step_{static_cast<int>(blockDim.y) / range.count,
              static_cast<int>(blockDim.y) % range.count},
        next_{static_cast<int>(threadIdx.y) / range.count,
              static_cast<int>(threadIdx.y) % range.count},
        next_load_(next_) {
    for (int stage = 0; stage < kQkStages; ++stage) issue_load(stage);
    next_inverse_ = inverse_of(next_);
  }

  // Returns the group's next head.
  __device__ HeadInputs<T, N, M> take() {
    HeadInputs<T, N, M> head{{}, {}, next_inverse_, next_.row, next_.head, is_present(next_)};
    if constexpr (kAhead) {
      cp_async_wait_group<kQkStages - 1>();
#pragma unroll
      for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          head.grad.runs[m][k] = *place(stage_, 0, m, k);
          head.x.runs[m][k] = *place(stage_, 1, m, k);
        }
      }
      issue_load(stage_);
      stage_ = (stage_ + 1) % kQkStages;
    } else {
      head.grad = held_.read(grad_ + offset(range_.grad, next_), head.present);
      head.x = held_.read(x_ + offset(range_.x, next_), head.present);
    }
    advance(next_);
    next_inverse_ = inverse_of(next_);
    return head;
  }
  __device__ void* rest_of_shared() const {
    return places_ + kPlaces * kQkBackwardThreads - (threadIdx.y * blockDim.x + threadIdx.x);
  }

 private:
  struct Position {
    int row;
    int head;
  };

  __device__ bool is_present(const Position& at) const { return at.row < num_rows_; }
  __device__ float inverse_of(const Position& at) const {
    return is_present(at) ? inverse_[at.row * num_normed_ + at.head] : 0;
  }
  __device__ static std::int64_t offset(const HeadPart& part, const Position& at) {
    return at.row * part.row_stride + at.head * part.head_stride;
  }
  // Advances by blockDim.y heads without a division.
  __device__ void advance(Position& at) const {
    at.row += step_.row;
    at.head += step_.head;
    if (at.head < range_.count) return;
    at.head -= range_.count;
    ++at.row;
  }
  __device__ Vec<T, N>* place(int stage, int input, int m, int k) const {
    return places_ + (((stage * 2 + input) * M + m) * 2 + k) * kQkBackwardThreads;
  }
  __device__ void issue_load(int stage) {
    if constexpr (!kAhead) return;
    const bool present = is_present(next_load_);
    const T* grad = present ? grad_ + offset(range_.grad, next_load_) : grad_;
    const T* x = present ? x_ + offset(range_.x, next_load_) : x_;
#pragma unroll
    for (int m = 0; m < M; ++m) {
      const bool here = present && held_.holds(m);
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int run = here ? held_.run(m, k) : 0;
        cp_async(grad + run, place(stage, 0, m, k), here);
        cp_async(x + run, place(stage, 1, m, k), here);
      }
    }
    cp_async_commit_group();
    advance(next_load_);
  }

  const Head<T, N, M>& held_;
  const HeadRange& range_;
  int num_rows_;
  int num_normed_;
  const T* x_;  // of the block's first token
  const T* grad_;
  const float* inverse_;
  Vec<T, N>* places_;
  Position step_;
  Position next_;
  Position next_load_;
  float next_inverse_;
  int stage_ = 0;
};

}  // namespace packtrain::device

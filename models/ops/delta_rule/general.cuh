// What forward and backward of the general kernels share: a chunk of one head, with its squares in
// shared memory. The formulas are those of delta_rule.h and gradients.cu.
#pragma once

#include "models/ops/cuda/vector.cuh"
#include "models/ops/delta_rule/general_launch.h"

namespace packtrain::device {

constexpr int kGeneralThreads = 512;
constexpr int kGeneralRows = 64;  // of a chunk

struct GeneralShared {
  float lower[kGeneralRows][kGeneralRows];   // L, in backward later B
  float scores[kGeneralRows][kGeneralRows];  // in backward later A
  float sum[kGeneralRows];                   // a; rows after the last have that of the last
  float beta[kGeneralRows];
  float row_sums[3][kGeneralRows];
  float scratch[32];
};

// Calls work(i, j) for i < rows and j < columns, by all threads of a block. Neighbouring threads
// have neighbouring j.
template <class Work>
__device__ void for_elements(int rows, int columns, const Work& work) {
  for (int at = static_cast<int>(threadIdx.x); at < rows * columns; at += kGeneralThreads) {
    work(at / columns, at % columns);
  }
}

template <typename T>
class GeneralChunk {
 public:
  __device__ GeneralChunk(const DeltaRuleGeneralArguments& a, GeneralShared& shared, int sequence,
                          int head)
      : a_(a), shared_(shared), sequence_(sequence), head_(head) {}

 protected:
  __device__ void move_to(int chunk) {
    chunk_ = chunk;
    rows_ = a_.chunks[chunk];
  }

  __device__ int rows() const { return rows_.num_rows; }
  __device__ bool is_first() const { return rows_.slot_before < 0; }
  __device__ bool is_last() const { return rows_.slot_after < 0; }
  __device__ int key_head() const { return head_ / (a_.num_heads / a_.num_key_heads); }
  __device__ std::int64_t row(int i) const { return std::int64_t{rows_.first_row} + i; }

  __device__ float q(int i, int c) const {
    return to_float(
        static_cast<const T*>(a_.q)[row(i) * a_.q_stride + key_head() * a_.key_dim + c]);
  }
  __device__ float k(int i, int c) const {
    return to_float(
        static_cast<const T*>(a_.k)[row(i) * a_.k_stride + key_head() * a_.key_dim + c]);
  }
  __device__ float v(int i, int c) const {
    return to_float(
        static_cast<const T*>(a_.v)[row(i) * a_.v_stride + std::int64_t{head_} * a_.value_dim + c]);
  }
  __device__ float grad_output(int i, int c) const {
    return to_float(static_cast<const T*>(a_.grad_output)[value_at(i, c)]);
  }
  __device__ std::int64_t scalar_at(int i) const { return row(i) * a_.num_heads + head_; }
  __device__ std::int64_t value_at(int i, int c) const { return scalar_at(i) * a_.value_dim + c; }
  __device__ std::int64_t key_at(int i, int c) const {
    return (row(i) * a_.num_key_heads + key_head()) * a_.key_dim + c;
  }
  __device__ float& d(int i, int c) const { return a_.d[value_at(i, c)]; }

  // S before the chunk, or after it for `next`: forward has one state.
  __device__ float* state(bool next = false) const {
    const int place = a_.grad_output == nullptr ? sequence_ : chunk_ + (next ? 1 : 0);
    return state_of(a_.states, place);
  }
  __device__ float* grad_state() const { return state_of(a_.grad_states, sequence_); }

  __device__ float decay(int i) const { return __expf(shared_.sum[i]); }
  __device__ float to_end(int i) const {
    return __expf(shared_.sum[kGeneralRows - 1] - shared_.sum[i]);
  }
  __device__ float ratio(int i, int j) const {
    return j <= i ? __expf(shared_.sum[i] - shared_.sum[j]) : 0;
  }

  // The running sums, L and the scores.
  __device__ void fill_shared() const {
    __syncthreads();  // the chunk before is done
    if (threadIdx.x == 0) {
      float sum = 0;
      for (int i = 0; i < kGeneralRows; ++i) {
        if (i < rows()) sum += a_.g[scalar_at(i)];
        shared_.sum[i] = sum;
        shared_.beta[i] = i < rows() ? a_.beta[scalar_at(i)] : 0;
      }
    }
    __syncthreads();
    for_elements(rows(), rows(), [&](int i, int j) {
      float keys = 0;
      float queries = 0;
      for (int c = 0; j <= i && c < a_.key_dim; ++c) {
        keys = fmaf(k(i, c), k(j, c), keys);
        queries = fmaf(q(i, c), k(j, c), queries);
      }
      shared_.lower[i][j] = j < i ? shared_.beta[i] * ratio(i, j) * keys : 0;
      shared_.scores[i][j] = a_.scale * ratio(i, j) * queries;
    });
    __syncthreads();
  }

  // d, where shared memory is filled.
  __device__ void solve() const {
    for_elements(rows(), a_.value_dim, [&](int i, int c) {
      float expected = 0;
      for (int m = 0; !is_first() && m < a_.key_dim; ++m) {
        expected = fmaf(k(i, m), state()[m * a_.value_dim + c], expected);
      }
      d(i, c) = shared_.beta[i] * (v(i, c) - decay(i) * expected);
    });
    __syncthreads();
    for (int c = static_cast<int>(threadIdx.x); c < a_.value_dim; c += kGeneralThreads) {
      for (int i = 1; i < rows(); ++i) {
        float sum = d(i, c);
        for (int m = 0; m < i; ++m) sum = fmaf(-shared_.lower[i][m], d(m, c), sum);
        d(i, c) = sum;
      }
    }
    __syncthreads();
  }

  // The state after the chunk.
  __device__ void advance() const {
    if (is_last()) return;
    for_elements(a_.key_dim, a_.value_dim, [&](int m, int c) {
      float sum = is_first() ? 0 : decay(kGeneralRows - 1) * state()[m * a_.value_dim + c];
      for (int i = 0; i < rows(); ++i) sum = fmaf(k(i, m) * to_end(i), d(i, c), sum);
      state(true)[m * a_.value_dim + c] = sum;
    });
    __syncthreads();
  }

  __device__ float* state_of(float* states, int place) const {
    return states + (std::int64_t{place} * a_.num_heads + head_) * a_.key_dim * a_.value_dim;
  }

  const DeltaRuleGeneralArguments& a_;
  GeneralShared& shared_;
  int sequence_;
  int head_;
  int chunk_ = 0;
  DeltaRuleChunkRows rows_;
};

}  // namespace packtrain::device

// The tiles of a chunk that the gradients of its inputs need (gradients.cu), and the sums of their
// products over the columns of values.
#pragma once

#include "models/ops/delta_rule/chunk_tiles.cuh"

namespace packtrain::device {

constexpr int kGradientThreads = 512;
constexpr int kParts = kGradientThreads / 128;  // of columns, by warps
constexpr int kTileColumns = 64;                // of values, that are in shared memory together

// Places in shared memory, in bytes. A stage has the tiles of some columns of
// values.
template <int K, int kStages>
struct GradientShared {
  using Keys = MatrixTile<K>;
  using Square = MatrixTile<64>;
  static constexpr int kKeyBytes = kDeltaRows * Keys::kRowBytes;
  static constexpr int kSquareBytes = 64 * Square::kRowBytes;
  static constexpr int kStateBytes = K * Square::kRowBytes;
  static constexpr int kTotalBytes = kDeltaRows * K * 4;
  static constexpr int kRight = 0;                // dd, then e, later B
  static constexpr int kD = kSquareBytes;         // later beta B
  static constexpr int kGrad = 2 * kSquareBytes;  // do, later A
  static constexpr int kState = 3 * kSquareBytes;
  static constexpr int kGradState = kState + kStateBytes;
  static constexpr int kStageBytes = kGradState + kStateBytes;
  static constexpr int kKey = kStages * kStageBytes;
  static constexpr int kQuery = kKey + kKeyBytes;
  static constexpr int kInverse = kQuery + kKeyBytes;
  static constexpr int kTotals = kInverse + kSquareBytes;  // float32 of dq and dk of all heads
  static constexpr int kSum = kTotals + 2 * kTotalBytes;   // of even and odd heads
  static constexpr int kBeta = kSum + 2 * kDeltaRows * 4;
  static constexpr int kBytes = kBeta + 2 * kDeltaRows * 4;
  // Sums over the columns of a row, in a stage whose products are done.
  static constexpr int kRowSums = kState;  // [parts, 3, rows]
  static constexpr int kWarpSums = kRowSums + kParts * 3 * kDeltaRows * 4;
  static_assert(kWarpSums + kGradientThreads / 32 * 4 <= kGradState);
  static_assert(kBytes <= (kStages == 2 ? kDeltaRuleTwoStageBytes : kDeltaRuleSharedBytes));
};

template <int K, int kStages>
class GradientTiles {
 public:
  using Place = GradientShared<K, kStages>;

  __device__ GradientTiles(const DeltaRuleArguments& a, unsigned char* shared)
      : a_(a),
        shared_(shared),
        address_(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
        group_(a.num_heads / a.num_key_heads),
        chunk_(static_cast<int>(blockIdx.x) / a.num_key_heads),
        key_head_(static_cast<int>(blockIdx.x) % a.num_key_heads),
        rows_(a.chunks[chunk_]) {}

 protected:
  using Keys = typename Place::Keys;
  using Square = typename Place::Square;
  static constexpr int kColumns = K / kParts;  // of keys, of a warp
  static constexpr int kTiles = kColumns / 8;
  static constexpr int kSquareColumns = 64 / kParts;  // of a tile of 64, of a warp
  static constexpr int kSquareTiles = kSquareColumns / 8;

  // Sums of products over the values' columns. All of a warp's 16 rows.
  struct Sums {
    float scores[kSquareTiles][4] = {};  // do d^T
    float lower[kSquareTiles][4] = {};   // e d^T
    float query[kTiles][4] = {};         // do S^T
    float product[kTiles][4] = {};       // e S^T
    float ended[kTiles][4] = {};         // d dS^T
    float right_v[2] = {};               // e v, this lane's share
    float states = 0;                    // S dS, this thread's share
  };

  __device__ float* floats(int place) const { return reinterpret_cast<float*>(shared_ + place); }
  __device__ static int m() { return warp_row(); }
  __device__ ChunkHead head(int member) const { return {rows_, key_head_ * group_ + member, a_}; }
  __device__ static int stage_place(int stage) { return stage * Place::kStageBytes; }
  __device__ float* sums_of(int member) const {
    return floats(Place::kSum) + member % 2 * kDeltaRows;
  }
  __device__ float* betas_of(int member) const {
    return floats(Place::kBeta) + member % 2 * kDeltaRows;
  }

  __device__ void load_inverse(const ChunkHead& of) {
    copy_tile<Square, kDeltaRows, kGradientThreads>(elements(a_.inverse) + of.index(chunk_),
                                                    kDeltaRows, kDeltaRows, kDeltaRows,
                                                    shared_ + Place::kInverse);
  }

  // a and beta of a row, which go to shared memory when their head begins.
  __device__ void load_scalars(int member) {
    if (threadIdx.x >= kDeltaRows) return;
    const int row = static_cast<int>(threadIdx.x);
    sum_ = head(member).sum(row);
    beta_ = row < rows_.num_rows ? a_.beta[head(member).scalar(row)] : 0;
  }
  __device__ void store_scalars(int member) const {
    if (threadIdx.x >= kDeltaRows) return;
    sums_of(member)[threadIdx.x] = sum_;
    betas_of(member)[threadIdx.x] = beta_;
  }

  __device__ void load_tiles(const ChunkHead& of, int column, int stage) {
    const int width = a_.value_dim - column;
    unsigned char* to = shared_ + stage_place(stage);
    const auto copy = [&](const void* from, int place) {
      copy_tile<Square, kDeltaRows, kGradientThreads>(elements(from) + of.value_offset() + column,
                                                      of.value_stride(), rows_.num_rows, width,
                                                      to + place);
    };
    copy(a_.grad_d, Place::kRight);
    copy(a_.d, Place::kD);
    copy(a_.grad_output, Place::kGrad);
    if (rows_.slot_before >= 0) {
      copy_tile<Square, K, kGradientThreads>(
          elements(a_.states) + of.state(rows_.slot_before) + column, a_.value_dim, a_.key_dim,
          width, to + Place::kState);
    }
    if (rows_.slot_after >= 0) {
      copy_tile<Square, K, kGradientThreads>(
          elements(a_.grad_states) + of.state(rows_.slot_after) + column, a_.value_dim, a_.key_dim,
          width, to + Place::kGradState);
    }
  }

  // This lane's pairs of v, from global memory: they are read once.
  __device__ void load_v(const ChunkHead& of, int column,
                         std::uint32_t (&words)[kSquareTiles][2]) const {
    const int first = column + kSquareColumns * warp_part() + delta_lane() % 4 * 2;
    for_lane_rows(m(), [&](int row, int half) {
#pragma unroll
      for (int t = 0; t < kSquareTiles; ++t) {
        const int at = first + 8 * t;
        words[t][half] =
            row < rows_.num_rows && at < a_.value_dim
                ? *reinterpret_cast<const std::uint32_t*>(of.v() + row * a_.v_stride + at)
                : 0;
      }
    });
  }

  // e of a tile, and dv.
  __device__ void multiply_right(int member, int column, int stage, float (&right)[kSquareTiles][4],
                                 Sums& sums) {
    const ChunkHead of = head(member);
    const int n = kSquareColumns * warp_part();
    std::uint32_t v[kSquareTiles][2];
    load_v(of, column, v);
    multiply_tiles<Square, true, Square, true>(address_ + Place::kInverse, m(),
                                               address_ + stage_place(stage) + Place::kRight, n,
                                               first_upper_step(), 4, right);
    float grads[kSquareTiles][4];
    for_lane_rows(m(), [&](int row, int half) {
      const float beta = betas_of(member)[row];
#pragma unroll
      for (int t = 0; t < kSquareTiles; ++t) {
        const float* e = &right[t][2 * half];
        sums.right_v[half] = fmaf(e[0], low_bfloat16(v[t][half]),
                                  fmaf(e[1], high_bfloat16(v[t][half]), sums.right_v[half]));
        grads[t][2 * half] = beta * e[0];
        grads[t][2 * half + 1] = beta * e[1];
      }
    });
    write_sums(grads, m(), n, elements(a_.grad_v) + of.value_offset() + column, of.value_stride(),
               rows_.num_rows, a_.value_dim - column);
  }

  __device__ void store_right(int stage, const float (&right)[kSquareTiles][4]) const {
    for_lane_rows(m(), [&](int row, int half) {
#pragma unroll
      for (int t = 0; t < kSquareTiles; ++t) {
        store_pair<Square>(shared_ + stage_place(stage) + Place::kRight, row,
                           kSquareColumns * warp_part(), t, right[t][2 * half],
                           right[t][2 * half + 1]);
      }
    });
  }

  __device__ void add_products(int at, Sums& sums) {
    const int n = kSquareColumns * warp_part();
    const int key = kColumns * warp_part();
    const int num_steps = n < m() + 16 ? 4 : 0;  // else above the diagonal
    multiply_tiles<Square, false, Square, false>(
        address_ + at + Place::kGrad, m(), address_ + at + Place::kD, n, 0, num_steps, sums.scores);
    multiply_tiles<Square, false, Square, false>(
        address_ + at + Place::kRight, m(), address_ + at + Place::kD, n, 0, num_steps, sums.lower);
    if (rows_.slot_before >= 0) {
      multiply_tiles<Square, false, Square, false>(
          address_ + at + Place::kGrad, m(), address_ + at + Place::kState, key, 0, 4, sums.query);
      multiply_tiles<Square, false, Square, false>(address_ + at + Place::kRight, m(),
                                                   address_ + at + Place::kState, key, 0, 4,
                                                   sums.product);
    }
    if (rows_.slot_after >= 0) {
      multiply_tiles<Square, false, Square, false>(
          address_ + at + Place::kD, m(), address_ + at + Place::kGradState, key, 0, 4, sums.ended);
    }
    if (rows_.slot_before >= 0 && rows_.slot_after >= 0) add_states(at, sums);
  }

  // S dS. Columns after the last are zero in both.
  __device__ void add_states(int place, Sums& sums) {
    for (int at = static_cast<int>(threadIdx.x); at < K * Square::kChunks; at += kGradientThreads) {
      float state[8];
      float grad[8];
      load(reinterpret_cast<const __nv_bfloat16*>(shared_ + place + Place::kState + 16 * at),
           state);
      load(reinterpret_cast<const __nv_bfloat16*>(shared_ + place + Place::kGradState + 16 * at),
           grad);
#pragma unroll
      for (int i = 0; i < 8; ++i) sums.states = fmaf(state[i], grad[i], sums.states);
    }
  }

  // A, B and beta B.
  __device__ void write_squares(int member, int at, const Sums& sums) {
    const int n = kSquareColumns * warp_part();
    const float* a = sums_of(member);
    for_lane_rows(m(), [&](int row, int half) {
      const float beta = betas_of(member)[row];
#pragma unroll
      for (int t = 0; t < kSquareTiles; ++t) {
        float scores[2];
        float lower[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int column = n + 8 * t + delta_lane() % 4 * 2 + e;
          const float ratio = column <= row ? __expf(a[row] - a[column]) : 0;
          scores[e] = a_.scale * ratio * sums.scores[t][2 * half + e];
          lower[e] = column < row ? -ratio * sums.lower[t][2 * half + e] : 0;
        }
        store_pair<Square>(shared_ + at + Place::kGrad, row, n, t, scores[0], scores[1]);
        store_pair<Square>(shared_ + at + Place::kRight, row, n, t, lower[0], lower[1]);
        store_pair<Square>(shared_ + at + Place::kD, row, n, t, beta * lower[0], beta * lower[1]);
      }
    });
  }

  __device__ void scale_rows(int member, Sums& sums) {
    const float* a = sums_of(member);
    for_lane_rows(m(), [&](int row, int half) {
      const float decay = __expf(a[row]);
      const float to_end = __expf(a[kDeltaRows - 1] - a[row]);
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          sums.query[t][e] *= a_.scale * decay;
          sums.product[t][e] *= -decay;
          sums.ended[t][e] *= to_end;
        }
      }
    });
  }

  // The last head writes the totals. A thread has the same elements of each
  // head.
  __device__ void add_to_totals(float (&sums)[kTiles][4], int member, float* totals, void* grad) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float* total = totals + (4 * t + e) * kGradientThreads + threadIdx.x;
        if (member > 0) sums[t][e] += *total;
        if (member + 1 < group_) *total = sums[t][e];
      }
    }
    if (member + 1 < group_) return;
    const std::int64_t stride = std::int64_t{a_.num_key_heads} * a_.key_dim;
    write_sums(sums, m(), kColumns * warp_part(),
               elements(grad) + rows_.first_row * stride + std::int64_t{key_head_} * a_.key_dim,
               stride, rows_.num_rows, a_.key_dim);
  }

  const DeltaRuleArguments& a_;
  unsigned char* shared_;
  std::uint32_t address_;
  int group_;
  int chunk_;
  int key_head_;
  DeltaRuleChunkRows rows_;
  float sum_ = 0;
  float beta_ = 0;
};

}  // namespace packtrain::device

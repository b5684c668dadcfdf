// Computes the gradients of the inputs of a chunk. S is the state before the chunk, and dS the
// gradient of the state after it. T is the inverse of 1 + L. r_ij is exp(a_i - a_j) for j <= i. The
// gradient of the right side of d's equation is e.
//    e = T^T dd
//    dv = beta e
//    A = scale r (do d^T)
//    B = -r (e d^T) for j < i
//    dq = A k + scale exp(a) do S^T
//    P = B k - exp(a) e S^T
//    E = exp(a_last - a) d dS^T
//    dk = beta P + E + A^T q + B^T (beta k)
//    dbeta = e v + k P          (sums over the columns of a row)
//    da = q dq - k dk + 2 beta k P
//    da of the last row has also the sum of k E, and exp(a_last) (S dS)
//    dg_i = sum of da_j for j >= i
// The formula of da uses that the derivative of r_ij by a is the product's share of q dq or k dk.
//
// One block of threads has a chunk and one head of queries and keys. It adds the heads of values
// that share them, in their order.
#include "framework/device/cuda/check.h"
#include "models/ops/cuda/warp_sum.cuh"
#include "models/ops/delta_rule/gradient_tiles.cuh"

namespace packtrain {
namespace {

using device::kDeltaRows;
using device::kGradientThreads;
using device::kParts;

template <int K, int kStages>
class ChunkGradients : public device::GradientTiles<K, kStages> {
 public:
  using Tiles = device::GradientTiles<K, kStages>;
  using Place = typename Tiles::Place;
  using Tiles::Tiles;

  __device__ void run() {
    const device::ChunkHead first = head(0);
    device::copy_tile<Keys, kDeltaRows, kGradientThreads>(first.k(), a_.k_stride, rows_.num_rows,
                                                          a_.key_dim, shared_ + Place::kKey);
    device::copy_tile<Keys, kDeltaRows, kGradientThreads>(first.q(), a_.q_stride, rows_.num_rows,
                                                          a_.key_dim, shared_ + Place::kQuery);
    load_inverse(first);
    if (kStages == 2) load_tiles(first, 0, 0);
    device::cp_async_commit_group();
    load_scalars(0);
    int stage = 0;
    for (int member = 0; member < group_; ++member) {
      Sums sums;
      for (int column = 0; column < a_.value_dim; column += device::kTileColumns) {
        run_tile(member, column, stage, sums);
        if (kStages == 2) stage ^= 1;
      }
      finish_head(member, kStages == 2 ? stage ^ 1 : 0, sums);
    }
  }

 private:
  using Tiles::a_;
  using Tiles::add_products;
  using Tiles::add_to_totals;
  using Tiles::address_;
  using Tiles::betas_of;
  using Tiles::floats;
  using Tiles::group_;
  using Tiles::head;
  using Tiles::kColumns;
  using Tiles::key_head_;
  using Tiles::kSquareColumns;
  using Tiles::kSquareTiles;
  using Tiles::kTiles;
  using Tiles::load_inverse;
  using Tiles::load_scalars;
  using Tiles::load_tiles;
  using Tiles::m;
  using Tiles::multiply_right;
  using Tiles::rows_;
  using Tiles::scale_rows;
  using Tiles::shared_;
  using Tiles::stage_place;
  using Tiles::store_right;
  using Tiles::store_scalars;
  using Tiles::sums_of;
  using Tiles::write_squares;
  using typename Tiles::Keys;
  using typename Tiles::Square;
  using typename Tiles::Sums;

  // Adds the products of some columns of values.
  __device__ void run_tile(int member, int column, int stage, Sums& sums) {
    const bool is_last = column + device::kTileColumns >= a_.value_dim;
    if (column == 0) store_scalars(member);
    if constexpr (kStages == 1) {
      __syncthreads();  // the tiles before are done
      load_tiles(head(member), column, 0);
      device::cp_async_commit_group();
    }
    device::cp_async_wait_group<0>();
    __syncthreads();
    if (kStages == 2 && !(is_last && member + 1 == group_)) {
      load_tiles(head(is_last ? member + 1 : member), is_last ? 0 : column + device::kTileColumns,
                 stage ^ 1);
      device::cp_async_commit_group();
    }
    float right[kSquareTiles][4] = {};
    multiply_right(member, column, stage, right, sums);
    __syncthreads();  // products have read dd, whose place e takes
    store_right(stage, right);
    __syncthreads();
    if (is_last && member + 1 < group_) {
      load_inverse(head(member + 1));
      device::cp_async_commit_group();
      load_scalars(member + 1);
    }
    add_products(stage_place(stage), sums);
  }

  __device__ void finish_head(int member, int stage, Sums& sums) {
    __syncthreads();
    write_squares(member, stage_place(stage), sums);
    __syncthreads();
    float row_sums[3][2];
    finish_keys(member, stage_place(stage), sums, row_sums);
    finish_scalars(member, stage_place(stage), sums, row_sums);
  }

  // dq and dk of this head, added to those of the heads before. row_sums: this
  // lane's shares of da, k P and k E.
  __device__ void finish_keys(int member, int at, Sums& sums, float (&row_sums)[3][2]) {
    const int n = kColumns * device::warp_part();
    scale_rows(member, sums);
    device::multiply_tiles<Square, false, Keys, true>(address_ + at + Place::kGrad, m(),
                                                      address_ + Place::kKey, n, 0,
                                                      device::lower_steps(), sums.query);
    device::multiply_tiles<Square, false, Keys, true>(address_ + at + Place::kRight, m(),
                                                      address_ + Place::kKey, n, 0,
                                                      device::lower_steps(), sums.product);
    add_row_sums(member, n, sums, row_sums);
    device::multiply_tiles<Square, true, Keys, true>(address_ + at + Place::kGrad, m(),
                                                     address_ + Place::kQuery, n,
                                                     device::first_upper_step(), 4, sums.ended);
    device::multiply_tiles<Square, true, Keys, true>(address_ + at + Place::kD, m(),
                                                     address_ + Place::kKey, n,
                                                     device::first_upper_step(), 4, sums.ended);
    subtract_key_gradient(sums, n, row_sums);
    add_to_totals(sums.query, member, floats(Place::kTotals), a_.grad_q);
    add_to_totals(sums.ended, member, floats(Place::kTotals + Place::kTotalBytes), a_.grad_k);
  }

  // After this `ended` has E + beta P.
  __device__ void add_row_sums(int member, int n, Sums& sums, float (&row_sums)[3][2]) {
    device::for_lane_rows(m(), [&](int row, int half) {
      const float beta = betas_of(member)[row];
      float of_query = 0;
      float of_product = 0;
      float of_end = 0;
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        const float2 q = device::load_pair<Keys>(shared_ + Place::kQuery, row, n, t);
        const float2 k = device::load_pair<Keys>(shared_ + Place::kKey, row, n, t);
        const float* dq = &sums.query[t][2 * half];
        const float* p = &sums.product[t][2 * half];
        float* ended = &sums.ended[t][2 * half];
        of_query = fmaf(q.x, dq[0], fmaf(q.y, dq[1], of_query));
        of_product = fmaf(k.x, p[0], fmaf(k.y, p[1], of_product));
        of_end = fmaf(k.x, ended[0], fmaf(k.y, ended[1], of_end));
        ended[0] = fmaf(beta, p[0], ended[0]);
        ended[1] = fmaf(beta, p[1], ended[1]);
      }
      row_sums[0][half] = of_query + 2 * beta * of_product;
      row_sums[1][half] = of_product;
      row_sums[2][half] = of_end;
    });
  }

  __device__ void subtract_key_gradient(const Sums& sums, int n, float (&row_sums)[3][2]) {
    device::for_lane_rows(m(), [&](int row, int half) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        const float2 k = device::load_pair<Keys>(shared_ + Place::kKey, row, n, t);
        row_sums[0][half] -= k.x * sums.ended[t][2 * half] + k.y * sums.ended[t][2 * half + 1];
      }
    });
  }

  __device__ void finish_scalars(int member, int at, const Sums& sums, float (&row_sums)[3][2]) {
    float* shared = floats(at + Place::kRowSums);
    device::for_lane_rows(m(), [&](int row, int half) {
      // e v has shares by parts of the values, the others by parts of the keys.
      row_sums[1][half] += sums.right_v[half];
#pragma unroll
      for (int i = 0; i < 3; ++i) {
        float sum = row_sums[i][half];
        sum += __shfl_xor_sync(~0U, sum, 1);
        sum += __shfl_xor_sync(~0U, sum, 2);
        if (device::delta_lane() % 4 == 0) {
          shared[(device::warp_part() * 3 + i) * kDeltaRows + row] = sum;
        }
      }
    });
    const float states = device::warp_sum(sums.states);
    if (device::delta_lane() == 0) floats(at + Place::kWarpSums)[device::delta_warp()] = states;
    __syncthreads();
    if (threadIdx.x < 32) write_scalars(member, at);
  }

  __device__ float row_sum(int at, int i, int row) const {
    float sum = 0;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      sum += floats(at + Place::kRowSums)[(part * 3 + i) * kDeltaRows + row];
    }
    return sum;
  }

  // dbeta and dg by one warp, two rows a lane: dg is the sum of da over later
  // rows.
  __device__ void write_scalars(int member, int at) {
    const device::ChunkHead of = head(member);
    const int lane = device::delta_lane();
    const int row = 2 * lane;
    const float of_end = device::warp_sum(row_sum(at, 2, row) + row_sum(at, 2, row + 1));
    float states = 0;
    for (int warp = 0; warp < kGradientThreads / 32; ++warp)
      states += floats(at + Place::kWarpSums)[warp];
    const float of_last = fmaf(__expf(sums_of(member)[kDeltaRows - 1]), states, of_end);
    float grads[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      grads[i] = row + i < rows_.num_rows ? row_sum(at, 0, row + i) : 0;
      if (row + i == rows_.num_rows - 1) grads[i] += of_last;
    }
    float sum = grads[0] + grads[1];
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const float after = __shfl_down_sync(~0U, sum, offset);
      if (lane + offset < 32) sum += after;
    }
    const float later[2] = {sum, sum - grads[0]};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (row + i >= rows_.num_rows) continue;
      const bool is_first = rows_.slot_before < 0 && row + i == 0;  // it decays nothing
      a_.grad_g[of.scalar(row + i)] = is_first ? 0 : later[i];
      a_.grad_beta[of.scalar(row + i)] = row_sum(at, 1, row + i);
    }
  }
};

template <int K, int kStages>
__global__ void __launch_bounds__(kGradientThreads, 1)
    delta_rule_gradients_kernel(const __grid_constant__ DeltaRuleArguments a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  ChunkGradients<K, kStages>(a, shared).run();
}

template <int K, int kStages>
void launch_gradients(const DeltaRuleArguments& a, cudaStream_t stream) {
  const auto kernel = delta_rule_gradients_kernel<K, kStages>;
  constexpr int kBytes = device::GradientShared<K, kStages>::kBytes;
  PACKTRAIN_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  kernel<<<static_cast<unsigned>(a.num_chunks * a.num_key_heads), kGradientThreads, kBytes,
           stream>>>(a);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

template <int K>
void launch_gradients_of(const DeltaRuleArguments& a, cudaStream_t stream) {
  a.shared_bytes >= kDeltaRuleTwoStageBytes ? launch_gradients<K, 2>(a, stream)
                                            : launch_gradients<K, 1>(a, stream);
}

}  // namespace

void launch_delta_rule_gradients(const DeltaRuleArguments& arguments, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  arguments.key_dim <= 64 ? launch_gradients_of<64>(arguments, on)
                          : launch_gradients_of<128>(arguments, on);
}

}  // namespace packtrain

// Backward of attention over short sequences with Hopper's matrix instructions: one block of
// threads for all rows of a unit and one key head.
//
// For blocks of 128 keys, for each query head, for tiles of 64 queries that see these keys:
//    S^T = K Q^T, P^T = exp(scale S^T - logsumexp), dP^T = V dO^T, dS^T = P^T (dP^T - delta)
//    dV += P^T dO, dK += dS^T Q, dQ = dS K, with delta = sum(dO O) of each query
// (FlashAttention-2's equations, Dao, arXiv 2307.08691). A warp group has 64 keys. P^T and dS^T stay
// in its registers as left operands. dS^T also goes to shared memory for dQ, whose sums run over
// the keys of both groups. So dK and dV are written once, and dQ without atomics: with several
// blocks of keys, the same thread adds to the same place of the workspace. The result is
// deterministic.
#include <cuda_bf16.h>

#include "framework/device/cuda/check.h"
#include "models/ops/attention/short/launch.h"
#include "models/ops/attention/short/unit_rows.cuh"
#include "models/ops/cuda/hopper/barrier.cuh"
#include "models/ops/cuda/hopper/fragment.cuh"
#include "models/ops/cuda/hopper/tensor_map.h"
#include "models/ops/cuda/hopper/tma.cuh"
#include "models/ops/cuda/hopper/wgmma.cuh"
#include "models/ops/cuda/power_of_2.cuh"
#include "models/ops/cuda/vector.cuh"

namespace packtrain {
namespace {

using device::Accumulator;
using device::Major;
using Element = __nv_bfloat16;

constexpr int kThreads = 256;
constexpr int kKeys = kUnitKeys;
constexpr int kQueries = kUnitQueries;
constexpr int kGroupKeys = 64;  // of a warp group
constexpr float kLog2E = 1.4426950408889634F;

// Rows of D bfloat16 as wgmma reads them: panels of 64 columns, rows of 128 bytes, swizzled.
template <int D, int kRows>
struct Panels {
  static constexpr int kChunks = D / 8;  // of 16 bytes, of a row
  static constexpr int kPanelBytes = kRows * 128;
  static constexpr int kBytes = D / 64 * kPanelBytes;

  __device__ static std::uint32_t place(int row, int chunk) {
    return chunk / 8 * kPanelBytes + device::swizzled_offset(row, chunk % 8);
  }
  // 16 columns from 16 `step`, of rows from `row`; the sum runs over the columns.
  __device__ static std::uint64_t by_columns(std::uint32_t at, int row, int step) {
    return device::make_smem_descriptor_k(at + step / 4 * kPanelBytes + row * 128 + step % 4 * 32);
  }
  // 16 rows from 16 `step`, of all columns from 64 `panel`; the sum runs over the rows.
  __device__ static std::uint64_t by_rows(std::uint32_t at, int step, int panel = 0) {
    return device::make_smem_descriptor_mn(at + panel * kPanelBytes + step * 16 * 128, kPanelBytes);
  }
};

// Places in shared memory, in bytes.
template <int D>
struct Shared {
  using Keys = Panels<D, kKeys>;
  using Queries = Panels<D, kQueries>;
  using Scores = Panels<kQueries, kKeys>;
  static constexpr int kKey = 0;
  static constexpr int kValue = kKey + Keys::kBytes;
  static constexpr int kQuery = kValue + Keys::kBytes;                // two
  static constexpr int kGradOutput = kQuery + 2 * Queries::kBytes;    // two
  static constexpr int kOutput = kGradOutput + 2 * Queries::kBytes;
  static constexpr int kGradScores = kOutput + Queries::kBytes;  // [keys, queries]
  static constexpr int kGradQuery = kGradScores + Scores::kBytes;
  static constexpr int kBarriers = kGradQuery + Queries::kBytes;  // of the keys, and of two stages
  static constexpr int kStatistics = kBarriers + 4 * 8;
  static constexpr int kDelta = kStatistics + kQueries * 4;
  static constexpr int kState = kDelta + kQueries * 4;
  static constexpr int kBytes = kState + sizeof(device::UnitState);
};

// Matrices of all rows and heads, in boxes of 64 columns.
struct Maps {
  CUtensorMap query;
  CUtensorMap key;
  CUtensorMap value;
  CUtensorMap grad_output;
  CUtensorMap output;
  CUtensorMap grad_query;
};

struct KernelArguments {
  ShortAttentionArguments rows;
  Maps maps;
};

// Waits for the other threads of this warp group.
__device__ inline void group_barrier() {
  asm volatile("bar.sync %0, 128;" ::"r"(static_cast<int>(threadIdx.x) / 128 + 1) : "memory");
}

template <int D>
class UnitBackward {
 public:
  __device__ UnitBackward(const KernelArguments& arguments, unsigned char* shared)
      : a_(arguments.rows),
        maps_(arguments.maps),
        shared_(shared),
        address_(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
        rows_{arguments.rows, *reinterpret_cast<device::UnitState*>(shared + Place::kState)} {}

  __device__ void run() {
    if (thread() == 0) {
      for (int i = 0; i < 3; ++i) barriers()[i].init(1);
      device::fence_barrier_init();
    }
    rows_.fill();
    for (int block = 0; block < rows_.num_key_blocks(); ++block) run_block(block);
    if (thread() % 128 == 0) device::tma_store_wait_read<0>();
  }

 private:
  using Place = Shared<D>;
  using Keys = typename Place::Keys;
  using Queries = typename Place::Queries;
  using Scores = typename Place::Scores;

  struct Sums {
    Accumulator<D> of_key;
    Accumulator<D> of_value;
  };
  // Left operands of 64 keys and 16 queries each.
  using Operands = std::uint32_t[kQueries / 16][4];

  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static int group() { return thread() / 128; }
  __device__ static int lane() { return thread() % 32; }
  // The first row of an accumulator that this thread has.
  __device__ static int row() { return thread() % 128 / 32 * 16 + lane() / 4; }
  __device__ float* statistics() const {
    return reinterpret_cast<float*>(shared_ + Place::kStatistics);
  }
  __device__ float* delta() const { return reinterpret_cast<float*>(shared_ + Place::kDelta); }
  __device__ std::uint32_t queries(int stage) const {
    return address_ + Place::kQuery + stage * Queries::kBytes;
  }
  __device__ std::uint32_t grad_output(int stage) const {
    return address_ + Place::kGradOutput + stage * Queries::kBytes;
  }

  // Of the keys, and of two stages of queries.
  __device__ device::Barrier* barriers() const {
    return reinterpret_cast<device::Barrier*>(shared_ + Place::kBarriers);
  }
  template <typename Tile>
  __device__ void load(const CUtensorMap& map, int row, int head, int place,
                       const device::Barrier& arrived) {
#pragma unroll
    for (int panel = 0; panel < D / 64; ++panel) {
      device::tma_load_2d(map, head * D + 64 * panel, row, shared_ + place + panel * Tile::kPanelBytes,
                          arrived);
    }
  }
  __device__ void load_keys(int block) {
    if (thread() != 0) return;
    device::Barrier& arrived = barriers()[0];
    arrived.arrive_and_expect_tx(2 * Keys::kBytes);
    const int row = rows_.unit().first_key + block * kKeys;
    load<Keys>(maps_.key, row, rows_.kv_head(), Place::kKey, arrived);
    load<Keys>(maps_.value, row, rows_.kv_head(), Place::kValue, arrived);
  }
  // Begins to load a tile of a query head. Boxes have rows after the last too.
  __device__ void load_tile(int member, int tile, int stage) {
    if (thread() != 0) return;
    device::Barrier& arrived = barriers()[1 + stage];
    arrived.arrive_and_expect_tx(3 * Queries::kBytes);
    const int row = rows_.unit().first_query + tile * kQueries;
    const int head = rows_.query_head(member);
    load<Queries>(maps_.query, row, head, Place::kQuery + stage * Queries::kBytes, arrived);
    load<Queries>(maps_.grad_output, row, head, Place::kGradOutput + stage * Queries::kBytes,
                  arrived);
    load<Queries>(maps_.output, row, head, Place::kOutput, arrived);
  }
  // Rows after the last are those of other sequences: zero times infinity would be NaN.
  template <typename Tile>
  __device__ void clear_after(int present, int num_rows, int place) {
    for (int at = thread(); at < (num_rows - present) * Tile::kChunks; at += kThreads) {
      const std::uint32_t to =
          place + Tile::place(present + at / Tile::kChunks, at % Tile::kChunks);
      *reinterpret_cast<uint4*>(shared_ + to) = {};
    }
  }
  __device__ void wait_for_keys(int block) {
    barriers()[0].wait(block % 2);
    const int present = rows_.unit().num_keys - block * kKeys;
    if (present >= kKeys) return;
    clear_after<Keys>(present, kKeys, Place::kKey);
    clear_after<Keys>(present, kKeys, Place::kValue);
  }
  __device__ void wait_for_tile(int tile, int stage, int parity) {
    barriers()[1 + stage].wait(parity);
    const int present = rows_.unit().num_queries - tile * kQueries;
    if (present >= kQueries) return;
    clear_after<Queries>(present, kQueries, Place::kQuery + stage * Queries::kBytes);
    clear_after<Queries>(present, kQueries, Place::kGradOutput + stage * Queries::kBytes);
    clear_after<Queries>(present, kQueries, Place::kOutput);
    device::fence_proxy_async();
  }

  // The logsumexp of the query of this thread, one of the first kQueries. A row after the last has
  // no probability.
  __device__ float load_statistic(int member, int tile) const {
    const int query = tile * kQueries + thread();
    if (thread() >= kQueries || query >= rows_.unit().num_queries) return INFINITY;
    return kLog2E * a_.logsumexp[(rows_.unit().first_query + query) * std::int64_t{a_.num_heads} +
                                 rows_.query_head(member)];
  }

  // Writes delta of a tile, by four threads a row.
  __device__ void write_delta(int stage) {
    static_assert(kThreads == 4 * kQueries);
    const int r = thread() / 4;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < Queries::kChunks / 4; ++i) {
      const std::uint32_t place = Queries::place(r, thread() % 4 + 4 * i);
      float y[8];
      float g[8];
      device::load(reinterpret_cast<const Element*>(shared_ + Place::kOutput + place), y);
      device::load(reinterpret_cast<const Element*>(shared_ + Place::kGradOutput +
                                                    stage * Queries::kBytes + place),
                   g);
#pragma unroll
      for (int c = 0; c < 8; ++c) sum += y[c] * g[c];
    }
    sum += __shfl_xor_sync(~0U, sum, 1);
    sum += __shfl_xor_sync(~0U, sum, 2);
    if (thread() % 4 == 0) delta()[r] = sum;
  }

  __device__ void run_block(int block) {
    const device::QueryTiles tiles = rows_.tiles_of(block);
    const int count = tiles.count() * rows_.group();
    Sums sums = {};
    __syncthreads();  // the block before has read its keys
    load_keys(block);
    float statistic = INFINITY;
    if (count > 0) {
      load_tile(0, tiles.begin, num_loaded_ % 2);
      statistic = load_statistic(0, tiles.begin);
    }
    wait_for_keys(block);
    int member = 0;
    int tile = tiles.begin;
    for (int i = 0; i < count; ++i) {
      const bool is_last = tile + 1 == tiles.end;
      const int next_member = is_last ? member + 1 : member;
      const int next_tile = is_last ? tiles.begin : tile + 1;
      // Else the compiler keeps addresses that it computes for all tiles, and spills them.
      asm volatile("" : "+r"(address_));
      const int stage = num_loaded_ % 2;
      wait_for_tile(tile, stage, num_loaded_ / 2 % 2);
      ++num_loaded_;
      if (thread() < kQueries) statistics()[thread()] = statistic;
      if (i == 0) device::fence_proxy_async();
      __syncthreads();  // the tile is there, and the one before is done
      Accumulator<kQueries> scores;
      Accumulator<kQueries> grads;
      begin_scores(stage, scores, grads);
      write_delta(stage);
      __syncthreads();  // delta is there, and the output has been read
      if (i + 1 < count) {
        load_tile(next_member, next_tile, 1 - stage);
        statistic = load_statistic(next_member, next_tile);
      }
      add_tile(block, tile, stage, scores, grads, sums);
      device::fence_proxy_async();
      __syncthreads();  // dS^T of both groups is there
      write_grad_query(block, member, tile);
      member = next_member;
      tile = next_tile;
    }
    write_sums(sums, block);
  }

  // Begins S^T and dP^T of this group's keys and a tile, each a group of wgmma.
  __device__ void begin_scores(int stage, Accumulator<kQueries>& scores,
                               Accumulator<kQueries>& grads) const {
    const int key = group() * kGroupKeys;
    device::warpgroup_arrive(scores);
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      device::wgmma<Major::kK, Major::kK>(scores, Keys::by_columns(address_ + Place::kKey, key, k),
                                          Queries::by_columns(queries(stage), 0, k), k > 0);
    }
    device::warpgroup_commit_batch();
    device::warpgroup_arrive(grads);
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      device::wgmma<Major::kK, Major::kK>(grads, Keys::by_columns(address_ + Place::kValue, key, k),
                                          Queries::by_columns(grad_output(stage), 0, k), k > 0);
    }
    device::warpgroup_commit_batch();
  }

  // Adds to dK and dV what the queries of a tile give, and writes their dS^T.
  __device__ void add_tile(int block, int tile, int stage, Accumulator<kQueries>& scores,
                           Accumulator<kQueries>& grads, Sums& sums) {
    Operands probabilities;
    device::warpgroup_wait<1>(scores);
    exponentiate(block, tile, scores, probabilities);
    add_products(sums.of_value, probabilities, grad_output(stage));
    device::warpgroup_wait<1>(grads);
    Operands grad_scores;
    differentiate(scores, grads, grad_scores);
    add_products(sums.of_key, grad_scores, queries(stage));
    const int first = group() * kGroupKeys + thread() % 128 / 32 * 16 + lane() % 16;
#pragma unroll
    for (int k = 0; k < kQueries / 16; ++k) {
      device::store_matrices(
          address_ + Place::kGradScores + device::swizzled_offset(first, 2 * k + lane() / 16),
          grad_scores[k]);
    }
    device::warpgroup_wait<0>(sums.of_value);
    device::warpgroup_fence_operand(sums.of_key);
    keep(probabilities);
    keep(grad_scores);
  }
  // Begins sums [64 keys, D] += left (64 keys, 64 queries) times rows of a tile.
  __device__ static void add_products(Accumulator<D>& sums, const Operands& left,
                                      std::uint32_t rows) {
    device::warpgroup_arrive(sums);
#pragma unroll
    for (int k = 0; k < kQueries / 16; ++k) {
      device::wgmma_rows<Major::kMN>(sums, left[k], Queries::by_rows(rows, k));
    }
    device::warpgroup_commit_batch();
  }
  // wgmma reads the registers of a left operand until it has ended.
  __device__ static void keep(Operands& operands) {
#pragma unroll
    for (auto& words : operands) {
#pragma unroll
      for (std::uint32_t& word : words) asm volatile("" : "+r"(word));
    }
  }

  // Scores to probabilities, also as left operands.
  __device__ void exponentiate(int block, int tile, Accumulator<kQueries>& scores,
                               Operands& probabilities) const {
    const int key = block * kKeys + group() * kGroupKeys + row();
    const float factor = a_.scale * kLog2E;
#pragma unroll
    for (int n = 0; n < kQueries / 8; ++n) {
      const int column = 8 * n + 2 * (lane() % 4);
      const float2 statistic = *reinterpret_cast<const float2*>(statistics() + column);
      const int query = tile * kQueries + column;
      const int first[2] = {rows_.has_first_keys() ? rows_.first_key(query) : 0,
                            rows_.has_first_keys() ? rows_.first_key(query + 1) : 0};
      float* values = scores.values + 4 * n;
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int of_key = key + r / 2 * 8;
        const bool visible = of_key <= query + r % 2 + rows_.before() && of_key >= first[r % 2];
        const float exponent = values[r] * factor - (r % 2 == 0 ? statistic.x : statistic.y);
        values[r] = visible ? device::power_of_2(exponent) : 0;
      }
      probabilities[n / 2][n % 2 * 2] = device::bfloat16_pair(values[0], values[1]);
      probabilities[n / 2][n % 2 * 2 + 1] = device::bfloat16_pair(values[2], values[3]);
    }
  }
  __device__ void differentiate(const Accumulator<kQueries>& probabilities,
                                const Accumulator<kQueries>& grads, Operands& grad_scores) const {
#pragma unroll
    for (int n = 0; n < kQueries / 8; ++n) {
      const float2 sum = *reinterpret_cast<const float2*>(delta() + 8 * n + 2 * (lane() % 4));
      const float* p = probabilities.values + 4 * n;
      const float* g = grads.values + 4 * n;
      grad_scores[n / 2][n % 2 * 2] =
          device::bfloat16_pair(p[0] * (g[0] - sum.x), p[1] * (g[1] - sum.y));
      grad_scores[n / 2][n % 2 * 2 + 1] =
          device::bfloat16_pair(p[2] * (g[2] - sum.x), p[3] * (g[3] - sum.y));
    }
  }

  // Computes dQ of a tile, 64 columns by each group, and writes it.
  __device__ void write_grad_query(int block, int member, int tile) {
    Accumulator<64> grad;
    const int panel = group() % (D / 64);
    const int query = tile * kQueries;
    device::warpgroup_arrive(grad);
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      device::wgmma<Major::kMN, Major::kMN>(
          grad, Scores::by_rows(address_ + Place::kGradScores, k),
          Keys::by_rows(address_ + Place::kKey, k, panel), k > 0);
    }
    device::warpgroup_commit_batch();
    device::warpgroup_wait<0>(grad);
    if (group() >= D / 64) return;
    if (rows_.first_block(tile) < block) add_partial(grad, member, tile);
    if (block < rows_.last_block(tile)) return write_partial(grad, member, tile);
    if (rows_.unit().num_queries - query >= kQueries) return store_tile(grad, member, tile);
    const std::int64_t first = rows_.unit().first_query + query + row();
    auto* to = static_cast<Element*>(a_.grad_query) + first * a_.query_stride +
               rows_.query_head(member) * D + group() * 64;
    write_rows(grad, a_.scale, to, a_.query_stride, rows_.unit().num_queries - query - row());
  }

  // Writes 64 rows and columns by a copy that no thread waits for.
  __device__ void store_tile(const Accumulator<64>& grad, int member, int tile) {
    const int place = Place::kGradQuery + group() * Queries::kPanelBytes;
    const bool stores = thread() % 128 == 0;
    if (stores) device::tma_store_wait_read<0>();
    group_barrier();  // the copy before has read its panel
    const int first = thread() % 128 / 32 * 16 + lane() % 16;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      std::uint32_t words[4];
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const float* values = grad.values + 8 * k + 2 * w;
        words[w] = device::bfloat16_pair(a_.scale * values[0], a_.scale * values[1]);
      }
      device::store_matrices(
          address_ + place + device::swizzled_offset(first, 2 * k + lane() / 16), words);
    }
    device::fence_proxy_async();
    group_barrier();
    if (!stores) return;
    device::tma_store_2d(maps_.grad_query, rows_.query_head(member) * D + group() * 64,
                         rows_.unit().first_query + tile * kQueries, shared_ + place);
    device::tma_store_commit();
  }

  // This thread's part of a tile in the workspace.
  static constexpr int kPartial = 2 * D;  // threads that have a part
  __device__ float4* partial(int member, int tile) const {
    const std::int64_t at =
        rows_.query_head(member) * a_.num_tiles + rows_.unit().first_tile + tile;
    return reinterpret_cast<float4*>(a_.workspace + at * (kQueries * D)) + thread();
  }
  __device__ void add_partial(Accumulator<64>& grad, int member, int tile) const {
    const float4* from = partial(member, tile);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const float4 other = from[n * kPartial];
      grad.values[4 * n] += other.x;
      grad.values[4 * n + 1] += other.y;
      grad.values[4 * n + 2] += other.z;
      grad.values[4 * n + 3] += other.w;
    }
  }
  __device__ void write_partial(const Accumulator<64>& grad, int member, int tile) const {
    float4* to = partial(member, tile);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const float* values = grad.values + 4 * n;
      to[n * kPartial] = {values[0], values[1], values[2], values[3]};
    }
  }

  __device__ void write_sums(Sums& sums, int block) {
    const int key = block * kKeys + group() * kGroupKeys + row();
    const std::int64_t stride = std::int64_t{a_.num_kv_heads} * D;
    const std::int64_t offset = (rows_.unit().first_key + key) * stride + rows_.kv_head() * D;
    const int present = rows_.unit().num_keys - key;
    write_rows(sums.of_key, a_.scale, static_cast<Element*>(a_.grad_key) + offset, stride, present);
    write_rows(sums.of_value, 1.0F, static_cast<Element*>(a_.grad_value) + offset, stride, present);
  }

  // Writes rows 0 and 8 from `to`, this thread's rows of the sums, if they are less than `present`.
  template <int N>
  __device__ static void write_rows(const Accumulator<N>& sums, float factor, Element* to,
                                    std::int64_t stride, int present) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int n = 0; n < N / 8; n += 4) {
        std::uint32_t words[4];
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          const float* values = sums.values + 4 * (n + w) + 2 * half;
          words[w] = device::bfloat16_pair(factor * values[0], factor * values[1]);
        }
        device::shuffle_words(words);
        if (8 * half < present) {
          *reinterpret_cast<uint4*>(to + 8 * half * stride + 8 * (n + lane() % 4)) = {
              words[0], words[1], words[2], words[3]};
        }
      }
    }
  }

  const ShortAttentionArguments& a_;
  const Maps& maps_;
  unsigned char* shared_;
  std::uint32_t address_;
  device::UnitRows rows_;
  int num_loaded_ = 0;  // tiles
};

template <int D>
__global__ void __launch_bounds__(kThreads, 1)
    backward_kernel(const __grid_constant__ KernelArguments arguments) {
  extern __shared__ __align__(1024) unsigned char shared[];
  UnitBackward<D>(arguments, shared).run();
}

template <int D>
Maps maps_of(const ShortAttentionArguments& a) {
  const std::int64_t width = std::int64_t{a.num_heads} * D;
  const std::int64_t key_width = std::int64_t{a.num_kv_heads} * D;
  const MatrixExtent of_query = {a.num_rows, width, a.query_stride};
  const MatrixExtent of_key = {a.num_keys, key_width, a.key_stride};
  const MatrixExtent of_output = {a.num_rows, width, width};
  const BoxExtent keys = {kKeys, 64};
  const BoxExtent queries = {kQueries, 64};
  return {make_bf16_tensor_map(a.query, of_query, queries),
          make_bf16_tensor_map(a.key, of_key, keys),
          make_bf16_tensor_map(a.value, of_key, keys),
          make_bf16_tensor_map(a.grad_output, of_output, queries),
          make_bf16_tensor_map(a.output, of_output, queries),
          make_bf16_tensor_map(a.grad_query, of_query, queries)};
}

template <int D>
void launch(const ShortAttentionArguments& arguments, void* stream) {
  const auto kernel = backward_kernel<D>;
  constexpr int kBytes = Shared<D>::kBytes;
  PACKTRAIN_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const auto blocks = static_cast<unsigned>(arguments.num_units * arguments.num_kv_heads);
  if (blocks == 0) return;
  const KernelArguments all = {arguments, maps_of<D>(arguments)};
  kernel<<<blocks, kThreads, kBytes, static_cast<cudaStream_t>(stream)>>>(all);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void launch_short_attention_backward_hopper(const ShortAttentionArguments& arguments,
                                            void* stream) {
  arguments.head_dim == 64 ? launch<64>(arguments, stream) : launch<128>(arguments, stream);
}

}  // namespace packtrain

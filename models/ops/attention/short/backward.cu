// Backward of attention over short sequences: one block of threads for all rows of a unit and one
// key head.
//
// For blocks of 128 keys, for each query head, for tiles of 64 queries that see these keys:
//    S^T = K Q^T, P^T = exp(scale S^T - logsumexp), dP^T = V dO^T, dS^T = P^T (dP^T - delta)
//    dV += P^T dO, dK += dS^T Q, dQ = dS K, with delta = sum(dO O) of each query
// (FlashAttention-2's equations, Dao, arXiv 2307.08691). A warp has 16 keys. P^T and dS^T stay in
// its registers as left operands; dS^T also goes to shared memory for dQ, whose sums run over the
// keys of all warps. So dK and dV are written once, and dQ without atomics: with several blocks of
// keys, the same thread adds to the same place of the workspace. The result is deterministic.
#include <cuda_bf16.h>

#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/attention/short/launch.h"
#include "models/ops/cuda/async_copy.cuh"
#include "models/ops/cuda/matrix_fragments.cuh"
#include "models/ops/cuda/vector.cuh"

namespace packtrain {
namespace {

using device::MatrixTile;
using Element = __nv_bfloat16;

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kKeys = kUnitKeys;
constexpr int kQueries = kUnitQueries;
constexpr int kChunk = 32;  // queries whose scores a warp has in registers
constexpr float kLog2E = 1.4426950408889634F;

// Places in shared memory, in bytes.
template <int D>
struct Shared {
  using Rows = MatrixTile<D>;
  using Scores = MatrixTile<kQueries>;
  static constexpr int kKeyBytes = kKeys * Rows::kRowBytes;
  static constexpr int kQueryBytes = kQueries * Rows::kRowBytes;
  static constexpr int kKey = 0;
  static constexpr int kValue = kKey + kKeyBytes;
  static constexpr int kQuery = kValue + kKeyBytes;           // two
  static constexpr int kGradOutput = kQuery + 2 * kQueryBytes;  // two
  static constexpr int kOutput = kGradOutput + 2 * kQueryBytes;
  static constexpr int kScores = kOutput + kQueryBytes;
  static constexpr int kStatistics = kScores + kKeys * Scores::kRowBytes;
  static constexpr int kDelta = kStatistics + kQueries * 4;
  static constexpr int kFirstKeys = kDelta + kQueries * 4;
  static constexpr int kBytes = kFirstKeys + kKeys * 4;
  static_assert(kBytes <= kShortAttentionSharedBytes);
};

// Tiles [begin, end) of a query head.
struct Tiles {
  int begin = 0;
  int end = 0;
  __device__ int count() const { return end > begin ? end - begin : 0; }
};

template <int D>
struct Sums {
  float of_key[D / 8][4];
  float of_value[D / 8][4];
};

template <int D>
class UnitBackward {
 public:
  __device__ UnitBackward(const ShortAttentionArguments& a, unsigned char* shared)
      : a_(a),
        shared_(shared),
        address_(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
        unit_(a.units[blockIdx.x / a.num_kv_heads]),
        kv_head_(static_cast<int>(blockIdx.x) % a.num_kv_heads),
        group_(a.num_heads / a.num_kv_heads),
        before_(unit_.num_keys - unit_.num_queries) {}

  __device__ void run() {
    find_first_keys();
    for (int block = 0; block < num_key_blocks(); ++block) run_block(block);
  }

 private:
  using Place = Shared<D>;
  using Rows = typename Place::Rows;
  using Scores = typename Place::Scores;

  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ int num_key_blocks() const { return (unit_.num_keys + kKeys - 1) / kKeys; }
  __device__ bool has_first_keys() const { return unit_.num_sequences > 1 || a_.window > 0; }
  __device__ float* statistics() const { return reinterpret_cast<float*>(shared_ + Place::kStatistics); }
  __device__ float* delta() const { return reinterpret_cast<float*>(shared_ + Place::kDelta); }
  // Of several sequences: the first key of each row's sequence.
  __device__ int* first_keys() const { return reinterpret_cast<int*>(shared_ + Place::kFirstKeys); }

  // The first key that a query of the unit sees.
  __device__ int first_key(int query) const {
    const int begin = unit_.num_sequences > 1 ? first_keys()[query] : 0;
    return a_.window > 0 ? max(begin, query + before_ - a_.window + 1) : begin;
  }

  __device__ void find_first_keys() {
    const int row = static_cast<int>(threadIdx.x);
    if (unit_.num_sequences > 1 && row < kKeys) {
      const std::int32_t* begins = a_.cu_sequences + unit_.first_sequence;
      const int at = min(row, unit_.num_queries - 1) + unit_.first_query;
      int low = 0;  // the last sequence that begins at or before the row
      for (int high = unit_.num_sequences; high - low > 1;) {
        const int middle = (low + high) / 2;
        (begins[middle] <= at ? low : high) = middle;
      }
      first_keys()[row] = begins[low] - unit_.first_query;
    }
    __syncthreads();
  }

  // Tiles with queries that see keys of the block.
  __device__ Tiles tiles_of(int block) const {
    Tiles tiles;
    tiles.begin = max(0, block * kKeys - before_) / kQueries;
    tiles.end = (unit_.num_queries + kQueries - 1) / kQueries;
    if (a_.window > 0) {
      const int last = block * kKeys + kKeys - 2 + a_.window - before_;  // query of the last key
      tiles.end = last < 0 ? 0 : min(tiles.end, last / kQueries + 1);
    }
    return tiles;
  }
  __device__ int first_block(int tile) const { return max(0, first_key_of_tile(tile)) / kKeys; }
  __device__ int first_key_of_tile(int tile) const {
    return a_.window > 0 ? tile * kQueries + before_ - a_.window + 1 : 0;
  }
  __device__ int last_block(int tile) const {
    return min(num_key_blocks() - 1, (tile * kQueries + kQueries - 1 + before_) / kKeys);
  }

  template <int kRows>
  __device__ void load_rows(const void* from, std::int64_t stride, int present, int place) {
    const auto* rows = static_cast<const Element*>(from);
#pragma unroll
    for (int i = 0; i < kRows * Rows::kChunks / kThreads; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * kThreads;
      const int row = at / Rows::kChunks;
      const int chunk = at % Rows::kChunks;
      device::cp_async(rows + row * stride + chunk * 8, shared_ + place + Rows::place(row, chunk),
                       row < present);
    }
  }

  __device__ std::int64_t dense_stride() const { return std::int64_t{a_.num_heads} * D; }
  __device__ int query_head(int member) const { return kv_head_ * group_ + member; }

  __device__ void load_keys(int block) {
    const std::int64_t row = unit_.first_key + block * kKeys;
    const std::int64_t offset = row * a_.key_stride + kv_head_ * D;
    const int present = unit_.num_keys - block * kKeys;
    load_rows<kKeys>(static_cast<const Element*>(a_.key) + offset, a_.key_stride, present,
                     Place::kKey);
    load_rows<kKeys>(static_cast<const Element*>(a_.value) + offset, a_.key_stride, present,
                     Place::kValue);
  }
  __device__ void load_queries(int member, int tile, int stage) {
    const std::int64_t row = unit_.first_query + tile * kQueries;
    const int head = query_head(member);
    const int present = unit_.num_queries - tile * kQueries;
    load_rows<kQueries>(static_cast<const Element*>(a_.query) + row * a_.query_stride + head * D,
                        a_.query_stride, present, Place::kQuery + stage * Place::kQueryBytes);
    load_rows<kQueries>(
        static_cast<const Element*>(a_.grad_output) + row * dense_stride() + head * D,
        dense_stride(), present, Place::kGradOutput + stage * Place::kQueryBytes);
  }
  __device__ void load_output(int member, int tile) {
    const std::int64_t row = unit_.first_query + tile * kQueries;
    load_rows<kQueries>(
        static_cast<const Element*>(a_.output) + row * dense_stride() + query_head(member) * D,
        dense_stride(), unit_.num_queries - tile * kQueries, Place::kOutput);
  }
  // Of the row of this thread, one of the first kQueries. A row after the last has no probability.
  __device__ float load_statistic(int member, int tile) const {
    const int row = tile * kQueries + static_cast<int>(threadIdx.x);
    if (threadIdx.x >= kQueries || row >= unit_.num_queries) return INFINITY;
    return kLog2E * a_.logsumexp[(unit_.first_query + row) * std::int64_t{a_.num_heads} +
                                 query_head(member)];
  }

  // Writes delta of the tile, by four threads a row.
  __device__ void write_delta(int stage) {
    static_assert(kThreads == 4 * kQueries);
    const int row = static_cast<int>(threadIdx.x) / 4;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < Rows::kChunks / 4; ++i) {
      const std::uint32_t place = Rows::place(row, static_cast<int>(threadIdx.x) % 4 + 4 * i);
      float y[8];
      float g[8];
      device::load(reinterpret_cast<const Element*>(shared_ + Place::kOutput + place), y);
      device::load(reinterpret_cast<const Element*>(shared_ + Place::kGradOutput +
                                                    stage * Place::kQueryBytes + place),
                   g);
#pragma unroll
      for (int c = 0; c < 8; ++c) sum += y[c] * g[c];
    }
    sum += __shfl_xor_sync(~0U, sum, 1);
    sum += __shfl_xor_sync(~0U, sum, 2);
    if (threadIdx.x % 4 == 0) delta()[row] = sum;
  }

  __device__ void run_block(int block) {
    const Tiles tiles = tiles_of(block);
    const int count = tiles.count() * group_;
    Sums<D> sums = {};
    __syncthreads();  // the block before has read its keys
    load_keys(block);
    float statistic = INFINITY;
    if (count > 0) {
      load_queries(0, tiles.begin, 0);
      load_output(0, tiles.begin);
      statistic = load_statistic(0, tiles.begin);
    }
    device::cp_async_commit_group();
    int member = 0;
    int tile = tiles.begin;
    for (int i = 0; i < count; ++i) {
      const bool is_last = tile + 1 == tiles.end;
      const int next_member = is_last ? member + 1 : member;
      const int next_tile = is_last ? tiles.begin : tile + 1;
      device::cp_async_wait_group<0>();
      __syncthreads();  // the tile is there, and the one before is done
      if (threadIdx.x < kQueries) statistics()[threadIdx.x] = statistic;
      if (i + 1 < count) {
        load_queries(next_member, next_tile, (i + 1) % 2);
        statistic = load_statistic(next_member, next_tile);
      }
      device::cp_async_commit_group();
      write_delta(i % 2);
      __syncthreads();  // the output has been read
      if (i + 1 < count) load_output(next_member, next_tile);
      device::cp_async_commit_group();
#pragma unroll
      for (int chunk = 0; chunk < kQueries; chunk += kChunk) {
        if (sees(block, tile, chunk)) add_chunk(block, tile, chunk, i % 2, sums);
      }
      __syncthreads();  // dS^T of all warps is there
      write_grad_query(block, member, tile);
      member = next_member;
      tile = next_tile;
    }
    device::cp_async_wait_group<0>();
    write_sums(sums, block);
  }

  // True if a query of the chunk sees a key of this warp.
  __device__ bool sees(int block, int tile, int chunk) const {
    const int key = block * kKeys + warp() * 16;
    const int query = tile * kQueries + chunk;
    return query < unit_.num_queries && key < unit_.num_keys &&
           query + kChunk - 1 + before_ >= key &&
           (!has_first_keys() || first_key(query) <= key + 15);
  }

  // Adds to dK and dV what the queries of a chunk give, and writes their dS^T.
  __device__ void add_chunk(int block, int tile, int chunk, int stage, Sums<D>& sums) {
    float scores[kChunk / 8][4] = {};
    float grads[kChunk / 8][4] = {};
    const std::uint32_t queries = address_ + Place::kQuery + stage * Place::kQueryBytes;
    const std::uint32_t grad_output = address_ + Place::kGradOutput + stage * Place::kQueryBytes;
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      std::uint32_t left[4];
      device::load_matrices(Rows::left(address_ + Place::kKey, warp() * 16, 2 * k), left);
      multiply_queries(left, queries, chunk, k, scores);
      device::load_matrices(Rows::left(address_ + Place::kValue, warp() * 16, 2 * k), left);
      multiply_queries(left, grad_output, chunk, k, grads);
    }
    std::uint32_t probabilities[kChunk / 16][4];
    std::uint32_t grad_scores[kChunk / 16][4];
    differentiate(block, tile, chunk, scores, grads, probabilities, grad_scores);
#pragma unroll
    for (int k = 0; k < kChunk / 16; ++k) {
      add_product(probabilities[k], grad_output, chunk + 16 * k, sums.of_value);
      add_product(grad_scores[k], queries, chunk + 16 * k, sums.of_key);
    }
  }

  // sums [16 keys, 32 queries] += left (16 keys) times step k of the chunk's rows of a tile.
  __device__ static void multiply_queries(const std::uint32_t (&left)[4], std::uint32_t rows,
                                          int chunk, int k, float (&sums)[kChunk / 8][4]) {
#pragma unroll
    for (int n = 0; n < kChunk / 16; ++n) {
      std::uint32_t right[4];
      device::load_matrices(Rows::right(rows, chunk + 16 * n, 2 * k), right);
      device::mma_16x8(sums[2 * n], left, {right[0], right[1]});
      device::mma_16x8(sums[2 * n + 1], left, {right[2], right[3]});
    }
  }
  // sums [16, D] += left (16 x 16) times 16 rows of a tile.
  template <int kTiles>
  __device__ static void add_product(const std::uint32_t (&left)[4], std::uint32_t rows, int row,
                                     float (&sums)[kTiles][4], int first_chunk = 0) {
#pragma unroll
    for (int n = 0; n < kTiles / 2; ++n) {
      std::uint32_t right[4];
      device::load_transposed(Rows::transposed_right(rows, row, first_chunk + 2 * n), right);
      device::mma_16x8(sums[2 * n], left, {right[0], right[1]});
      device::mma_16x8(sums[2 * n + 1], left, {right[2], right[3]});
    }
  }

  __device__ void differentiate(int block, int tile, int chunk,
                                const float (&scores)[kChunk / 8][4],
                                const float (&grads)[kChunk / 8][4],
                                std::uint32_t (&probabilities)[kChunk / 16][4],
                                std::uint32_t (&grad_scores)[kChunk / 16][4]) {
    const int key = block * kKeys + warp() * 16 + lane() / 4;
    const float factor = a_.scale * kLog2E;
#pragma unroll
    for (int n = 0; n < kChunk / 8; ++n) {
      const int column = chunk + 8 * n + 2 * (lane() % 4);
      const float2 statistic = *reinterpret_cast<const float2*>(statistics() + column);
      const float2 sum = *reinterpret_cast<const float2*>(delta() + column);
      const int query = tile * kQueries + column;
      const int first[2] = {has_first_keys() ? first_key(query) : 0,
                            has_first_keys() ? first_key(query + 1) : 0};
      float p[4];
      float ds[4];
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int of_key = key + r / 2 * 8;
        const bool visible = of_key <= query + r % 2 + before_ && of_key >= first[r % 2];
        const float exponent = scores[n][r] * factor - (r % 2 == 0 ? statistic.x : statistic.y);
        p[r] = visible ? exp2f(exponent) : 0;
        ds[r] = p[r] * (grads[n][r] - (r % 2 == 0 ? sum.x : sum.y));
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::uint32_t word = device::pair_word(ds[2 * half], ds[2 * half + 1]);
        probabilities[n / 2][n % 2 * 2 + half] = device::pair_word(p[2 * half], p[2 * half + 1]);
        grad_scores[n / 2][n % 2 * 2 + half] = word;
        const int row = warp() * 16 + lane() / 4 + 8 * half;
        *reinterpret_cast<std::uint32_t*>(shared_ + Place::kScores +
                                          Scores::place(row, chunk / 8 + n) + lane() % 4 * 4) = word;
      }
    }
  }

  // dQ of 16 queries and half of the columns by each warp.
  static constexpr int kTilesOfQuery = D / 16;

  __device__ void write_grad_query(int block, int member, int tile) {
    const int query = tile * kQueries + warp() % 4 * 16;
    if (query >= unit_.num_queries) return;
    float sums[kTilesOfQuery][4] = {};
    const int first_chunk = warp() / 4 * kTilesOfQuery;
    const int last_key = min(query + 15 + before_, unit_.num_keys - 1) - block * kKeys;
    const int begin = has_first_keys() ? max(0, first_key(query) - block * kKeys) / 16 : 0;
    const int end = min(kKeys / 16, last_key / 16 + 1);
    for (int k = last_key < 0 ? end : begin; k < end; ++k) {
      std::uint32_t left[4];
      device::load_transposed(
          Scores::transposed_left(address_ + Place::kScores, 16 * k, warp() % 4 * 2), left);
      add_product(left, address_ + Place::kKey, 16 * k, sums, first_chunk);
    }
    if (first_block(tile) < block) add_partial(sums, member, tile);
    if (block < last_block(tile)) return write_partial(sums, member, tile);
    const std::int64_t row = unit_.first_query + query;
    auto* to = static_cast<Element*>(a_.grad_query) + row * a_.query_stride +
               query_head(member) * D + first_chunk * 8;
    write_rows(sums, a_.scale, to, a_.query_stride, unit_.num_queries - query);
  }

  // This thread's part of a tile in the workspace.
  __device__ float4* partial(int member, int tile) const {
    const std::int64_t at =
        std::int64_t{query_head(member)} * a_.num_tiles + unit_.first_tile + tile;
    return reinterpret_cast<float4*>(a_.workspace + at * (kQueries * D)) + threadIdx.x;
  }
  __device__ void add_partial(float (&sums)[kTilesOfQuery][4], int member, int tile) {
    const float4* from = partial(member, tile);
#pragma unroll
    for (int n = 0; n < kTilesOfQuery; ++n) {
      const float4 other = from[n * kThreads];
      sums[n][0] += other.x;
      sums[n][1] += other.y;
      sums[n][2] += other.z;
      sums[n][3] += other.w;
    }
  }
  __device__ void write_partial(const float (&sums)[kTilesOfQuery][4], int member, int tile) {
    float4* to = partial(member, tile);
#pragma unroll
    for (int n = 0; n < kTilesOfQuery; ++n) {
      to[n * kThreads] = {sums[n][0], sums[n][1], sums[n][2], sums[n][3]};
    }
  }

  __device__ void write_sums(const Sums<D>& sums, int block) {
    const int key = block * kKeys + warp() * 16;
    const std::int64_t stride = std::int64_t{a_.num_kv_heads} * D;
    const std::int64_t offset = (unit_.first_key + key) * stride + kv_head_ * D;
    const int present = unit_.num_keys - key;
    write_rows(sums.of_key, a_.scale, static_cast<Element*>(a_.grad_key) + offset, stride, present);
    write_rows(sums.of_value, 1.0F, static_cast<Element*>(a_.grad_value) + offset, stride, present);
  }

  // Writes 16 rows, of which `present` are there. Two lanes exchange words, so that each has four
  // columns that follow: 32 bytes of a row by four lanes.
  template <int kTiles>
  __device__ static void write_rows(const float (&sums)[kTiles][4], float factor, Element* to,
                                    std::int64_t stride, int present) {
    static_assert(kTiles % 2 == 0, "tiles are written by twos");
    const bool is_odd = threadIdx.x % 2 == 1;
    const int column = lane() % 4 / 2 * 4 + (is_odd ? 8 : 0);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane() / 4 + 8 * half;
#pragma unroll
      for (int n = 0; n < kTiles; n += 2) {
        const auto word = [&](int t) {
          return device::pair_word(factor * sums[t][2 * half], factor * sums[t][2 * half + 1]);
        };
        const std::uint32_t low = word(n);
        const std::uint32_t high = word(n + 1);
        const std::uint32_t other = __shfl_xor_sync(~0U, is_odd ? low : high, 1);
        const uint2 pair = is_odd ? uint2{other, high} : uint2{low, other};
        if (row < present) {
          *reinterpret_cast<uint2*>(to + row * stride + 8 * n + column) = pair;
        }
      }
    }
  }

  const ShortAttentionArguments& a_;
  unsigned char* shared_;
  std::uint32_t address_;
  AttentionUnit unit_;
  int kv_head_;
  int group_;
  int before_;  // keys before the first query's own
};

template <int D>
__global__ void __launch_bounds__(kThreads, 1)
    backward_kernel(const __grid_constant__ ShortAttentionArguments arguments) {
  extern __shared__ __align__(1024) unsigned char shared[];
  UnitBackward<D>(arguments, shared).run();
}

template <int D>
void launch(const ShortAttentionArguments& arguments, void* stream) {
  const auto kernel = backward_kernel<D>;
  constexpr int kBytes = Shared<D>::kBytes;
  PACKTRAIN_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const auto blocks = static_cast<unsigned>(arguments.num_units * arguments.num_kv_heads);
  if (blocks == 0) return;
  kernel<<<blocks, kThreads, kBytes, static_cast<cudaStream_t>(stream)>>>(arguments);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void launch_short_attention_backward(const ShortAttentionArguments& arguments, void* stream) {
  switch (arguments.head_dim) {
    case 64:
      return launch<64>(arguments, stream);
    case 96:
      return launch<96>(arguments, stream);
    default:
      return launch<128>(arguments, stream);
  }
}

}  // namespace packtrain

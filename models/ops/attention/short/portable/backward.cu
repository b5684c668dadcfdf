// Backward of attention over short sequences: one block of threads for all rows of a unit and one
// key head.
//
// For blocks of 128 keys, for each query head, for tiles of 64 queries that see these keys:
//    S^T = K Q^T, P^T = exp(scale S^T - logsumexp), dP^T = V dO^T, dS^T = P^T (dP^T - delta)
//    dV += P^T dO, dK += dS^T Q, dQ = dS K, with delta = sum(dO O) of each query.
// (FlashAttention-2's equations, Dao, arXiv 2307.08691). A warp has 16 keys. P^T and dS^T stay in
// its registers as left operands. dS^T also goes to shared memory for dQ. Its sums run
// over the keys of all warps. So dK and dV are written once, and dQ without atomics. With several
// blocks of keys, the same thread adds to the same place of the workspace. The result is
// deterministic.
#include "framework/device/cuda/check.h"
#include "models/ops/attention/short/launch.h"
#include "models/ops/attention/short/partial_sums.cuh"
#include "models/ops/attention/short/portable/tile_loader.cuh"
#include "models/ops/cuda/async_copy.cuh"
#include "models/ops/cuda/power_of_2.cuh"

namespace packtrain {
namespace {

using Element = __nv_bfloat16;

constexpr int kThreads = device::kPortableThreads;
constexpr int kKeys = kUnitKeys;
constexpr int kQueries = kUnitQueries;
constexpr int kChunk = 32;  // queries whose scores a warp has in registers

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
        loader_(a, shared),
        rows_(loader_.rows()) {}

  __device__ void run() {
    rows_.fill();
    for (int block = 0; block < rows_.num_key_blocks(); ++block) run_block(block);
  }

 private:
  using Place = device::PortableShared<D>;
  using Rows = typename Place::Rows;
  using Scores = typename Place::Scores;

  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ void run_block(int block) {
    const device::QueryTiles tiles = rows_.tiles_of(block);
    const int count = tiles.count() * rows_.group();
    Sums<D> sums = {};
    __syncthreads();  // the block before has read its keys
    loader_.load_keys(block);
    float statistic = INFINITY;
    if (count > 0) {
      loader_.load_queries(0, tiles.begin, 0);
      loader_.load_output(0, tiles.begin);
      statistic = loader_.load_statistic(0, tiles.begin);
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
      if (threadIdx.x < kQueries) loader_.statistics()[threadIdx.x] = statistic;
      if (i + 1 < count) {
        loader_.load_queries(next_member, next_tile, (i + 1) % 2);
        statistic = loader_.load_statistic(next_member, next_tile);
      }
      device::cp_async_commit_group();
      loader_.write_delta(i % 2);
      __syncthreads();  // the output has been read
      if (i + 1 < count) loader_.load_output(next_member, next_tile);
      device::cp_async_commit_group();
#pragma unroll
      for (int chunk = 0; chunk < kQueries; chunk += kChunk) {
        if (rows_.sees(tile * kQueries + chunk, kChunk, block * kKeys + warp() * 16, 16)) {
          add_chunk(block, tile, chunk, i % 2, sums);
        }
      }
      __syncthreads();  // dS^T of all warps is there
      write_grad_query(block, member, tile);
      member = next_member;
      tile = next_tile;
    }
    device::cp_async_wait_group<0>();
    write_sums(sums, block);
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
    const float factor = a_.scale * device::kLog2E;
#pragma unroll
    for (int n = 0; n < kChunk / 8; ++n) {
      const int column = chunk + 8 * n + 2 * (lane() % 4);
      const float2 statistic = *reinterpret_cast<const float2*>(loader_.statistics() + column);
      const float2 sum = *reinterpret_cast<const float2*>(loader_.delta() + column);
      const int query = tile * kQueries + column;
      const int first[2] = {rows_.has_first_keys() ? rows_.first_key(query) : 0,
                            rows_.has_first_keys() ? rows_.first_key(query + 1) : 0};
      float p[4];
      float ds[4];
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int of_key = key + r / 2 * 8;
        const bool visible = of_key <= query + r % 2 + rows_.before() && of_key >= first[r % 2];
        const float exponent = scores[n][r] * factor - (r % 2 == 0 ? statistic.x : statistic.y);
        p[r] = visible ? device::power_of_2(exponent) : 0;
        ds[r] = p[r] * (grads[n][r] - (r % 2 == 0 ? sum.x : sum.y));
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::uint32_t word = device::bfloat16_pair(ds[2 * half], ds[2 * half + 1]);
        probabilities[n / 2][n % 2 * 2 + half] =
            device::bfloat16_pair(p[2 * half], p[2 * half + 1]);
        grad_scores[n / 2][n % 2 * 2 + half] = word;
        const int row = warp() * 16 + lane() / 4 + 8 * half;
        *reinterpret_cast<std::uint32_t*>(
            shared_ + Place::kScores + Scores::place(row, chunk / 8 + n) + lane() % 4 * 4) = word;
      }
    }
  }

  // dQ of 16 queries and half of the columns by each warp.
  static constexpr int kTilesOfQuery = D / 16;

  __device__ void write_grad_query(int block, int member, int tile) {
    const int query = tile * kQueries + warp() % 4 * 16;
    if (query >= rows_.unit().num_queries) return;
    float sums[kTilesOfQuery][4] = {};
    const int first_chunk = warp() / 4 * kTilesOfQuery;
    const int last_key =
        min(query + 15 + rows_.before(), rows_.unit().num_keys - 1) - block * kKeys;
    const int begin =
        rows_.has_first_keys() ? max(0, rows_.first_key(query) - block * kKeys) / 16 : 0;
    const int end = min(kKeys / 16, last_key / 16 + 1);
    for (int k = last_key < 0 ? end : begin; k < end; ++k) {
      std::uint32_t left[4];
      device::load_transposed(
          Scores::transposed_left(address_ + Place::kScores, 16 * k, warp() % 4 * 2), left);
      add_product(left, address_ + Place::kKey, 16 * k, sums, first_chunk);
    }
    const device::PartialSums<kTilesOfQuery, kThreads> partial(rows_, member, tile,
                                                               static_cast<int>(threadIdx.x));
    if (rows_.first_block(tile) < block) {
#pragma unroll
      for (int n = 0; n < kTilesOfQuery; ++n) partial.add_to(sums[n], n);
    }
    if (block < rows_.last_block(tile)) {
#pragma unroll
      for (int n = 0; n < kTilesOfQuery; ++n) partial.write(sums[n], n);
      return;
    }
    const std::int64_t row = rows_.unit().first_query + query;
    auto* to = static_cast<Element*>(a_.grad_query) + row * a_.query_stride +
               rows_.query_head(member) * D + first_chunk * 8;
    write_rows(sums, a_.scale, to, a_.query_stride, rows_.unit().num_queries - query);
  }

  __device__ void write_sums(const Sums<D>& sums, int block) {
    const int key = block * kKeys + warp() * 16;
    const std::int64_t stride = std::int64_t{a_.num_kv_heads} * D;
    const std::int64_t offset = (rows_.unit().first_key + key) * stride + rows_.kv_head() * D;
    const int present = rows_.unit().num_keys - key;
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
          return device::bfloat16_pair(factor * sums[t][2 * half], factor * sums[t][2 * half + 1]);
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
  device::TileLoader<D> loader_;
  device::UnitRows rows_;
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
  constexpr int kBytes = device::PortableShared<D>::kBytes;
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

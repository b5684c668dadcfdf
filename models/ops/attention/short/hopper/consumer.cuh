// The warp groups that multiply: each has 64 keys of a block.
#pragma once

#include "models/ops/attention/short/hopper/layout.cuh"
#include "models/ops/attention/short/partial_sums.cuh"
#include "models/ops/cuda/hopper/tma.cuh"
#include "models/ops/cuda/power_of_2.cuh"

namespace packtrain::device {

template <int D>
class ShortConsumer {
 public:
  __device__ ShortConsumer(const ShortKernelArguments& arguments, ShortShared<D>& shared)
      : a_(arguments.rows),
        maps_(arguments.maps),
        shared_(shared),
        rows_{arguments.rows, shared.state} {}

  __device__ void run() {
    for (int block = 0; block < rows_.num_key_blocks(); ++block) run_block(block);
    if (stores()) tma_store_wait_read<0>();
  }

 private:
  using Shared = ShortShared<D>;
  using Keys = typename Shared::Keys;
  using Queries = typename Shared::Queries;
  using Scores = typename Shared::Scores;
  using Element = __nv_bfloat16;
  static constexpr int kKeys = kUnitKeys;
  static constexpr int kQueries = kUnitQueries;

  struct Sums {
    Accumulator<D> of_key;
    Accumulator<D> of_value;
  };
  // Left operands of 64 keys and 16 queries each.
  using Operands = std::uint32_t[kQueries / 16][4];

  __device__ static int thread() { return static_cast<int>(threadIdx.x) % kGroupThreads; }
  __device__ static int group() { return static_cast<int>(threadIdx.x) / kGroupThreads - 1; }
  __device__ static int lane() { return thread() % 32; }
  __device__ static bool stores() { return thread() == 0; }
  // The first row of an accumulator that this thread has, and of stmatrix.
  __device__ static int row() { return thread() / 32 * 16 + lane() / 4; }
  __device__ static int matrix_row() { return thread() / 32 * 16 + lane() % 16; }
  // The other consumers wait here too.
  __device__ static void barrier_of_groups() { asm volatile("bar.sync 1, 256;" ::: "memory"); }
  __device__ static void barrier_of_group() {
    asm volatile("bar.sync %0, 128;" ::"r"(group() + 2) : "memory");
  }

  __device__ void run_block(int block) {
    Sums sums = {};
    shared_.keys_ready.wait(block % 2);
    for (TileCursor at(rows_, block); at.left > 0; at.advance()) {
      const int stage = num_tiles_ % kStages;
      shared_.ready[stage].wait(num_tiles_ / kStages % 2);
      add_tile(block, at.tile, stage, sums);
      shared_.empty[stage].arrive();
      fence_proxy_async();
      barrier_of_groups();  // dS^T of both groups is there
      write_grad_query(block, at);
      ++num_tiles_;
    }
    shared_.keys_empty.arrive();
    write_sums(sums, block);
  }

  // Adds to dK and dV what the queries of a tile give, and writes their dS^T.
  __device__ void add_tile(int block, int tile, int stage, Sums& sums) {
    Accumulator<kQueries> scores;
    Accumulator<kQueries> grads;
    begin_scores(shared_.key, shared_.query[stage], scores);
    begin_scores(shared_.value, shared_.grad_output[stage], grads);
    Operands probabilities;
    warpgroup_wait<1>(scores);
    exponentiate(block, tile, shared_.numbers[stage], scores, probabilities);
    add_products(sums.of_value, probabilities, shared_.grad_output[stage]);
    warpgroup_wait<1>(grads);
    Operands grad_scores;
    differentiate(scores, grads, shared_.numbers[stage], grad_scores);
    add_products(sums.of_key, grad_scores, shared_.query[stage]);
    const std::uint32_t to = shared_address(shared_.grad_scores[num_tiles_ % 2]);
#pragma unroll
    for (int k = 0; k < kQueries / 16; ++k) {
      store_matrices(to + swizzled_offset(group() * kGroupKeys + matrix_row(), 2 * k + lane() / 16),
                     grad_scores[k]);
    }
    warpgroup_wait<0>(sums.of_value);
    warpgroup_fence_operand(sums.of_key);
    keep(probabilities);
    keep(grad_scores);
  }

  // Begins sums [64 keys, 64 queries] = this group's rows of `keys` times those of a tile.
  __device__ static void begin_scores(const unsigned char* keys, const unsigned char* queries,
                                      Accumulator<kQueries>& sums) {
    warpgroup_arrive(sums);
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      wgmma<Major::kK, Major::kK>(sums,
                                  Keys::by_columns(shared_address(keys), group() * kGroupKeys, k),
                                  Queries::by_columns(shared_address(queries), 0, k), k > 0);
    }
    warpgroup_commit_batch();
  }
  // Begins sums [64 keys, D] += left (64 keys, 64 queries) times rows of a tile.
  __device__ static void add_products(Accumulator<D>& sums, const Operands& left,
                                      const unsigned char* rows) {
    warpgroup_arrive(sums);
#pragma unroll
    for (int k = 0; k < kQueries / 16; ++k) {
      wgmma_rows<Major::kMN>(sums, left[k], Queries::by_rows(shared_address(rows), k));
    }
    warpgroup_commit_batch();
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
  __device__ void exponentiate(int block, int tile, const QueryNumbers& numbers,
                               Accumulator<kQueries>& scores, Operands& probabilities) const {
    const int key = block * kKeys + group() * kGroupKeys + row();
    const int last = tile * kQueries + rows_.before() + 2 * (lane() % 4);  // key of query 0
    const float factor = a_.scale * kLog2E;
#pragma unroll
    for (int n = 0; n < kQueries / 8; ++n) {
      const int column = 8 * n + 2 * (lane() % 4);
      const float2 statistic = *reinterpret_cast<const float2*>(numbers.statistics + column);
      const int2 first = *reinterpret_cast<const int2*>(numbers.first_keys + column);
      float* values = scores.values + 4 * n;
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int of_key = key + r / 2 * 8;
        const bool visible =
            of_key <= last + 8 * n + r % 2 && of_key >= (r % 2 == 0 ? first.x : first.y);
        const float exponent = values[r] * factor - (r % 2 == 0 ? statistic.x : statistic.y);
        values[r] = visible ? power_of_2(exponent) : 0;
      }
      probabilities[n / 2][n % 2 * 2] = bfloat16_pair(values[0], values[1]);
      probabilities[n / 2][n % 2 * 2 + 1] = bfloat16_pair(values[2], values[3]);
    }
  }
  __device__ static void differentiate(const Accumulator<kQueries>& probabilities,
                                       const Accumulator<kQueries>& grads,
                                       const QueryNumbers& numbers, Operands& grad_scores) {
#pragma unroll
    for (int n = 0; n < kQueries / 8; ++n) {
      const float2 sum = *reinterpret_cast<const float2*>(numbers.delta + 8 * n + 2 * (lane() % 4));
      const float* p = probabilities.values + 4 * n;
      const float* g = grads.values + 4 * n;
      grad_scores[n / 2][n % 2 * 2] = bfloat16_pair(p[0] * (g[0] - sum.x), p[1] * (g[1] - sum.y));
      grad_scores[n / 2][n % 2 * 2 + 1] =
          bfloat16_pair(p[2] * (g[2] - sum.x), p[3] * (g[3] - sum.y));
    }
  }

  // Computes dQ of a tile, 64 columns by each group, and writes it.
  __device__ void write_grad_query(int block, const TileCursor& at) {
    Accumulator<64> grad;
    const int panel = group() % (D / 64);
    const std::uint32_t scores = shared_address(shared_.grad_scores[num_tiles_ % 2]);
    warpgroup_arrive(grad);
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      wgmma<Major::kMN, Major::kMN>(grad, Scores::by_rows(scores, k),
                                    Keys::by_rows(shared_address(shared_.key), k, panel), k > 0);
    }
    warpgroup_commit_batch();
    warpgroup_wait<0>(grad);
    if (group() >= D / 64) return;
    const PartialSums<8, 2 * D> partial(rows_, at.member, at.tile,
                                        group() * kGroupThreads + thread());
    if (rows_.first_block(at.tile) < block) {
#pragma unroll
      for (int n = 0; n < 8; ++n) partial.add_to(grad.values + 4 * n, n);
    }
    if (block < rows_.last_block(at.tile)) {
#pragma unroll
      for (int n = 0; n < 8; ++n) partial.write(grad.values + 4 * n, n);
      return;
    }
    const int query = at.tile * kQueries;
    const int present = rows_.unit().num_queries - query;
    if (present >= kQueries) return store_tile(grad, at);
    const std::int64_t first = rows_.unit().first_query + query + row();
    auto* to = static_cast<Element*>(a_.grad_query) + first * a_.query_stride +
               rows_.query_head(at.member) * D + group() * 64;
    write_rows(grad, a_.scale, to, a_.query_stride, present - row());
  }

  // Writes 64 rows and columns by a copy that no thread waits for.
  __device__ void store_tile(const Accumulator<64>& grad, const TileCursor& at) {
    unsigned char* const panel = shared_.grad_query + group() * Queries::kPanelBytes;
    if (stores()) tma_store_wait_read<0>();
    barrier_of_group();  // the copy before has read its panel
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      std::uint32_t words[4];
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const float* values = grad.values + 8 * k + 2 * w;
        words[w] = bfloat16_pair(a_.scale * values[0], a_.scale * values[1]);
      }
      store_matrices(shared_address(panel) + swizzled_offset(matrix_row(), 2 * k + lane() / 16),
                     words);
    }
    fence_proxy_async();
    barrier_of_group();
    if (!stores()) return;
    tma_store_2d(maps_.grad_query, rows_.query_head(at.member) * D + group() * 64,
                 rows_.unit().first_query + at.tile * kQueries, panel);
    tma_store_commit();
  }

  __device__ void write_sums(const Sums& sums, int block) {
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
          words[w] = bfloat16_pair(factor * values[0], factor * values[1]);
        }
        shuffle_words(words);
        if (8 * half < present) {
          *reinterpret_cast<uint4*>(to + 8 * half * stride + 8 * (n + lane() % 4)) = {
              words[0], words[1], words[2], words[3]};
        }
      }
    }
  }

  const ShortAttentionArguments& a_;
  const ShortMaps& maps_;
  Shared& shared_;
  UnitRows rows_;
  int num_tiles_ = 0;  // done
};

}  // namespace packtrain::device

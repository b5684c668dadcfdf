// Gradients of queries, for heads of 512 elements. A block of threads has a tile of queries of one
// head, and reads tiles of 32 keys:
//    P = exp(scale Q K^T - logsumexp), dP = dO V^T, dS = P (dP - delta), dQ += scale dS K,
// with delta = sum(dO O) of each query, which it also writes for the kernel of keys
// (FlashAttention-2, Dao, arXiv 2307.08691). Four warps compute P and four dP. Then each has
// columns of dQ in registers, and dS passes through shared memory.
#include "models/ops/attention/wide/rows.cuh"
#include "models/ops/cuda/warp_sum.cuh"

namespace packtrain {
namespace {

using device::WideElement;
using device::WideRows;

constexpr int kKeys = 32;

template <int kQueries>
struct QueryShared {
  using Scores = device::MatrixTile<kKeys>;
  static constexpr int kQuery = 0;
  static constexpr int kGradOutput = kQuery + kQueries * WideRows::kRowBytes;
  static constexpr int kKey = kGradOutput + kQueries * WideRows::kRowBytes;
  static constexpr int kValue = kKey + kKeys * WideRows::kRowBytes;
  static constexpr int kScores = kValue + kKeys * WideRows::kRowBytes;
  static constexpr int kWeights = kScores + kQueries * Scores::kRowBytes;  // P, float32
  static constexpr int kStatistics = kWeights + kQueries * kKeys * 4;
  static constexpr int kDelta = kStatistics + kQueries * 4;
  static constexpr int kBytes = kDelta + kQueries * 4;
};

template <int kQueries>
class QueryGradients {
 public:
  static constexpr int kSharedBytes = QueryShared<kQueries>::kBytes;
  static constexpr int kTileRows = kQueries;

  __device__ QueryGradients(const WideAttentionArguments& a, unsigned char* shared)
      : a_(a),
        shared_(shared),
        address_(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))) {}

  __device__ void run() {
    at_ = device::find_tile(a_, a_.cu_queries, kQueries,
                            static_cast<int>(gridDim.x - 1 - blockIdx.x));
    first_ = at_.tile * kQueries;
    if (first_ >= at_.num_queries) return;
    end_ = min(first_ + kQueries, at_.num_queries) + at_.before();
    const int first = a_.window > 0 ? max(0, first_ + at_.before() - a_.window + 1) : 0;
    const int begin = first / kKeys * kKeys;
    load_queries();
    load_keys(a_.key, begin, Place::kKey);
    load_keys(a_.value, begin, Place::kValue);
    write_statistics();
    for (int key = begin; key < end_; key += kKeys) add_keys(key);
    write();
  }

 private:
  using Place = QueryShared<kQueries>;
  using Scores = typename Place::Scores;
  // Scores of a warp: 16 rows by 16 kPairs keys. Gradients of a warp: 32 rows by 16 kColumns.
  static constexpr int kRowGroups = kQueries / 16;
  static constexpr int kPairs = kKeys / 16 * kRowGroups / 4;
  static constexpr int kColumns = kWideHeadDim / 16 * (kQueries / 32) / device::kWideWarps;

  __device__ static bool has_weights() { return device::wide_warp() < 4; }
  __device__ static int score_row() { return device::wide_warp() % 4 % kRowGroups * 16; }
  __device__ static int score_column() {
    return device::wide_warp() % 4 / kRowGroups * (16 * kPairs);
  }
  __device__ static int gradient_row() {
    return device::wide_warp() * kColumns / (kWideHeadDim / 16) * 32;
  }
  __device__ static int gradient_chunk() {
    return device::wide_warp() * kColumns % (kWideHeadDim / 16) * 2;
  }
  __device__ float* floats(int place) const { return reinterpret_cast<float*>(shared_ + place); }
  __device__ int head() const { return static_cast<int>(blockIdx.y); }
  __device__ std::int64_t dense_stride() const { return std::int64_t{a_.num_heads} * kWideHeadDim; }

  __device__ void load_queries() {
    const device::WideSource query =
        device::wide_source(a_.query, at_.first_query, a_.query_stride, head(), at_.num_queries);
    device::load_wide_rows<kQueries>(query, first_, shared_ + Place::kQuery);
    const device::WideSource grad = device::wide_source(a_.grad_output, at_.first_query,
                                                        dense_stride(), head(), at_.num_queries);
    device::load_wide_rows<kQueries>(grad, first_, shared_ + Place::kGradOutput);
    device::cp_async_commit_group();
  }

  // Reads the logsumexps, and sums dO O of each row by one warp.
  __device__ void write_statistics() {
    device::cp_async_wait_group<0>();
    __syncthreads();
    const auto* output = static_cast<const WideElement*>(a_.output);
    for (int row = device::wide_warp(); row < kQueries; row += device::kWideWarps) {
      const bool present = first_ + row < at_.num_queries;
      const std::int64_t place =
          (std::int64_t{at_.first_query} + first_ + row) * a_.num_heads + head();
      float sum = 0;
      for (int chunk = device::wide_lane(); present && chunk < WideRows::kChunks; chunk += 32) {
        float y[8];
        float g[8];
        device::load(output + place * kWideHeadDim + chunk * 8, y);
        device::load(reinterpret_cast<const WideElement*>(shared_ + Place::kGradOutput +
                                                          WideRows::place(row, chunk)),
                     g);
#pragma unroll
        for (int c = 0; c < 8; ++c) sum += y[c] * g[c];
      }
      sum = device::warp_sum(sum);
      if (device::wide_lane() != 0) continue;
      floats(Place::kDelta)[row] = sum;
      floats(Place::kStatistics)[row] = present ? device::kLog2E * a_.logsumexp[place] : INFINITY;
      if (present) a_.delta[place] = sum;
    }
  }

  __device__ void load_keys(const void* tensor, int key, int place) {
    if (key < end_) {
      const int kv_head = head() / (a_.num_heads / a_.num_kv_heads);
      const device::WideSource keys =
          device::wide_source(tensor, at_.first_key, a_.key_stride, kv_head, at_.num_keys);
      device::load_wide_rows<kKeys>(keys, key, shared_ + place);
    }
    device::cp_async_commit_group();
  }

  __device__ void add_keys(int key) {
    device::cp_async_wait_group<0>();
    __syncthreads();  // keys, values and statistics are there
    float scores[1][2 * kPairs][4] = {};
    const int left = has_weights() ? Place::kQuery : Place::kGradOutput;
    const int right = has_weights() ? Place::kKey : Place::kValue;
    device::multiply_wide_rows<1, kPairs>(address_ + left, score_row(), address_ + right,
                                          score_column(), scores);
    differentiate(key, scores[0]);
    load_keys(a_.value, key + kKeys, Place::kValue);
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      device::add_wide_rows<Scores>(address_ + Place::kScores, gradient_row(), 2 * k,
                                    address_ + Place::kKey, 16 * k, gradient_chunk(), sums_);
    }
    __syncthreads();  // the keys were read
    load_keys(a_.key, key + kKeys, Place::kKey);
  }

  // Writes dS. The warps with P give theirs to those with dP, which have the same rows and keys.
  __device__ void differentiate(int key, const float (&scores)[2 * kPairs][4]) {
    const int row = score_row() + device::wide_lane() / 4;
    const int column = score_column() + device::wide_lane() % 4 * 2;
    const int distance = first_ + at_.before() + row - key - column;
    auto* const weights = reinterpret_cast<float4*>(shared_ + Place::kWeights) +
                          (device::wide_warp() % 4 * 2 * kPairs) * 32 + device::wide_lane();
    if (has_weights()) {
      const float* const statistics = floats(Place::kStatistics) + row;
#pragma unroll
      for (int n = 0; n < 2 * kPairs; ++n) {
        const auto weight = [&](int r) {
          return device::wide_weight(a_, scores[n][r], distance + r / 2 * 8 - 8 * n - r % 2,
                                     statistics[r / 2 * 8]);
        };
        weights[32 * n] = {weight(0), weight(1), weight(2), weight(3)};
      }
    }
    __syncthreads();  // P is there, and the values were read
    if (!has_weights()) write_grad_scores(scores, weights);
    __syncthreads();
  }

  __device__ void write_grad_scores(const float (&grads)[2 * kPairs][4], const float4* weights) {
    const int row = score_row() + device::wide_lane() / 4;
    const float delta[2] = {floats(Place::kDelta)[row], floats(Place::kDelta)[row + 8]};
    unsigned char* const to = shared_ + Place::kScores + device::wide_lane() % 4 * 4;
#pragma unroll
    for (int n = 0; n < 2 * kPairs; ++n) {
      const float4 p = weights[32 * n];
      const int chunk = score_column() / 8 + n;
      *reinterpret_cast<std::uint32_t*>(to + Scores::place(row, chunk)) =
          device::bfloat16_pair(p.x * (grads[n][0] - delta[0]), p.y * (grads[n][1] - delta[0]));
      *reinterpret_cast<std::uint32_t*>(to + Scores::place(row + 8, chunk)) =
          device::bfloat16_pair(p.z * (grads[n][2] - delta[1]), p.w * (grads[n][3] - delta[1]));
    }
  }

  __device__ void write() const {
    const float factor[2] = {a_.scale, a_.scale};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int begin = first_ + gradient_row() + 16 * i;
      auto* to = static_cast<WideElement*>(a_.grad_query) +
                 (at_.first_query + begin) * dense_stride() + head() * kWideHeadDim +
                 gradient_chunk() * 8;
      device::write_wide_rows(sums_[i], factor, to, dense_stride(), at_.num_queries - begin);
    }
  }

  const WideAttentionArguments& a_;
  unsigned char* shared_;
  std::uint32_t address_;
  device::WideTile at_;
  int first_ = 0;  // query of the tile
  int end_ = 0;    // of the keys that it sees
  float sums_[2][2 * kColumns][4] = {};
};

}  // namespace

void launch_wide_attention_backward_queries(const WideAttentionArguments& arguments, void* stream) {
  using Small = QueryGradients<32>;
  using Large = QueryGradients<64>;
  static_assert(Small::kSharedBytes <= kSmallWideSharedBytes);
  static_assert(Large::kSharedBytes <= kWideSharedBytes);
  const auto launch = arguments.is_small ? device::launch_wide<Small> : device::launch_wide<Large>;
  launch(arguments, arguments.num_rows, arguments.num_heads, stream);
}

}  // namespace packtrain

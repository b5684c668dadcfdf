// Gradients of keys and values, for heads of 512 elements. A block of threads has 32 keys of one
// key head. It reads tiles of 32 queries of each query head that shares them. The sums of all stay
// in its registers, so that none is added by atomics:
//    P^T = exp(scale K Q^T - logsumexp), dP^T = V dO^T, dS^T = P^T (dP^T - delta)
//    dV += P^T dO, dK += scale dS^T Q
// (FlashAttention-2, Dao, arXiv 2307.08691). Four warps compute P^T and four dP^T. Then each has 64
// columns of dK and dV, and P^T and dS^T pass through shared memory.
#include "models/ops/attention/wide/rows.cuh"

namespace packtrain {
namespace {

using device::WideElement;
using device::WideRows;

constexpr int kKeys = 32;
constexpr int kQueries = 32;  // of a tile

template <int kStages>
struct KeyShared {
  using Scores = device::MatrixTile<kQueries>;
  static constexpr int kRowsBytes = kQueries * WideRows::kRowBytes;
  static constexpr int kScoresBytes = kKeys * Scores::kRowBytes;
  static constexpr int kKey = 0;
  static constexpr int kValue = kKey + kKeys * WideRows::kRowBytes;
  static constexpr int kQuery = kValue + kKeys * WideRows::kRowBytes;  // one a stage
  static constexpr int kGradOutput = kQuery + kStages * kRowsBytes;    // one a stage
  static constexpr int kGradScores = kGradOutput + kStages * kRowsBytes;
  static constexpr int kWeights = kGradScores + kScoresBytes;    // P^T, bfloat16
  static constexpr int kExactWeights = kWeights + kScoresBytes;  // P^T, float32
  static constexpr int kStatistics = kExactWeights + kKeys * kQueries * 4;
  static constexpr int kDelta = kStatistics + kStages * kQueries * 4;
  static constexpr int kBytes = kDelta + kStages * kQueries * 4;
};

// Queries [begin, begin + kQueries) of a query head.
struct Queries {
  int member = 0;  // of the query heads that share the key head
  int begin = 0;
};

template <int kStages>
class KeyGradients {
 public:
  static constexpr int kSharedBytes = KeyShared<kStages>::kBytes;
  static constexpr int kTileRows = kKeys;

  __device__ KeyGradients(const WideAttentionArguments& a, unsigned char* shared)
      : a_(a),
        shared_(shared),
        address_(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))) {}

  __device__ void run() {
    at_ = device::find_tile(a_, a_.cu_keys, kKeys, static_cast<int>(blockIdx.x));
    first_ = at_.tile * kKeys;
    if (first_ >= at_.num_keys) return;
    find_queries();
    load_keys();
    const int count = num_tiles_ * (a_.num_heads / a_.num_kv_heads);
    for (int i = 0; i < kStages; ++i) load_queries(i, count);
    for (int i = 0; i < count; ++i) {
      device::cp_async_wait_group<kStages - 1>();
      __syncthreads();  // the queries are there
      add_queries(queries_of(i), i % kStages);
      __syncthreads();  // they were read
      load_queries(i + kStages, count);
    }
    device::cp_async_wait_group<0>();
    write();
  }

 private:
  using Place = KeyShared<kStages>;
  using Scores = typename Place::Scores;
  static constexpr int kColumns = kWideHeadDim / 16 / device::kWideWarps;  // by 16, of a warp

  __device__ static bool has_weights() { return device::wide_warp() < 4; }
  __device__ static int score_row() { return device::wide_warp() % 2 * 16; }
  __device__ static int score_column() { return device::wide_warp() / 2 % 2 * 16; }
  __device__ static int gradient_chunk() { return device::wide_warp() * kColumns * 2; }
  __device__ float* floats(int place) const { return reinterpret_cast<float*>(shared_ + place); }
  __device__ int kv_head() const { return static_cast<int>(blockIdx.y); }
  __device__ int head(const Queries& queries) const {
    return kv_head() * (a_.num_heads / a_.num_kv_heads) + queries.member;
  }

  // The queries that see any of the keys. A sequence may have none, when the keys are a prefix.
  __device__ void find_queries() {
    const int last_key = min(first_ + kKeys, at_.num_keys) - 1;
    const int after = last_key - at_.before() + a_.window;  // the first that is too far
    const int end = a_.window > 0 ? min(at_.num_queries, max(after, 0)) : at_.num_queries;
    begin_ = max(0, first_ - at_.before()) / kQueries * kQueries;
    num_tiles_ = end > begin_ ? (end - begin_ + kQueries - 1) / kQueries : 0;
  }
  __device__ Queries queries_of(int i) const {
    return {i / num_tiles_, begin_ + i % num_tiles_ * kQueries};
  }

  __device__ void load_keys() {
    const auto keys_of = [&](const void* tensor) {
      return device::wide_source(tensor, at_.first_key, a_.key_stride, kv_head(), at_.num_keys);
    };
    device::load_wide_rows<kKeys>(keys_of(a_.key), first_, shared_ + Place::kKey);
    device::load_wide_rows<kKeys>(keys_of(a_.value), first_, shared_ + Place::kValue);
  }

  // Starts copies of tile i, if there is one, to its stage. Statistics of rows after the last let
  // their weights be 0.
  __device__ void load_queries(int i, int count) {
    if (i < count) {
      const Queries queries = queries_of(i);
      const int stage = i % kStages;
      const auto rows_of = [&](const void* tensor, std::int64_t stride) {
        return device::wide_source(tensor, at_.first_query, stride, head(queries), at_.num_queries);
      };
      device::load_wide_rows<kQueries>(rows_of(a_.query, a_.query_stride), queries.begin,
                                       shared_ + Place::kQuery + stage * Place::kRowsBytes);
      device::load_wide_rows<kQueries>(
          rows_of(a_.grad_output, std::int64_t{a_.num_heads} * kWideHeadDim), queries.begin,
          shared_ + Place::kGradOutput + stage * Place::kRowsBytes);
      load_statistics(queries, stage);
    }
    device::cp_async_commit_group();
  }
  __device__ void load_statistics(const Queries& queries, int stage) {
    const int row = static_cast<int>(threadIdx.x);
    if (row >= kQueries) return;
    const bool present = queries.begin + row < at_.num_queries;
    const std::int64_t place =
        (std::int64_t{at_.first_query} + queries.begin + row) * a_.num_heads + head(queries);
    floats(Place::kStatistics)[stage * kQueries + row] =
        present ? device::kLog2E * a_.logsumexp[place] : INFINITY;
    floats(Place::kDelta)[stage * kQueries + row] = present ? a_.delta[place] : 0;
  }

  __device__ void add_queries(const Queries& queries, int stage) {
    const std::uint32_t query = address_ + Place::kQuery + stage * Place::kRowsBytes;
    const std::uint32_t grad_output = address_ + Place::kGradOutput + stage * Place::kRowsBytes;
    float scores[1][2][4] = {};
    device::multiply_wide_rows<1, 1>(address_ + (has_weights() ? Place::kKey : Place::kValue),
                                     score_row(), has_weights() ? query : grad_output,
                                     score_column(), scores);
    differentiate(queries, stage, scores[0]);
#pragma unroll
    for (int k = 0; k < kQueries / 16; ++k) {
      device::add_wide_rows<Scores>(address_ + Place::kWeights, 0, 2 * k, grad_output, 16 * k,
                                    gradient_chunk(), of_value_);
      device::add_wide_rows<Scores>(address_ + Place::kGradScores, 0, 2 * k, query, 16 * k,
                                    gradient_chunk(), of_key_);
    }
  }

  // Writes P^T and dS^T. The warps with P^T give theirs to those with dP^T of the same places.
  __device__ void differentiate(const Queries& queries, int stage, const float (&scores)[2][4]) {
    const int row = score_row() + device::wide_lane() / 4;
    const int column = score_column() + device::wide_lane() % 4 * 2;
    const int distance = queries.begin + at_.before() + column - first_ - row;
    auto* const exact = reinterpret_cast<float4*>(shared_ + Place::kExactWeights) +
                        device::wide_warp() % 4 * 64 + device::wide_lane();
    const float* const statistics = floats(Place::kStatistics) + stage * kQueries + column;
    if (has_weights()) {
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const auto weight = [&](int r) {
          return device::wide_weight(a_, scores[n][r], distance + 8 * n + r % 2 - r / 2 * 8,
                                     statistics[8 * n + r % 2]);
        };
        const float4 p = {weight(0), weight(1), weight(2), weight(3)};
        exact[32 * n] = p;
        write_scores(Place::kWeights, n, p);
      }
    }
    __syncthreads();  // P^T is there
    if (!has_weights()) {
      const float* const delta = floats(Place::kDelta) + stage * kQueries + column;
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const float4 p = exact[32 * n];
        const float first = delta[8 * n];
        const float second = delta[8 * n + 1];
        write_scores(Place::kGradScores, n,
                     {p.x * (scores[n][0] - first), p.y * (scores[n][1] - second),
                      p.z * (scores[n][2] - first), p.w * (scores[n][3] - second)});
      }
    }
    __syncthreads();
  }
  __device__ void write_scores(int place, int n, const float4& values) {
    const int row = score_row() + device::wide_lane() / 4;
    const int chunk = score_column() / 8 + n;
    unsigned char* const to = shared_ + place + device::wide_lane() % 4 * 4;
    *reinterpret_cast<std::uint32_t*>(to + Scores::place(row, chunk)) =
        device::bfloat16_pair(values.x, values.y);
    *reinterpret_cast<std::uint32_t*>(to + Scores::place(row + 8, chunk)) =
        device::bfloat16_pair(values.z, values.w);
  }

  __device__ void write() const {
    const std::int64_t stride = std::int64_t{a_.num_kv_heads} * kWideHeadDim;
    const std::int64_t place =
        (at_.first_key + first_) * stride + kv_head() * kWideHeadDim + gradient_chunk() * 8;
    const float factors[2][2] = {{a_.scale, a_.scale}, {1, 1}};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int present = at_.num_keys - first_ - 16 * i;
      device::write_wide_rows(of_key_[i], factors[0],
                              static_cast<WideElement*>(a_.grad_key) + place + 16 * i * stride,
                              stride, present);
      device::write_wide_rows(of_value_[i], factors[1],
                              static_cast<WideElement*>(a_.grad_value) + place + 16 * i * stride,
                              stride, present);
    }
  }

  const WideAttentionArguments& a_;
  unsigned char* shared_;
  std::uint32_t address_;
  device::WideTile at_;
  int first_ = 0;  // key of the tile
  int begin_ = 0;  // the first query that sees any
  int num_tiles_ = 0;
  float of_key_[2][2 * kColumns][4] = {};
  float of_value_[2][2 * kColumns][4] = {};
};

}  // namespace

void launch_wide_attention_backward_keys(const WideAttentionArguments& arguments, void* stream) {
  using Small = KeyGradients<1>;
  using Large = KeyGradients<2>;
  static_assert(Small::kSharedBytes <= kSmallWideSharedBytes);
  static_assert(Large::kSharedBytes <= kWideSharedBytes);
  const auto launch = arguments.is_small ? device::launch_wide<Small> : device::launch_wide<Large>;
  launch(arguments, arguments.num_keys, arguments.num_kv_heads, stream);
}

}  // namespace packtrain

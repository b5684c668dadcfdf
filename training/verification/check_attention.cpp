#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/random.h"
#include "framework/data/attention_pattern.h"
#include "framework/data/attention_segment.h"
#include "models/layers/layer_attention.h"
#include "models/ops/attention/attention.h"
#include "training/setup/run_device.h"
#include "training/steps/upload.h"
#include "training/verification/checks.h"

namespace packtrain {
namespace {

constexpr std::int32_t kProbeTokens = 48;  // of each example: both fit into the collators' 128 rows

// Two adjacent pieces of a micro-batch, joined ones if there are any. Without adjacent pieces, the
// step's first piece twice.
MicroBatch find_neighbours(const VerifiedStep& step) {
  MicroBatch found;
  for (const auto& micro_batches : step.plan.ranks) {
    for (const MicroBatch& pieces : micro_batches) {
      if (found.empty() && !pieces.empty()) found = {pieces.front(), pieces.front()};
      for (std::size_t p = 1; p < pieces.size(); ++p) {
        const bool is_first_pair = found.front() == found.back();
        if (is_first_pair || pieces[p].joined) found = {pieces[p - 1], pieces[p]};
        if (pieces[p].joined) return found;
      }
    }
  }
  return found;
}

// The first kProbeTokens tokens of both pieces.
MicroBatch probe_pieces(const VerifiedStep& step) {
  MicroBatch probe = find_neighbours(step);
  for (Piece& piece : probe) {
    if (piece.length <= kProbeTokens) continue;
    piece.length = kProbeTokens;
    piece.continues = false;
  }
  return probe;
}

at::Tensor random_queries_and_keys(std::int64_t num_rows, const AttentionShape& shape) {
  at::Tensor values =
      at::zeros({num_rows, shape.num_heads + shape.num_kv_heads, shape.head_dim}, at::kFloat);
  const CounterRandom random(0, "verification.attention");
  auto* data = values.data_ptr<float>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    data[i] = static_cast<float>(random.normal(static_cast<std::uint64_t>(i)));
  }
  return values;
}

// Values for columns begin .. begin + head_dim - 1. A token's value is 1 in its own column, so the
// output equals these columns of the matrix of attention weights.
at::Tensor one_hot_values(std::int64_t num_rows, std::int64_t begin, const AttentionShape& shape) {
  at::Tensor values = at::zeros({num_rows, shape.num_kv_heads, shape.head_dim}, at::kFloat);
  const std::int64_t end = std::min(begin + shape.head_dim, num_rows);
  for (std::int64_t row = begin; row < end; ++row) {
    values.select(0, row).select(1, row - begin).fill_(1.0);
  }
  return values;
}

// float32 [num_rows, num_heads, num_rows] on the host. weights[t, h, s]: attention weight of query
// t for key s in head h.
at::Tensor attention_weights(DeviceBatch& batch, const AttentionShape& shape, at::ScalarType type) {
  const at::NoGradGuard no_grad;
  const std::int64_t num_rows = batch.input_ids.numel();
  const at::Tensor queries_and_keys = random_queries_and_keys(num_rows, shape);
  std::vector<at::Tensor> columns;
  for (std::int64_t begin = 0; begin < num_rows; begin += shape.head_dim) {
    const at::Tensor qkv = at::cat({queries_and_keys, one_hot_values(num_rows, begin, shape)}, 1)
                               .to(batch.input_ids.device(), type);
    columns.push_back(attention_forward(qkv, shape, batch)
                          .y.view({num_rows, shape.num_heads, shape.head_dim})
                          .to(at::kCPU, at::kFloat));
  }
  return at::cat(columns, 2).narrow(2, 0, num_rows).contiguous();
}

class WeightsCheck {
 public:
  WeightsCheck(const VerifiedModel& subject, const MicroBatch& pieces, const at::Tensor& weights,
               const AttentionPattern& pattern, CheckResult& result)
      : subject_(subject),
        pieces_(pieces),
        planned_(planned_rows(pieces, subject.config.batch)),
        weights_(weights),
        pattern_(pattern),
        result_(result) {}

  void run() {
    for (std::size_t p = 0; p < pieces_.size(); ++p) {
      for (std::int32_t token = 0; token < pieces_[p].length; ++token) {
        for (std::int64_t head = 0; head < weights_.size(1); ++head) check_token(p, token, head);
      }
    }
  }

 private:
  void check_token(std::size_t p, std::int32_t token, std::int64_t head) {
    const AttentionSegment segment = planned_.segment(p);
    const std::int64_t row = segment.rows.begin + token;
    const std::int64_t num_rows = weights_.size(2);
    const float* weights =
        weights_.const_data_ptr<float>() + (row * weights_.size(1) + head) * num_rows;
    double sum = 0;
    for (std::int64_t other = 0; other < num_rows; ++other) {
      ++result_.num_cases;
      sum += weights[other];
      const bool visible = segment.sees(row, other, pattern_);
      if (!visible) result_.note_error("hidden weight", std::abs(weights[other]), "");
      if (visible ? weights[other] > 0 : weights[other] == 0) continue;
      report(p, token, head, other, weights[other]);
    }
    result_.note_error("sum", std::abs(sum - 1), fmt::format("{}head {}", layers(), head));
    if (std::abs(sum - 1) <= tolerances_of(subject_.config.precision).attention_sum) return;
    result_.fail(fmt::format("{}head {}: the attention weights of token {} of {} sum to {:.6g}",
                             layers(), head, token, describe(pieces_[p], subject_.store), sum));
  }

  // Reports one failure for each pair of examples.
  void report(std::size_t p, std::int32_t token, std::int64_t head, std::int64_t other,
              float weight) {
    const std::int64_t owner = planned_.piece_at(other, pieces_);
    if (!reported_.insert({p, owner}).second) return;
    const std::string target =
        owner < 0 ? fmt::format("padding (row {})", other)
                  : fmt::format("token {} of {}",
                                other - planned_.first_row[static_cast<std::size_t>(owner)],
                                describe(pieces_[static_cast<std::size_t>(owner)], subject_.store));
    result_.fail(fmt::format("{}head {}: token {} of {} gives {} the attention weight {:.3g}",
                             layers(), head, token, describe(pieces_[p], subject_.store), target,
                             weight));
  }

  std::string layers() const {
    return pattern_.is_full() ? "" : fmt::format("layers with a window of {}, ", pattern_.window);
  }

  const VerifiedModel& subject_;
  const MicroBatch& pieces_;
  PlannedRows planned_;
  at::Tensor weights_;
  AttentionPattern pattern_;  // of the checked layers
  CheckResult& result_;
  std::set<std::pair<std::size_t, std::int64_t>> reported_;
};

}  // namespace

CheckResult check_attention(const VerifiedModel& subject, const VerifiedStep& step,
                            Device& device) {
  CheckResult result{.name = "attention",
                     .claim = "attention weights across examples are 0",
                     .case_name = "weights",
                     .same_on_every_rank = true,
                     .errors = {{"hidden weight"}, {"sum"}}};
  const MicroBatch pieces = probe_pieces(step);
  const PackedBatch packed = subject.collate(subject.store, pieces, step.normalization);
  const auto stream = device.make_stream(StreamKind::kCompute);
  for (const AttentionShape& shape : distinct_attentions(subject.decoder)) {
    at::Tensor weights;
    stream->run([&](StreamHandle) {
      DeviceBatch batch = upload(packed, device);
      weights = attention_weights(batch, shape, scalar_type(subject.config.precision.compute));
    });
    WeightsCheck(subject, pieces, weights, shape.pattern, result).run();
  }
  return result;
}

}  // namespace packtrain

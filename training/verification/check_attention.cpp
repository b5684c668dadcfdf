#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
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
constexpr std::int64_t kProbedRows = 256;  // of groups, which are probed whole

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
  for (Piece& piece : found) piece.with_previous = false;
  return found;
}

std::int64_t num_rows(std::span<const Piece> pieces) {
  std::int64_t sum = 0;
  for (const Piece& piece : pieces) sum += piece.length;
  return sum;
}

// The shared rows and first two examples of the smallest two groups that share rows. One group
// twice where there is no other. Empty without such groups.
MicroBatch find_groups(const VerifiedStep& step) {
  std::vector<MicroBatch> groups;
  for (const auto& micro_batches : step.plan.ranks) {
    for (const MicroBatch& pieces : micro_batches) {
      for_each_unit(pieces, [&](std::span<const Piece> unit) {
        constexpr std::size_t kPieces = 3;
        if (!unit.front().is_prefix || unit.size() < kPieces) return;
        groups.emplace_back(unit.begin(), unit.begin() + kPieces);
      });
    }
  }
  if (groups.empty()) return {};
  std::ranges::stable_sort(groups, {}, [](const MicroBatch& group) { return num_rows(group); });
  MicroBatch found = groups.front();
  const MicroBatch& second = groups[std::min<std::size_t>(1, groups.size() - 1)];
  found.insert(found.end(), second.begin(), second.end());
  return found;
}

// Pieces that share no rows are cut to kProbeTokens tokens. Examples of groups keep all labels.
MicroBatch probe_pieces(const VerifiedStep& step) {
  MicroBatch probe = find_groups(step);
  if (!probe.empty()) return probe;
  probe = find_neighbours(step);
  for (Piece& piece : probe) {
    if (piece.length <= kProbeTokens) continue;
    piece.length = kProbeTokens;
    piece.continues = false;
  }
  return probe;
}

// Rows whose weights are checked: all of short pieces, else evenly spaced ones.
std::vector<std::int64_t> probed_rows(const MicroBatch& pieces, const PlannedRows& planned) {
  const std::int64_t step = std::max<std::int64_t>(1, num_rows(pieces) / kProbedRows);
  std::vector<std::int64_t> rows;
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    for (std::int64_t token = 0; token < pieces[p].length; token += step) {
      rows.push_back(planned.first_row[p] + token);
    }
  }
  return rows;
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

// float32 [rows, num_heads, num_rows] on the host. weights[i, h, s]: attention weight of query
// rows[i] for key s in head h.
at::Tensor attention_weights(DeviceBatch& batch, const std::vector<std::int64_t>& rows,
                             const AttentionShape& shape, at::ScalarType type) {
  const at::NoGradGuard no_grad;
  const std::int64_t num_rows = batch.input_ids.numel();
  const at::Device device = batch.input_ids.device();
  const at::Tensor queries = at::tensor(rows, at::TensorOptions(at::kLong)).to(device);
  const at::Tensor queries_and_keys = random_queries_and_keys(num_rows, shape);
  std::vector<at::Tensor> columns;
  for (std::int64_t begin = 0; begin < num_rows; begin += shape.head_dim) {
    const at::Tensor qkv =
        at::cat({queries_and_keys, one_hot_values(num_rows, begin, shape)}, 1).to(device, type);
    columns.push_back(attention_forward(qkv, shape, batch)
                          .y.view({num_rows, shape.num_heads, shape.head_dim})
                          .index_select(0, queries)
                          .to(at::kCPU, at::kFloat));
  }
  return at::cat(columns, 2).narrow(2, 0, num_rows).contiguous();
}

class WeightsCheck {
 public:
  WeightsCheck(const VerifiedModel& subject, const MicroBatch& pieces,
               const std::vector<std::int64_t>& rows, const at::Tensor& weights,
               const AttentionPattern& pattern, CheckResult& result)
      : subject_(subject),
        pieces_(pieces),
        rows_(rows),
        planned_(planned_rows(pieces, subject.config.batch)),
        weights_(weights),
        pattern_(pattern),
        result_(result) {}

  void run() {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      for (std::int64_t head = 0; head < weights_.size(1); ++head) check_row(i, head);
    }
  }

 private:
  void check_row(std::size_t i, std::int64_t head) {
    const std::int64_t row = rows_[i];
    const auto p = static_cast<std::size_t>(planned_.piece_at(row, pieces_));
    const AttentionSegment segment = planned_.segment(p);
    const std::int64_t token = pieces_[p].begin + row - segment.rows.begin;
    const std::int64_t num_rows = weights_.size(2);
    const float* weights = weights_.const_data_ptr<float>() +
                           (static_cast<std::int64_t>(i) * weights_.size(1) + head) * num_rows;
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
  void report(std::size_t p, std::int64_t token, std::int64_t head, std::int64_t other,
              float weight) {
    const std::int64_t owner = planned_.piece_at(other, pieces_);
    if (!reported_.insert({p, owner}).second) return;
    std::string target = fmt::format("padding (row {})", other);
    if (owner >= 0) {
      const Piece& piece = pieces_[static_cast<std::size_t>(owner)];
      const std::int64_t first = planned_.first_row[static_cast<std::size_t>(owner)];
      target = fmt::format("token {} of {}", piece.begin + other - first,
                           describe(piece, subject_.store));
    }
    result_.fail(fmt::format("{}head {}: token {} of {} gives {} the attention weight {:.3g}",
                             layers(), head, token, describe(pieces_[p], subject_.store), target,
                             weight));
  }

  std::string layers() const {
    if (pattern_.chunk > 0) return fmt::format("layers with chunks of {}, ", pattern_.chunk);
    return pattern_.is_full() ? "" : fmt::format("layers with a window of {}, ", pattern_.window);
  }

  const VerifiedModel& subject_;
  const MicroBatch& pieces_;
  const std::vector<std::int64_t>& rows_;  // whose weights these are
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
  const std::vector<std::int64_t> rows =
      probed_rows(pieces, planned_rows(pieces, subject.config.batch));
  // Without a reference, which has values for whole examples.
  const PackedBatch packed = subject.collate(subject.store, pieces, step.normalization, {});
  const auto stream = device.make_stream(StreamKind::kCompute);
  for (const AttentionShape& shape : distinct_attentions(subject.decoder)) {
    at::Tensor weights;
    stream->run([&](StreamHandle) {
      DeviceBatch batch = upload(packed, device);
      weights =
          attention_weights(batch, rows, shape, scalar_type(subject.config.precision.compute));
    });
    WeightsCheck(subject, pieces, rows, weights, shape.pattern, result).run();
  }
  return result;
}

}  // namespace packtrain

#include "training/verification/verified_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "collators/flattening.h"

namespace packtrain {

std::vector<const PackedBatch*> VerifiedStep::all_packed() const {
  std::vector<const PackedBatch*> all;
  for (const auto& micro_batches : packed) {
    for (const PackedBatch& batch : micro_batches) all.push_back(&batch);
  }
  return all;
}

std::vector<const PackedBatch*> VerifiedStep::all_separate() const {
  std::vector<const PackedBatch*> all;
  for (const SeparateBatch& separate : one_by_one) all.push_back(&separate.batch);
  return all;
}

namespace {

// The pieces of a unit of the plan as batches of their own: one of a group, one of any other piece.
std::vector<MicroBatch> separate(std::span<const Piece> unit) {
  const bool is_group = unit.back().with_previous;
  std::vector<MicroBatch> batches(is_group ? 1 : 0);
  for (Piece piece : unit) {
    if (piece.is_prefix) continue;
    piece.joined = false;
    if (!is_group) {
      batches.push_back({piece});
      continue;
    }
    piece.length += piece.begin;  // shared rows begin each example
    piece.begin = 0;
    piece.after_prefix = false;
    piece.with_previous = !batches.front().empty();
    batches.front().push_back(piece);
  }
  return batches;
}

// Each piece has `at_least` rows.
PlannedRows rows_at_least(const MicroBatch& pieces, std::int64_t at_least) {
  PlannedRows planned;
  RowRange prefix;  // the latest one
  for (const Piece& piece : pieces) {
    planned.first_row.push_back(planned.num_rows);
    if (piece.is_prefix) prefix = {planned.num_rows, planned.num_rows + piece.length};
    auto& of_piece = planned.prefixes.emplace_back();
    if (piece.after_prefix) of_piece.push_back({prefix.begin, prefix.begin + piece.begin});
    planned.num_rows += std::max<std::int64_t>(at_least, piece.length);
  }
  return planned;
}

}  // namespace

VerifiedStep make_verified_step(const VerifiedModel& subject, StepPlan plan) {
  VerifiedStep step;
  step.plan = std::move(plan);
  step.normalization = loss_normalization(step.plan, subject.config.batch.normalize);
  for (const auto& micro_batches : step.plan.ranks) {
    auto& packed = step.packed.emplace_back();
    for (const MicroBatch& pieces : micro_batches) {
      packed.push_back(subject.collated(subject.store, pieces, step.normalization));
      for_each_unit(pieces, [&](std::span<const Piece> unit) {
        for (MicroBatch& alone : separate(unit)) {
          PackedBatch batch =
              flatten(subject.store, alone, step.normalization, subject.collator_options());
          step.one_by_one.push_back({std::move(alone), std::move(batch)});
        }
      });
    }
  }
  return step;
}

std::int64_t PlannedRows::piece_at(std::int64_t row, const MicroBatch& pieces) const {
  const auto after = std::ranges::upper_bound(first_row, row);
  if (after == first_row.begin()) return -1;
  const std::int64_t piece = after - first_row.begin() - 1;
  const auto p = static_cast<std::size_t>(piece);
  return row < first_row[p] + pieces[p].length ? piece : -1;
}

PlannedRows unpadded_rows(const MicroBatch& pieces) {
  return rows_at_least(pieces, 0);
}

PlannedRows planned_rows(const MicroBatch& pieces, const BatchSection& batch) {
  if (!traits_of(batch.strategy).pads_to_longest) return unpadded_rows(pieces);
  std::int64_t longest = 0;
  for (const Piece& piece : pieces) longest = std::max<std::int64_t>(longest, piece.length);
  return rows_at_least(pieces, longest);
}

SupervisedRows supervised_rows(const PackedBatch& batch, const MicroBatch& pieces,
                               const PlannedRows& planned, std::span<const float> losses) {
  SupervisedRows rows;
  rows.of_piece.resize(pieces.size());
  for (std::size_t n = 0; n < batch.loss_index.size(); ++n) {
    const std::int64_t row = batch.loss_index[n];
    const std::int64_t piece = planned.piece_at(row, pieces);
    if (piece < 0) {
      rows.unowned_rows.push_back(row);
      continue;
    }
    const auto p = static_cast<std::size_t>(piece);
    rows.of_piece[p].push_back({pieces[p].begin + row - planned.first_row[p],
                                batch.labels[static_cast<std::size_t>(row)], batch.loss_weight[n],
                                losses[n]});
  }
  return rows;
}

std::string describe(const Piece& piece, const TokenStore& store) {
  const std::int32_t length = store.lengths()[static_cast<std::size_t>(piece.example)];
  if (piece.length == length) return fmt::format("example {}", piece.example);
  return fmt::format("example {} (tokens {} to {})", piece.example, piece.begin,
                     piece.begin + piece.length - 1);
}

}  // namespace packtrain

// The step that is verified: its plan, its batches as the run makes them, and the same examples one
// by one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "collators/batch_builder.h"
#include "collators/packed_batch.h"
#include "framework/config/config.h"
#include "framework/data/attention_segment.h"
#include "framework/data/token_store.h"
#include "models/layers/decoder_config.h"
#include "samplers/plan.h"

namespace packtrain {

using Collate = std::function<PackedBatch(const TokenStore& store, const MicroBatch& pieces,
                                          const LossNormalization& normalization,
                                          const CollatorOptions& options)>;

// Inputs of every check.
struct VerifiedModel {
  const Config& config;
  const DecoderConfig& decoder;
  const TokenStore& store;
  Collate collate;  // the run's own
  int rank = 0;
  // Null where the loss has no reference.
  const RowValues* reference = nullptr;

  CollatorOptions collator_options() const {
    CollatorOptions options;
    options.reference = reference;
    return options;
  }
  PackedBatch collated(const TokenStore& of_store, const MicroBatch& pieces,
                       const LossNormalization& normalization) const {
    return collate(of_store, pieces, normalization, collator_options());
  }
};

// Examples without others: a piece alone, or the whole examples of a group, which share no rows.
struct SeparateBatch {
  MicroBatch pieces;
  PackedBatch batch;
};

struct VerifiedStep {
  StepPlan plan;
  LossNormalization normalization;
  std::vector<std::vector<PackedBatch>> packed;  // [rank][micro-batch], by the run's collator
  // Of all ranks and micro-batches, in order. Their pieces are those of the plan without shared
  // prefixes, one after another.
  std::vector<SeparateBatch> one_by_one;

  std::vector<const PackedBatch*> all_packed() const;  // rank by rank
  std::vector<const PackedBatch*> all_separate() const;
};

VerifiedStep make_verified_step(const VerifiedModel& subject, StepPlan plan);

// Position of a micro-batch's pieces in the plan. Computed from the pieces alone, so that a batch
// can be compared with it.
struct PlannedRows {
  std::vector<std::int64_t> first_row;  // [pieces]
  std::int64_t num_rows = 0;            // used by pieces and their pads, without the dummy sequence
  std::vector<std::vector<RowRange>> prefixes;  // [pieces] the shared rows that each sees

  // What the rows of a piece and its pads see: themselves, after the rows that its group shares.
  AttentionSegment segment(std::size_t piece) const {
    const bool is_last = piece + 1 == first_row.size();
    return {{first_row[piece], is_last ? num_rows : first_row[piece + 1]}, prefixes[piece]};
  }
  // The piece that `row` belongs to; -1 for pads.
  std::int64_t piece_at(std::int64_t row, const MicroBatch& pieces) const;
};

PlannedRows planned_rows(const MicroBatch& pieces, const BatchSection& batch);
// The same in a SeparateBatch, where no piece is padded.
PlannedRows unpadded_rows(const MicroBatch& pieces);

// A row with a label.
struct SupervisedRow {
  std::int64_t token = 0;  // of its example
  std::int32_t label = 0;
  float weight = 0;
  float loss = 0;  // unweighted
};

// The supervised rows of a batch by piece. `unowned_rows` belong to no piece.
struct SupervisedRows {
  std::vector<std::vector<SupervisedRow>> of_piece;  // [pieces]
  std::vector<std::int64_t> unowned_rows;            // rows of the batch
};

// `losses` [num_loss_tokens of the batch]: unweighted.
SupervisedRows supervised_rows(const PackedBatch& batch, const MicroBatch& pieces,
                               const PlannedRows& planned, std::span<const float> losses);

// "example 17", or "example 17 (tokens 512 to 1023)" when the piece is only a part of it.
std::string describe(const Piece& piece, const TokenStore& store);

}  // namespace packtrain

#include "collators/group_arrays.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/error.h"
#include "framework/data/group_weight.h"

namespace packtrain {
namespace {

// Copies the values of the piece's labels to `out`, and returns the end of what it wrote.
float* copy_labelled(const TokenStore& store, const Piece& piece, std::span<const float> values,
                     float* out) {
  const auto mask = store.loss_mask(piece.example);
  const std::int64_t end = std::int64_t{piece.begin} + piece.length;
  for (std::int64_t t = piece.begin + 1; t < end; ++t) {
    if (mask[t] != 0) *out++ = values[t];
  }
  return out;
}

void fill_column(const TokenStore& store, const MicroBatch& pieces, std::size_t column,
                 std::span<float> out) {
  float* next = out.data();
  for (const Piece& piece : pieces) {
    if (piece.is_prefix) continue;  // has no labels
    next = copy_labelled(store, piece, store.token_column(piece.example, column), next);
  }
}

void fill_reference(const TokenStore& store, const MicroBatch& pieces, const RowValues& reference,
                    PackedBatch& batch) {
  float* next = batch.reference.data();
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    if (pieces[p].is_prefix) continue;
    const auto values = reference.of(pieces[p].example);
    if (std::ssize(values) != batch.num_piece_labels[p]) {
      const ExampleOrigin origin = store.origin(pieces[p].example);
      throw Error(
          ErrorCategory::kData,
          fmt::format("{}: example {} has {} labels, but {} log-probabilities of the "
                      "reference",
                      origin.store, origin.example, batch.num_piece_labels[p], values.size()),
          "Make the file again with `packtrain score MODEL STORE --log-probs`.");
    }
    next = std::ranges::copy(values, next).out;
  }
}

// No objective reads groups of turns.
bool describes_groups(const TokenStore& store, const CollatorOptions& options) {
  return store.groups() != nullptr && !options.as_plain &&
         is_of_objective(store.info().groups->kind);
}

}  // namespace

GroupShape group_shape(const TokenStore& store, const MicroBatch& pieces,
                       std::size_t num_loss_tokens, const CollatorOptions& options) {
  if (!describes_groups(store, options)) return {};
  const auto num_examples =
      static_cast<std::size_t>(std::ranges::count(pieces, false, &Piece::is_prefix));
  return {num_examples, store.info().groups->has_margins ? num_examples : 0,
          options.reference == nullptr ? 0 : num_loss_tokens,
          store.info().token_columns.size() * num_loss_tokens};
}

void fill_groups(const TokenStore& store, const MicroBatch& pieces,
                 const LossNormalization& normalization, const CollatorOptions& options,
                 PackedBatch& batch) {
  if (!describes_groups(store, options)) return;
  const ExampleGroups* groups = store.groups();
  batch.has_groups = true;
  std::size_t next = 0;
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    if (pieces[p].is_prefix) continue;
    const std::int64_t example = pieces[p].example;
    batch.group_num_rows[next] = batch.num_piece_labels[p];
    batch.group_roles[next] = static_cast<std::int32_t>(groups->role(example));
    batch.group_weights[next] = static_cast<float>(group_weight(store, groups->group_of(example)) /
                                                   normalization.group_denominator);
    if (!batch.group_margins.empty()) {
      batch.group_margins[next] = groups->group(groups->group_of(example)).margin.value_or(0.0F);
    }
    ++next;
  }
  if (!batch.reference.empty()) fill_reference(store, pieces, *options.reference, batch);
  batch.column_names = store.info().token_columns;
  const std::size_t num_rows = batch.loss_index.size();
  for (std::size_t column = 0; column < batch.column_names.size(); ++column) {
    fill_column(store, pieces, column, batch.token_columns.subspan(column * num_rows, num_rows));
  }
}

}  // namespace packtrain

// A piece's tokens, labels and weights, as a collator reads them from the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "collators/packed_batch.h"
#include "framework/data/token_store.h"
#include "samplers/plan.h"

namespace packtrain {

// What was planned from is in memory, tokens and masks are in files: somebody may have written to
// them meanwhile. Throws Error(kData).
[[noreturn]] void fail_changed(const TokenStore& store, const Piece& piece,
                               const std::string& fault);

// Checked against its example. The store must outlive it.
class PieceView {
 public:
  // Throws Error(kInternal) for a piece outside its example, Error(kData) where the mask has
  // changed.
  PieceView(const TokenStore& store, const Piece& piece);

  std::size_t length() const { return length_; }
  std::span<const std::int32_t> input_ids() const { return ids_.first(length_); }
  std::int32_t label(std::size_t row) const {
    return row + 1 < ids_.size() && mask_[row + 1] != 0 ? ids_[row + 1] : kNoLabel;
  }
  std::size_t num_labels() const { return num_labels_; }
  // Whether labels weigh otherwise than 1 each by their mask bytes.
  bool has_token_weights() const { return !weights_.empty(); }
  // Of a row with a label: what its mask byte weighs.
  double token_weight(std::size_t row) const {
    return weights_.empty() ? 1.0 : weights_[mask_[row + 1]];
  }
  // The sum of what its labels weigh.
  double label_weight() const { return sum_of_weights(mask_.subspan(1), weights_); }

 private:
  void check_weights(const TokenStore& store, const Piece& piece) const;

  std::size_t length_;
  // With one token more than the piece where it continues: the last row's label.
  std::span<const std::int32_t> ids_;
  std::span<const std::uint8_t> mask_;
  TokenWeights weights_;
  std::size_t num_labels_ = 0;
};

}  // namespace packtrain

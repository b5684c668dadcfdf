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

// Reports that the store's files no longer agree with the lengths and counts that the plan used.
// Another program may have written to them. Throws Error(kData).
[[noreturn]] void fail_changed(const TokenStore& store, const Piece& piece,
                               const std::string& fault);

// The piece is checked against its example. The store must outlive the view.
class PieceView {
 public:
  // Throws Error(kInternal) for a piece outside its example, and Error(kData) where the mask has
  // changed.
  PieceView(const TokenStore& store, const Piece& piece);

  std::size_t length() const { return length_; }
  std::span<const std::int32_t> input_ids() const { return ids_.first(length_); }
  std::int32_t label(std::size_t row) const {
    return row + 1 < ids_.size() && mask_[row + 1] != 0 ? ids_[row + 1] : kNoLabel;
  }
  std::size_t num_labels() const { return num_labels_; }
  // True when the store has a table of weights for mask bytes.
  bool has_token_weights() const { return !weights_.empty(); }
  // The weight of the row's mask byte. The row must have a label.
  double token_weight(std::size_t row) const {
    return weights_.empty() ? 1.0 : weights_[mask_[row + 1]];
  }
  // The sum of the weights of the piece's labels.
  double label_weight() const { return sum_of_weights(mask_.subspan(1), weights_); }

 private:
  void check_weights(const TokenStore& store, const Piece& piece) const;

  std::size_t length_;
  // When the piece continues, these have one token more than the piece: the last row's label.
  std::span<const std::int32_t> ids_;
  std::span<const std::uint8_t> mask_;
  TokenWeights weights_;
  std::size_t num_labels_ = 0;
};

}  // namespace packtrain

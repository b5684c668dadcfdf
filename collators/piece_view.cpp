#include "collators/piece_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/error.h"

namespace packtrain {

void fail_changed(const TokenStore& store, const Piece& piece, const std::string& fault) {
  const ExampleOrigin origin = store.origin(piece.example);
  throw Error(ErrorCategory::kData,
              fmt::format("{}: example {} was changed after the store was opened: {}", origin.store,
                          origin.example, fault),
              "Leave files alone that a run uses; put new ones in place by renaming.");
}

PieceView::PieceView(const TokenStore& store, const Piece& piece)
    : length_(static_cast<std::size_t>(piece.length)),
      weights_(store.token_weights(piece.example)) {
  const auto ids = store.input_ids(piece.example);
  const std::int64_t end = std::int64_t{piece.begin} + piece.length + (piece.continues ? 1 : 0);
  if (piece.begin < 0 || piece.length < 1 || end > std::ssize(ids)) {
    throw Error(ErrorCategory::kInternal,
                fmt::format("collator: piece [{}, {}) of example {} is not inside its {} tokens",
                            piece.begin, end, piece.example, ids.size()));
  }
  const auto begin = static_cast<std::size_t>(piece.begin);
  const auto count = static_cast<std::size_t>(end) - begin;
  ids_ = ids.subspan(begin, count);
  mask_ = store.loss_mask(piece.example).subspan(begin, count);
  num_labels_ = static_cast<std::size_t>(count_supervised(mask_.subspan(1)));
  // A shared prefix has no labels, and the piece after it has all of its example's.
  const bool has_all = count == ids.size() || piece.after_prefix;
  const std::int32_t planned =
      piece.is_prefix ? 0 : store.num_loss_tokens()[static_cast<std::size_t>(piece.example)];
  if ((has_all || piece.is_prefix) && num_labels_ != static_cast<std::size_t>(planned)) {
    fail_changed(store, piece,
                 fmt::format("its mask has {} labels, wanted {}", num_labels_, planned));
  }
  if (has_token_weights()) check_weights(store, piece);
}

// Mask bytes index the table of weights, so each must be below its size.
void PieceView::check_weights(const TokenStore& store, const Piece& piece) const {
  const std::uint8_t largest = std::ranges::max(mask_);
  if (largest < weights_.size()) return;
  fail_changed(store, piece,
               fmt::format("its mask has a {}, and the store has weights for 0..{}", largest,
                           weights_.size() - 1));
}

}  // namespace packtrain

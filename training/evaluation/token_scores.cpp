#include "training/evaluation/token_scores.h"

#include <ATen/ops/empty.h>

namespace packtrain {

void TokenScores::clear() {
  places_.clear();
  log_probs_.clear();
  greedy_.clear();
}

void TokenScores::request(const PackedBatch& packed, DeviceBatch& batch) const {
  if (candidates_ != nullptr) candidates_->add_rows(packed, batch);
  const at::TensorOptions options = batch.loss_weight.options();
  batch.row_losses = at::empty(batch.loss_weight.sizes(), options);
  batch.row_greedy = at::empty(batch.loss_weight.sizes(), options.dtype(at::kBool));
}

void TokenScores::add(const PackedBatch& packed, const DeviceBatch& batch) {
  const at::Tensor log_probs = batch.row_losses.neg().to(at::kCPU);
  const at::Tensor greedy = batch.row_greedy.to(at::kCPU);
  std::size_t begin = log_probs_.size();
  for (std::size_t i = 0; i < packed.pieces.size(); ++i) {
    Place& place = places_[packed.pieces[i].example];
    place.labels = begin;
    place.num_labels = static_cast<std::size_t>(packed.num_piece_labels[i]);
    begin += place.num_labels;
  }
  for (const Piece& piece : packed.pieces) {
    Place& place = places_[piece.example];
    place.candidates = begin;
    place.num_candidates = candidates_ == nullptr ? 0 : candidates_->of(piece.example).size();
    begin += place.num_candidates;
  }
  const auto* values = log_probs.const_data_ptr<float>();
  log_probs_.insert(log_probs_.end(), values, values + log_probs.numel());
  const bool* flags = greedy.const_data_ptr<bool>();
  greedy_.insert(greedy_.end(), flags, flags + greedy.numel());
}

ExampleScores TokenScores::of_labels(std::int64_t example) const {
  const auto found = places_.find(example);
  return found == places_.end() ? ExampleScores{}
                                : values(found->second.labels, found->second.num_labels);
}

ExampleScores TokenScores::of_candidates(std::int64_t example) const {
  const auto found = places_.find(example);
  return found == places_.end() ? ExampleScores{}
                                : values(found->second.candidates, found->second.num_candidates);
}

ExampleScores TokenScores::values(std::size_t begin, std::size_t count) const {
  return {std::span(log_probs_).subspan(begin, count), std::span(greedy_).subspan(begin, count)};
}

}  // namespace packtrain

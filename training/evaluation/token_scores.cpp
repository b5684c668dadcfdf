#include "training/evaluation/token_scores.h"

#include <ATen/ops/cat.h>
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

void TokenScores::add(std::span<const PackedBatch> packed, std::span<const DeviceBatch> batches) {
  std::vector<at::Tensor> row_losses;
  std::vector<at::Tensor> row_greedy;
  std::size_t begin = log_probs_.size();
  for (std::size_t i = 0; i < packed.size(); ++i) {
    row_losses.push_back(batches[i].row_losses);
    row_greedy.push_back(batches[i].row_greedy);
    place(packed[i], begin);
    begin += static_cast<std::size_t>(batches[i].row_losses.numel());
  }
  // One copy of each: many small ones would leave the device without work.
  const at::Tensor log_probs = at::cat(row_losses).neg_().to(at::kCPU);
  const at::Tensor greedy = at::cat(row_greedy).to(at::kCPU);
  const auto* values = log_probs.const_data_ptr<float>();
  log_probs_.insert(log_probs_.end(), values, values + log_probs.numel());
  const bool* flags = greedy.const_data_ptr<bool>();
  greedy_.insert(greedy_.end(), flags, flags + greedy.numel());
}

// The rows of a micro-batch: labels of all pieces, then candidates of all.
void TokenScores::place(const PackedBatch& packed, std::size_t begin) {
  for (std::size_t i = 0; i < packed.pieces.size(); ++i) {
    if (packed.pieces[i].is_prefix) continue;  // has no labels
    Place& place = places_[packed.pieces[i].example];
    place.labels = begin;
    place.num_labels = static_cast<std::size_t>(packed.num_piece_labels[i]);
    begin += place.num_labels;
  }
  for (const Piece& piece : packed.pieces) {
    if (piece.is_prefix) continue;
    Place& place = places_[piece.example];
    place.candidates = begin;
    place.num_candidates = candidates_ == nullptr ? 0 : candidates_->of(piece.example).size();
    begin += place.num_candidates;
  }
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

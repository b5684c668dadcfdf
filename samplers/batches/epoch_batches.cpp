#include "samplers/batches/epoch_batches.h"

namespace packtrain {

void StepPieces::append(const Selection& selection, ExampleIndex example) {
  selection.append_pieces(example, pieces);
  ++num_examples;
  num_tokens += selection.length(example);
  num_loss_tokens += selection.num_loss_tokens(example);
}

void StepPieces::append(const Selection& selection, const Piece& piece) {
  pieces.push_back(piece);
  num_examples += piece.begin == 0 ? 1 : 0;
  num_tokens += piece.length;
  num_loss_tokens += selection.num_loss_tokens(piece);
}

std::span<const Piece> StepPieces::pack(std::size_t p) const {
  if (pack_begins.empty()) return std::span(pieces).subspan(p, 1);
  const std::size_t end = p + 1 < pack_begins.size() ? pack_begins[p + 1] : pieces.size();
  return std::span(pieces).subspan(pack_begins[p], end - pack_begins[p]);
}

}  // namespace packtrain

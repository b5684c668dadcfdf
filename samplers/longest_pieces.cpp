#include "samplers/longest_pieces.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <vector>

namespace packtrain {

LongestPieces longest_pieces(const Selection& selection, const PlanOptions& options) {
  const bool step_counts_pieces =
      options.global_batch_size > 0 && options.too_long != TooLong::kSplit;
  const std::int64_t most = step_counts_pieces
                                ? std::min(options.micro_batch_size, options.global_batch_size)
                                : options.micro_batch_size;
  LongestPieces result;
  std::priority_queue<std::int32_t, std::vector<std::int32_t>, std::greater<>> lengths;
  std::vector<Piece> pieces;
  selection.examples().for_each([&](ExampleIndex example) {
    if (selection.piece_length(example) > result.longest) {
      result.longest = selection.piece_length(example);
      result.example = example;
    }
    pieces.clear();
    selection.append_pieces(example, pieces);
    for (const Piece& piece : pieces) {
      if (std::ssize(lengths) == most) {
        if (piece.length <= lengths.top()) break;  // a later piece is no longer
        result.num_tokens -= lengths.top();
        lengths.pop();
      }
      lengths.push(piece.length);
      result.num_tokens += piece.length;
    }
  });
  result.count = std::ssize(lengths);
  return result;
}

}  // namespace packtrain

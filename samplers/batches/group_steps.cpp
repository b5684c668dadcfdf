#include "samplers/batches/group_steps.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace packtrain {

StepPieces with_pieces_of_groups(const StepPieces& step, const GroupUnits& units) {
  StepPieces all;
  all.num_tokens = step.num_tokens;
  all.num_loss_tokens = step.num_loss_tokens;
  all.num_groups = step.num_examples;
  std::vector<std::size_t> begins;  // of each group, and the end
  for (const Piece& group : step.pieces) {
    begins.push_back(all.pieces.size());
    units.append_pieces(group.example, all.pieces);
  }
  all.num_examples = std::ranges::count_if(all.pieces, counts_example);
  if (step.pack_begins.empty()) {
    all.pack_begins = std::move(begins);
    return all;
  }
  begins.push_back(all.pieces.size());
  for (const std::size_t begin : step.pack_begins) all.pack_begins.push_back(begins[begin]);
  return all;
}

}  // namespace packtrain

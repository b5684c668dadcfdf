#include "collators/adapter_rows.h"

#include <cstddef>
#include <cstdint>

namespace packtrain {

void fill_adapter_rows(const MicroBatch& pieces, std::span<const StepPart> parts,
                       PackedBatch& batch) {
  if (parts.empty()) return;
  std::size_t next = 0;
  std::int32_t row = 0;
  std::int32_t loss_row = 0;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    batch.adapter_rows[part] = row;
    batch.adapter_loss_rows[part] = loss_row;
    for (; next < pieces.size() && part_of(parts, pieces[next].example) == part; ++next) {
      row = batch.examples[pieces.size() + next];
      loss_row += batch.num_piece_labels[next];
    }
  }
  batch.adapter_rows.back() = row;
  batch.adapter_loss_rows.back() = loss_row;
}

}  // namespace packtrain

// Batches: an epoch's order cut into optimizer steps, before anybody knows how many ranks there
// are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "samplers/options.h"
#include "samplers/order.h"
#include "samplers/plan.h"
#include "samplers/selection.h"

namespace packtrain {

// What one optimizer step trains.
struct StepPieces {
  std::vector<Piece> pieces;  // in the step's order
  // What stays together in one micro-batch: pack p is pieces[pack_begins[p]] up to, without it,
  // pieces[pack_begins[p + 1]] or the end. Empty: every piece goes where it fits best.
  std::vector<std::size_t> pack_begins;
  // An example that several steps share is counted where it begins.
  std::int64_t num_examples = 0;
  std::int64_t num_tokens = 0;
  std::int64_t num_loss_tokens = 0;

  // Appends an example, with all its pieces and counts.
  void append(const Selection& selection, ExampleIndex example);
  // Appends one piece of an example that other steps may share.
  void append(const Selection& selection, const Piece& piece);

  // What stays together, one after the other: packs, or single pieces where there are none.
  std::size_t num_packs() const { return pack_begins.empty() ? pieces.size() : pack_begins.size(); }
  std::span<const Piece> pack(std::size_t p) const;
};

class EpochBatches {
 public:
  virtual ~EpochBatches() = default;
  virtual std::int64_t num_steps() const = 0;  // at least 1
  // The same question of one step, answered without finding those behind it where that is possible.
  virtual bool has_step(std::int64_t step_of_epoch) const { return step_of_epoch < num_steps(); }
  virtual StepPieces step(std::int64_t step_of_epoch) const = 0;  // 0 .. num_steps() - 1
};

// What batches are made of. `order` is consumed; the rest must outlive the batches.
struct BatchInputs {
  const Selection& selection;
  const PlanOptions& options;
  std::uint64_t epoch = 0;
  Order order;
};

}  // namespace packtrain

// Batches: an epoch's order cut into optimizer steps. They do not depend on the number of ranks.
#pragma once

#include <cstddef>
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

// How many positions of the order ahead the data of an example is prefetched.
inline constexpr std::size_t kPrefetchDistance = 16;

// The pieces of one optimizer step.
struct StepPieces {
  std::vector<Piece> pieces;  // in the step's order
  // Packs, each placed in one micro-batch as a whole. Pack p is pieces[pack_begins[p]] up to
  // pieces[pack_begins[p + 1]] or the end. Empty: each piece is placed by itself.
  std::vector<std::size_t> pack_begins;
  // An example that several steps share is counted in the step where it begins.
  std::int64_t num_examples = 0;
  std::int64_t num_tokens = 0;
  std::int64_t num_loss_tokens = 0;
  std::int64_t num_groups = 0;  // of a store with groups

  // Appends an example, with all its pieces and counts.
  void append(const Selection& selection, ExampleIndex example);
  // Appends one piece of an example that other steps may share.
  void append(const Selection& selection, const Piece& piece);

  // Units that are placed as a whole, one after another: packs, or single pieces without packs.
  std::size_t num_packs() const { return pack_begins.empty() ? pieces.size() : pack_begins.size(); }
  std::span<const Piece> pack(std::size_t p) const;
};

class EpochBatches {
 public:
  virtual ~EpochBatches() = default;
  virtual std::int64_t num_steps() const = 0;  // at least 1
  // True when the epoch has this step. It finds no later steps where that is possible.
  virtual bool has_step(std::int64_t step_of_epoch) const { return step_of_epoch < num_steps(); }
  virtual StepPieces step(std::int64_t step_of_epoch) const = 0;  // 0 .. num_steps() - 1
};

// The inputs of batches. `order` is consumed; the rest must outlive the batches.
struct BatchInputs {
  const Selection& selection;
  const PlanOptions& options;
  std::uint64_t epoch = 0;
  Order order;
};

}  // namespace packtrain

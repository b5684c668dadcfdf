#include "samplers/batches/rows.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>

namespace packtrain {
namespace {

class Rows final : public EpochBatches {
 public:
  explicit Rows(BatchInputs inputs)
      : selection_(inputs.selection),
        tokens_per_row_(inputs.options.max_length),
        tokens_per_step_(inputs.options.global_batch_tokens),
        joins_(inputs.options.cross_example_attention),
        order_(std::move(inputs.order)) {}

  std::int64_t num_steps() const override {
    const std::lock_guard lock(mutex_);
    find(std::numeric_limits<std::int64_t>::max());
    return std::ssize(steps_);
  }

  StepPieces step(std::int64_t step_of_epoch) const override {
    StepPieces step;
    Position at = begin_of(step_of_epoch);
    std::int64_t free_tokens = 0;  // free tokens of the row
    while (at.place < order_.size() && step.num_tokens < tokens_per_step_) {
      selection_.prefetch(order_[std::min(at.place + kPrefetchDistance, order_.size() - 1)]);
      const bool begins_row = free_tokens == 0;
      if (begins_row) {
        step.pack_begins.push_back(step.pieces.size());
        free_tokens = tokens_per_row_;
      }
      Piece piece = cut(at, free_tokens);
      piece.joined = joins_ && !begins_row;
      free_tokens -= piece.length;
      at = piece.continues ? Position{at.place, piece.begin + piece.length}
                           : Position{at.place + 1, 0};
      step.append(selection_, piece);
    }
    return step;
  }

 private:
  struct Position {
    ExampleIndex place = 0;  // in the order
    std::int32_t token = 0;  // of that example
  };

  Position begin_of(std::int64_t step_of_epoch) const {
    const std::lock_guard lock(mutex_);
    find(step_of_epoch);
    return steps_[static_cast<std::size_t>(step_of_epoch)];
  }

  // Finds the begins of steps up to `step`, at most to the epoch's end. The mutex is held.
  void find(std::int64_t step) const {
    for (; place_ < order_.size() && std::ssize(steps_) <= step; ++place_) {
      selection_.prefetch(order_[std::min(place_ + kPrefetchDistance, order_.size() - 1)]);
      const std::int64_t end = begin_ + selection_.length(order_[place_]);
      for (; next_step_ < end; next_step_ += tokens_per_step_) {
        steps_.push_back(
            {static_cast<ExampleIndex>(place_), static_cast<std::int32_t>(next_step_ - begin_)});
      }
      begin_ = end;
    }
  }

  // The rest of the example from `at` on, or the first `room` tokens of it.
  Piece cut(Position at, std::int64_t free_tokens) const {
    const ExampleIndex example = order_[at.place];
    const std::int64_t left = selection_.length(example) - at.token;
    return {.example = example,
            .begin = at.token,
            .length = static_cast<std::int32_t>(std::min(left, free_tokens)),
            .continues = left > free_tokens};
  }

  const Selection& selection_;
  std::int64_t tokens_per_row_;
  std::int64_t tokens_per_step_;
  bool joins_;
  Order order_;
  mutable std::mutex mutex_;
  mutable std::vector<Position> steps_;  // [steps found] where each begins
  mutable std::size_t place_ = 0;        // position in the order reached so far
  mutable std::int64_t begin_ = 0;       // its first token, counted from the epoch's first
  mutable std::int64_t next_step_ = 0;   // begin of the next step, counted in the same way
};

}  // namespace

std::unique_ptr<EpochBatches> make_rows(BatchInputs inputs) {
  return std::make_unique<Rows>(std::move(inputs));
}

std::optional<std::int64_t> row_steps(const Selection& selection, const PlanOptions& options) {
  std::int64_t num_tokens = 0;
  selection.examples().for_each(
      [&](ExampleIndex example) { num_tokens += selection.length(example); });
  return (num_tokens + options.global_batch_tokens - 1) / options.global_batch_tokens;
}

}  // namespace packtrain

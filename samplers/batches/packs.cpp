#include "samplers/batches/packs.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "framework/core/error.h"
#include "samplers/batches/pack_window.h"

namespace packtrain {
namespace {

// The pieces of an epoch as numbers of 4 bytes each. The first piece of an example has the
// example's number. Further pieces have numbers after the last example's.
class PieceNumbers {
 public:
  PieceNumbers(const Selection& selection, Order order)
      : selection_(selection),
        num_examples_(selection.examples().back() + std::size_t{1}),
        numbers_(std::move(order).take_table()) {
    if (selection.losses().split_examples > 0) numbers_ = with_further_pieces(numbers_);
  }

  // The numbers of the pieces, in the epoch's order.
  std::vector<std::uint32_t> take_numbers() { return std::move(numbers_); }

  Piece operator[](std::uint32_t number) const {
    const FurtherPiece at =
        number < num_examples_ ? FurtherPiece{number, 0} : further_[number - num_examples_];
    const std::int32_t left = selection_.length(at.example) - at.begin;
    const std::int32_t length = std::min(left, selection_.piece_length(at.example));
    return {.example = at.example, .begin = at.begin, .length = length, .continues = length < left};
  }

  void prefetch(std::uint32_t number) const {
    if (number < num_examples_) selection_.prefetch(number);
  }

 private:
  struct FurtherPiece {
    ExampleIndex example = 0;
    std::int32_t begin = 0;
  };

  std::vector<std::uint32_t> with_further_pieces(const std::vector<ExampleIndex>& order) {
    std::vector<std::uint32_t> numbers;
    numbers.reserve(order.size());
    for (const ExampleIndex example : order) {
      numbers.push_back(example);
      const std::int64_t end = selection_.length(example);
      const std::int64_t step = selection_.piece_length(example);
      for (std::int64_t begin = step; begin < end; begin += step) {
        numbers.push_back(next_number());
        further_.push_back({example, static_cast<std::int32_t>(begin)});
      }
    }
    return numbers;
  }

  std::uint32_t next_number() const {
    const std::size_t number = num_examples_ + further_.size();
    if (number < std::numeric_limits<std::uint32_t>::max()) {
      return static_cast<std::uint32_t>(number);
    }
    throw Error(ErrorCategory::kData,
                fmt::format("the store's {} examples are split into more than {} pieces",
                            num_examples_, number),
                "Raise data.max_length, or set data.too_long to truncate or drop.");
  }

  const Selection& selection_;
  std::size_t num_examples_;  // of the store
  std::vector<std::uint32_t> numbers_;
  std::vector<FurtherPiece> further_;
};

class Packs final : public EpochBatches {
 public:
  explicit Packs(BatchInputs inputs)
      : selection_(inputs.selection),
        packs_per_step_(pack_shape(inputs.options).packs_per_step),
        pieces_(inputs.selection, std::move(inputs.order)),
        numbers_(pieces_.take_numbers()) {
    const auto window =
        static_cast<std::size_t>(std::min(inputs.options.packing_window, std::ssize(numbers_)));
    PackWindow packer(pack_shape(inputs.options).capacity, window, numbers_);
    for (std::size_t place = 0; place < numbers_.size(); ++place) {
      pieces_.prefetch(numbers_[std::min(place + kPrefetchDistance, numbers_.size() - 1)]);
      packer.add(numbers_[place], pieces_[numbers_[place]].length);
    }
    begins_ = packer.finish();
  }

  std::int64_t num_steps() const override {
    return (std::ssize(begins_) + packs_per_step_ - 1) / packs_per_step_;
  }

  StepPieces step(std::int64_t step_of_epoch) const override {
    const auto first = static_cast<std::size_t>(step_of_epoch * packs_per_step_);
    const std::size_t last =
        std::min(first + static_cast<std::size_t>(packs_per_step_), begins_.size());
    for (std::size_t i = begins_[first]; i < end_of(last - 1); ++i) pieces_.prefetch(numbers_[i]);
    StepPieces step;
    step.pieces.reserve(end_of(last - 1) - begins_[first]);
    for (std::size_t pack = first; pack < last; ++pack) {
      step.pack_begins.push_back(step.pieces.size());
      for (std::size_t i = begins_[pack]; i < end_of(pack); ++i) {
        step.append(selection_, pieces_[numbers_[i]]);
      }
    }
    return step;
  }

 private:
  std::size_t end_of(std::size_t pack) const {
    return pack + 1 < begins_.size() ? begins_[pack + 1] : numbers_.size();
  }

  const Selection& selection_;
  std::int64_t packs_per_step_;
  PieceNumbers pieces_;
  std::vector<std::uint32_t> numbers_;  // of pieces, pack after pack
  std::vector<std::uint32_t> begins_;   // [packs] their first positions in `numbers_`
};

}  // namespace

PackShape pack_shape(const PlanOptions& options) {
  const std::int64_t tokens = options.global_batch_tokens;
  const std::int64_t budget = options.max_tokens_per_micro_batch;
  const std::int64_t packs_per_step = (tokens + budget - 1) / budget;
  return {packs_per_step, tokens / packs_per_step};
}

std::unique_ptr<EpochBatches> make_packs(BatchInputs inputs) {
  return std::make_unique<Packs>(std::move(inputs));
}

std::optional<std::int64_t> pack_steps(const Selection&, const PlanOptions&) {
  return std::nullopt;
}

}  // namespace packtrain

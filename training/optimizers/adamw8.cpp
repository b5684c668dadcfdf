#include "training/optimizers/adamw8.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "training/optimizers/adamw8_arguments.h"
#include "training/optimizers/update_checks.h"
#include "training/optimizers/update_launch.h"

namespace packtrain {
namespace {

static_assert(kMomentBlock == kStateBlock);  // kernels do not include libtorch

void check_part8(const ShardPart& part, std::span<const ShardRange> ranges) {
  const UpdateChecks check("adamw8", part);
  check.tensors(ranges);
  check.require(part.state.size() == 4, "the state", part.master, "four tensors");
  const std::int64_t numel = part.master.numel();
  const std::int64_t blocks = (numel + kMomentBlock - 1) / kMomentBlock;
  for (const std::size_t moment : {0, 2}) {
    check.values(part.state[moment], "codes", at::kByte, numel);
    check.values(part.state[moment + 1], "magnitudes of blocks", at::kFloat, blocks);
  }
  for (const ShardRange& range : ranges) {
    check.require(range.begin % kMomentBlock == 0, "master", part.master,
                  "ranges that begin at blocks");
    check.require(range.first_element % 8 == 0, "master", part.master,
                  "ranges whose elements in the model begin at multiples of 8");
  }
}

CodedMoment coded(const at::Tensor& codes, const at::Tensor& largest) {
  return {codes.mutable_data_ptr<std::uint8_t>(), largest.mutable_data_ptr<float>()};
}

void launch8(const AdamW8Arguments& arguments, const at::Device& device) {
  if (device.is_cuda()) return adamw8_cuda(arguments, device.index());
  if (*arguments.skip != 0) return;
  std::int64_t first = arguments.begin;
  for (int p = 0; p < arguments.num_pieces; ++p) {
    const UpdatePiece& piece = arguments.pieces[p];
    const std::int64_t num_blocks = (piece.end - first + kMomentBlock - 1) / kMomentBlock;
    constexpr std::int64_t kGrain = 16;  // blocks
    at::parallel_for(0, num_blocks, kGrain, [&](std::int64_t begin, std::int64_t end) {
      adamw8_cpu_range(arguments, piece, first + begin * kMomentBlock,
                       std::min(first + end * kMomentBlock, piece.end));
    });
    first = piece.end;
  }
}

class AdamW8 final : public Optimizer {
 public:
  AdamW8(const OptimizerSection& section, std::uint64_t seed) {
    options_.beta1 = section.betas[0];
    options_.beta2 = section.betas[1];
    options_.epsilon = section.epsilon;
    options_.weight_decay = weight_decays(section);
    options_.seed = seed;
  }

  const char* name() const override { return "AdamW"; }
  std::vector<OptimizerStateSpec> state() const override { return adamw8_state(); }
  void update(const ShardPart& part, std::span<const ShardRange> ranges,
              const UpdateOptions& update) const override {
    AdamWOptions options = options_;
    options.learning_rate = update.learning_rate;
    options.step = update.step;
    adamw8(part, ranges, options, update.clip_factor, update.skip);
  }

 private:
  AdamWOptions options_;
};

}  // namespace

std::vector<OptimizerStateSpec> adamw8_state() {
  const auto codes = [](const char* name, bool has_sign) {
    const auto zero = static_cast<std::uint8_t>(zero_code(has_sign));
    return OptimizerStateSpec{.name = name, .dtype = at::kByte, .first_byte = zero};
  };
  const auto largest = [](const char* name) {
    return OptimizerStateSpec{.name = name, .granularity = StateGranularity::kBlock};
  };
  return {codes(kExpAvgCodes, true), largest(kExpAvgLargest), codes(kExpAvgSqCodes, false),
          largest(kExpAvgSqLargest)};
}

void adamw8(const ShardPart& part, std::span<const ShardRange> ranges, const AdamWOptions& options,
            const at::Tensor& clip_factor, const at::Tensor& skip) {
  check_part8(part, ranges);
  const UpdateChecks check("adamw8", part);
  check.scalar(clip_factor, "clip_factor", at::kFloat);
  check.scalar(skip, "skip", at::kByte);
  AdamW8Arguments arguments;
  set_part(arguments, part, clip_factor, skip);
  arguments.first = coded(part.state[0], part.state[1]);
  arguments.second = coded(part.state[2], part.state[3]);
  static_cast<AdamWScalars&>(arguments) = adamw_scalars(options);
  arguments.seed = options.seed;
  arguments.step = static_cast<std::uint64_t>(options.step);
  launch_pieces(
      "adamw8", arguments, ranges, part.master.numel(),
      [&](OptimizerGroup group) {
        return decay_factor(options.learning_rate, options.weight_decay, group);
      },
      [&](const AdamW8Arguments& full) { launch8(full, part.master.device()); });
}

std::unique_ptr<Optimizer> make_adamw8(const OptimizerSection& options, std::uint64_t seed) {
  return std::make_unique<AdamW8>(options, seed);
}

}  // namespace packtrain

#include "training/optimizers/adamw8.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <string>

#include "framework/core/error.h"
#include "training/optimizers/adamw8_arguments.h"
#include "training/optimizers/update_launch.h"

namespace packtrain {
namespace {

void require8(bool holds, const char* name, const char* wanted) {
  if (holds) return;
  throw Error(ErrorCategory::kInternal,
              std::string("adamw8: ") + name + " is wrong, wanted " + wanted);
}

void check_part8(const ShardPart& part, std::span<const ShardRange> ranges) {
  const at::Tensor& master = part.master;
  const std::int64_t numel = master.numel();
  const std::int64_t blocks = (numel + kMomentBlock - 1) / kMomentBlock;
  const auto is_flat = [&](const at::Tensor& x, at::ScalarType type, std::int64_t size) {
    return x.defined() && x.scalar_type() == type && x.dim() == 1 && x.is_contiguous() &&
           x.numel() == size && x.device() == master.device();
  };
  require8(master.defined() && is_flat(master, at::kFloat, numel), "master",
           "contiguous float32 [n]");
  require8(is_flat(part.grad, at::kFloat, numel) || is_flat(part.grad, at::kBFloat16, numel),
           "grad", "contiguous float32 or bfloat16 [n]");
  require8(part.state.size() == 4 && is_flat(part.state[0], at::kByte, numel) &&
               is_flat(part.state[1], at::kFloat, blocks) &&
               is_flat(part.state[2], at::kByte, numel) &&
               is_flat(part.state[3], at::kFloat, blocks),
           "the state", "codes uint8 [n] and magnitudes float32 [blocks], of each moment");
  require8(!part.weight.defined() || part.weight.const_data_ptr() == master.const_data_ptr() ||
               is_flat(part.weight, at::kBFloat16, numel),
           "weight", "contiguous bfloat16 [n], or master itself");
  for (const ShardRange& range : ranges) {
    require8(range.begin % kMomentBlock == 0, "a range", "one that begins at a block");
    require8(range.amax < 0 || (part.amax.defined() && part.amax.scalar_type() == at::kInt &&
                                part.amax.numel() > range.amax),
             "amax", "int32 with an element for each range's number");
  }
}

CodedMoment coded(const at::Tensor& codes, const at::Tensor& largest) {
  return {codes.mutable_data_ptr<std::uint8_t>(), largest.mutable_data_ptr<float>()};
}

AdamW8Arguments arguments8(const ShardPart& part, const AdamWOptions& options) {
  AdamW8Arguments arguments;
  arguments.master = part.master.mutable_data_ptr<float>();
  arguments.grad = part.grad.const_data_ptr();
  arguments.grad_dtype =
      part.grad.scalar_type() == at::kBFloat16 ? DataType::kBFloat16 : DataType::kFloat32;
  arguments.first = coded(part.state[0], part.state[1]);
  arguments.second = coded(part.state[2], part.state[3]);
  if (part.weight.defined() && part.weight.const_data_ptr() != part.master.const_data_ptr()) {
    arguments.weight = part.weight.mutable_data_ptr();
  }
  if (part.amax.defined()) {
    arguments.amax = reinterpret_cast<std::uint32_t*>(part.amax.mutable_data_ptr<std::int32_t>());
  }
  static_cast<AdamWScalars&>(arguments) = adamw_scalars(options);
  return arguments;
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
  explicit AdamW8(const OptimizerSection& section) {
    options_.beta1 = section.betas[0];
    options_.beta2 = section.betas[1];
    options_.epsilon = section.epsilon;
    options_.weight_decay = weight_decays(section);
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
  const auto codes = [](const char* name) {
    return OptimizerStateSpec{.name = name, .dtype = at::kByte};
  };
  const auto largest = [](const char* name) {
    return OptimizerStateSpec{.name = name, .granularity = StateGranularity::kBlock};
  };
  return {codes(kExpAvgCodes), largest(kExpAvgLargest), codes(kExpAvgSqCodes),
          largest(kExpAvgSqLargest)};
}

void adamw8(const ShardPart& part, std::span<const ShardRange> ranges, const AdamWOptions& options,
            const at::Tensor& clip_factor, const at::Tensor& skip) {
  check_part8(part, ranges);
  AdamW8Arguments arguments = arguments8(part, options);
  arguments.clip_factor = clip_factor.const_data_ptr<float>();
  arguments.skip = skip.const_data_ptr<std::uint8_t>();
  launch_pieces(
      "adamw8", arguments, ranges, part.master.numel(),
      [&](OptimizerGroup group) {
        const double decay = options.weight_decay[static_cast<std::size_t>(group)];
        return static_cast<float>(1 - options.learning_rate * decay);
      },
      [&](const AdamW8Arguments& full) { launch8(full, part.master.device()); });
}

std::unique_ptr<Optimizer> make_adamw8(const OptimizerSection& options) {
  return std::make_unique<AdamW8>(options);
}

}  // namespace packtrain

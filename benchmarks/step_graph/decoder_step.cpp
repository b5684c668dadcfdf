#include "benchmarks/step_graph/decoder_step.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <map>
#include <string>
#include <utility>

#include "models/decoder/decoder.h"
#include "models/decoder/initialize.h"
#include "models/ops/gradient_norm/gradient_norm.h"

namespace packtrain {
namespace {

constexpr std::int64_t kAlignment = 128;  // elements that each parameter's part is a multiple of
constexpr double kMaxNorm = 1.0;
constexpr std::uint64_t kSeed = 1;  // of the weights

// Where each parameter begins in the flat buffers; a shared one counts once.
std::map<std::string, std::int64_t> offsets_of(const std::vector<std::unique_ptr<Block>>& blocks,
                                               std::int64_t& total) {
  std::map<std::string, std::int64_t> offsets;
  for (const auto& block : blocks) {
    for (const ParameterSpec& spec : block->parameters()) {
      if (!offsets.emplace(spec.name, total).second) continue;
      total += (spec.numel() + kAlignment - 1) / kAlignment * kAlignment;
    }
  }
  return offsets;
}

}  // namespace

DecoderStep::DecoderStep(const DecoderConfig& config) : blocks_(make_decoder(config, {})) {
  std::int64_t total = 0;
  const auto offsets = offsets_of(blocks_, total);
  const auto options = at::TensorOptions(at::kBFloat16).device(at::kCUDA, 0);
  weight_ = at::zeros({total}, options);
  gradient_ = at::zeros({total}, options);
  // The head's gradients come first, so a shared embedding's are added to them.
  const std::string shared = config.tied_embeddings ? blocks_[0]->parameters()[0].name : "";
  for (const auto& block : blocks_) {
    auto& parameters = parameters_.emplace_back();
    for (const ParameterSpec& spec : block->parameters()) {
      const auto part = [&](const at::Tensor& flat) {
        return flat.narrow(0, offsets.at(spec.name), spec.numel()).view(spec.shape);
      };
      const bool accumulate = block == blocks_.front() && spec.name == shared;
      parameters.push_back({part(weight_), part(gradient_), accumulate});
      const at::Tensor values = at::empty({spec.numel()}, options.dtype(at::kFloat));
      initialize(spec, kSeed, 0, values);
      part(weight_).copy_(values.view(spec.shape));
    }
  }
  optimizer_.master = weight_.to(at::kFloat);
  optimizer_.exp_avg = at::zeros_like(optimizer_.master);
  optimizer_.exp_avg_sq = at::zeros_like(optimizer_.master);
  optimizer_.grad = gradient_;
  optimizer_.weight = weight_;
}

at::Tensor DecoderStep::forward_backward(DeviceBatch& batch) const {
  std::vector<std::unique_ptr<Tape>> tapes(blocks_.size());
  at::Tensor x;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    BlockOutput output =
        blocks_[i]->forward(parameters_[i], {batch, BlockMode::kTrain, options_}, x);
    x = std::move(output.value);
    tapes[i] = std::move(output.tape);
  }
  const at::Tensor loss = x;
  at::Tensor grad;
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    grad = blocks_[i]->backward(parameters_[i], {batch, BlockMode::kTrain, options_},
                                std::move(tapes[i]), grad);
  }
  return loss;
}

void DecoderStep::update(const at::Tensor& loss) {
  const at::Tensor sums = step_sums(squared_norm_partials(gradient_), loss, {}, {});
  const StepScalars scalars = step_scalars(sums, kMaxNorm);
  const ShardRange whole{.numel = gradient_.numel()};
  adamw(optimizer_, {&whole, 1}, AdamWOptions{}, scalars.clip_factor, scalars.skip);
}

}  // namespace packtrain

#include "tests/parallel/sharding/toy_blocks.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/tanh.h>

#include <algorithm>

#include "models/block/batch.h"
#include "models/block/split_backward.h"
#include "models/ops/fp8/fp8.h"
#include "models/ops/fp8/fp8_linear.h"

namespace packtrain::test {
namespace {

class ToyTape : public Tape {
 public:
  explicit ToyTape(at::Tensor saved) : tensor(std::move(saved)) {}
  at::Tensor tensor;
  at::Tensor inner;                   // of a backward in two parts: the gradient before the tanh,
  std::vector<Parameter> parameters;  // and whose gradients are to come
};

at::Tensor saved(std::unique_ptr<Tape> tape) {
  return static_cast<ToyTape&>(*tape).tensor;
}

void write_gradient(const Parameter& parameter, const at::Tensor& gradient) {
  if (!parameter.grad.defined()) return;
  if (parameter.accumulate) {
    parameter.grad.add_(gradient);
  } else {
    parameter.grad.copy_(gradient);
  }
}

class ToyBlock : public Block {
 public:
  ToyBlock(std::string name, std::vector<ParameterSpec> specs)
      : name_(std::move(name)), specs_(std::move(specs)) {}
  const std::string& name() const override { return name_; }
  const std::vector<ParameterSpec>& parameters() const override { return specs_; }

 protected:
  std::int64_t hidden() const { return specs_[0].shape.back(); }

 private:
  std::string name_;
  std::vector<ParameterSpec> specs_;
};

class ScaleBlock : public ToyBlock {
 public:
  using ToyBlock::ToyBlock;
  BlockOutput forward(std::span<const Parameter> parameters, const BlockContext& context,
                      const at::Tensor&) const override {
    const at::Tensor y = context.batch.loss_weight.view({-1, hidden()}).mul(parameters[0].value);
    return {parameters.size() > 1 ? y.add(parameters[1].value) : y, nullptr};
  }
  at::Tensor backward(std::span<const Parameter> parameters, const BlockContext& context,
                      std::unique_ptr<Tape>, const at::Tensor& grad) const override {
    write_gradient(parameters[0], context.batch.loss_weight.view({-1, hidden()}).mul(grad).sum(0));
    if (parameters.size() > 1) write_gradient(parameters[1], grad.sum(0));
    return {};
  }
};

class TanhBlock : public ToyBlock, public SplitBackward {
 public:
  using ToyBlock::ToyBlock;
  const SplitBackward* split_backward() const override { return this; }
  BlockOutput forward(std::span<const Parameter> parameters, const BlockContext& context,
                      const at::Tensor& x) const override {
    at::Tensor y = output(parameters, x);
    return {y, context.mode == BlockMode::kTrain ? std::make_unique<ToyTape>(x) : nullptr};
  }
  at::Tensor backward(std::span<const Parameter> parameters, const BlockContext& /*context*/,
                      std::unique_ptr<Tape> tape, const at::Tensor& grad) const override {
    const at::Tensor x_grad = backward_input(parameters, *tape, grad);
    backward_weight(*tape);
    return x_grad;
  }
  at::Tensor backward_input(std::span<const Parameter> parameters, Tape& tape,
                            const at::Tensor& grad) const override {
    auto& kept = static_cast<ToyTape&>(tape);
    const at::Tensor y = output(parameters, kept.tensor);
    kept.inner = grad.mul(y.mul(y).neg().add(1.0));
    kept.parameters.assign(parameters.begin(), parameters.end());
    return at::mm(kept.inner, matrix(parameters).t());
  }
  void backward_weight(Tape& tape) const override {
    auto& kept = static_cast<ToyTape&>(tape);
    write_gradient(kept.parameters[0], at::mm(kept.tensor.t(), kept.inner));
    if (kept.parameters.size() > 1) write_gradient(kept.parameters[1], kept.inner.sum(0));
  }

 private:
  // Decoded to float32.
  static at::Tensor matrix(std::span<const Parameter> parameters) {
    const Parameter& weight = parameters[0];
    return weight.fp8_scale.defined() ? rounded_to_fp8(weight) : weight.value.to(at::kFloat);
  }
  static at::Tensor output(std::span<const Parameter> parameters, const at::Tensor& x) {
    const at::Tensor product = at::mm(x, matrix(parameters));
    return at::tanh(parameters.size() > 1 ? product.add(parameters[1].value) : product);
  }
};

// Loss = sum of x * p; writes its gradient in forward, as a fused loss does.
class SumBlock : public ToyBlock {
 public:
  using ToyBlock::ToyBlock;
  BlockOutput forward(std::span<const Parameter> parameters, const BlockContext& context,
                      const at::Tensor& x) const override {
    const at::Tensor loss = x.mul(parameters[0].value).sum();
    if (context.mode == BlockMode::kTrain) write_gradient(parameters[0], x.sum(0));
    return {loss, context.mode == BlockMode::kTrain ? std::make_unique<ToyTape>(x) : nullptr};
  }
  at::Tensor backward(std::span<const Parameter> parameters, const BlockContext& /*context*/,
                      std::unique_ptr<Tape> tape, const at::Tensor&) const override {
    return parameters[0].value.expand_as(saved(std::move(tape))).contiguous();
  }
};

}  // namespace

at::Tensor rounded_to_fp8(const Parameter& weight) {
  if (weight.fp8_codes.defined()) return weight.fp8_codes.to(at::kFloat).mul(weight.fp8_scale[0]);
  const at::Tensor scale = fp8_weight_scale(weight, weight.value);
  const Fp8Copies copies =
      fp8_cast(weight.value, scale, {.rows = true, .has_known_scale = weight.fp8_scale.defined()});
  return copies.rows.to(at::kFloat).mul(scale[0]);
}

std::vector<std::unique_ptr<Block>> make_toy_blocks(const ToyOptions& options) {
  const std::int64_t hidden = options.hidden;
  std::vector<std::unique_ptr<Block>> blocks;
  const auto vector = [&](const std::string& name, bool trainable) {
    return ParameterSpec{name, {hidden}, {}, OptimizerGroup::kNoDecay, trainable};
  };
  const std::string first = "first.weight";
  std::vector<ParameterSpec> of_first = {vector(first, !options.frozen_first)};
  if (options.first_bias) of_first.push_back(vector("first.bias", true));
  blocks.push_back(std::make_unique<ScaleBlock>("first", std::move(of_first)));
  for (int l = 0; l < options.num_layers; ++l) {
    const bool frozen =
        std::count(options.frozen_layers.begin(), options.frozen_layers.end(), l) > 0;
    const std::string name = "layer" + std::to_string(l);
    std::vector<ParameterSpec> specs = {{.name = name + ".weight",
                                         .shape = {hidden, hidden},
                                         .trainable = !frozen,
                                         .adapter = l % options.num_adapters,
                                         .optimizer = l % options.num_optimizers,
                                         .encoding = options.layer_encoding,
                                         .in_fp8 = options.in_fp8}};
    if (options.bias) specs.push_back(vector(name + ".bias", true));
    blocks.push_back(std::make_unique<TanhBlock>(name, std::move(specs)));
  }
  const std::string last = options.tied ? first : "last.weight";
  const bool trainable = options.tied ? !options.frozen_first : true;
  blocks.push_back(
      std::make_unique<SumBlock>("last", std::vector<ParameterSpec>{vector(last, trainable)}));
  return blocks;
}

}  // namespace packtrain::test

#include "models/decoder/head_block.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <span>
#include <string>
#include <utility>

#include "models/block/batch.h"
#include "models/layers/declared_parameters.h"
#include "models/layers/norm.h"
#include "models/layers/routing_statistics.h"
#include "models/ops/linear/linear.h"
#include "models/ops/linear/lora.h"
#include "models/ops/linear/lora_linear.h"
#include "models/ops/linear_cross_entropy/cross_entropy.h"
#include "models/ops/linear_cross_entropy/greedy.h"
#include "models/ops/linear_cross_entropy/linear_loss.h"
#include "models/ops/linear_cross_entropy/sample_labels.h"

namespace packtrain {
namespace {

struct HeadTape : Tape {
  at::Tensor grad_x;
};

std::string head_weight(const DecoderConfig& config) {
  return config.tied_embeddings ? "embed.weight" : "head.weight";
}

bool is_head_trained(const DecoderConfig& config) {
  return config.is_trained(head_weight(config));
}

BackwardMemory head_memory(const DecoderConfig& config, const ValueShape& x,
                           const MicroBatchShape& size) {
  const HeadChunks chunks =
      plan_head_chunks({.num_rows = x.num_rows,
                        .vocab_size = config.vocab_size,
                        .hidden_size = config.hidden_size,
                        .element_bytes = static_cast<std::int64_t>(c10::elementSize(x.dtype)),
                        .narrow_gradient = size.narrow_head_gradient && is_head_trained(config)},
                       size.on_gpu);
  return {"loss",
          {{"head: its input, norm and gradient", 3 * x.bytes()},
           {"logits", chunks.logits_bytes},
           {"head: its weight for a multiple of 8 words", chunks.weight_bytes},
           {"head: float32 sum of the weight's gradient", chunks.gradient_bytes}}};
}

// Writes the chunk's elements of `row_losses`, float32 [N]. With weights also the gradient of the
// logits, in their place. Greedy tokens need no soft cap: it keeps the order of logits.
void write_row_losses(const LogitsChunk& chunk, const DeviceBatch& batch,
                      const at::Tensor& row_losses, double soft_cap) {
  const auto of_chunk = [&](const at::Tensor& rows) {
    return rows.narrow(0, chunk.begin, chunk.logits.size(0));
  };
  const CrossEntropyOptions options{.soft_cap = soft_cap};
  const at::Tensor labels = batch.sample_seeds.defined()
                                ? sample_labels(chunk.logits, of_chunk(batch.sample_seeds), options)
                                : of_chunk(batch.loss_labels);
  if (batch.row_greedy.defined()) {
    greedy_labels(chunk.logits, labels, of_chunk(batch.row_greedy));
  }
  cross_entropy(chunk.logits,
                {.labels = labels, .weights = chunk.weights, .row_losses = of_chunk(row_losses)},
                options);
}

}  // namespace

struct HeadBlock::Weights {
  NormWeights norm;
  const Parameter* head;
  const Parameter* bias;
  const Parameter* lora_a;
  const Parameter* lora_b;
};

// The low-rank update of the head in one pass: s = scale x A^T, and the gradients of x and A.
class HeadBlock::Update {
 public:
  // Without an update, `a` is null.
  Update(const LoraModules* modules, const Weights& weights, const at::Tensor& x,
         const LoraDropout& dropout, const GemmTiming& timing, bool gradients)
      : modules_(modules), a_(weights.lora_a), x_(x), dropout_(dropout), timing_(timing) {
    if (a_ == nullptr) return;
    terms_.s = lora_low_rank(x, *a_, *modules, dropout, timing);
    terms_.b = weights.lora_b;
    if (gradients) terms_.grad_s = at::empty_like(terms_.s);
  }

  const LogitsUpdate* terms() const { return a_ == nullptr ? nullptr : &terms_; }
  // Adds to the logits of all rows.
  void add_to(const at::Tensor& logits) const {
    if (a_ != nullptr) lora_forward(logits, terms_.s, *modules_, std::span(&terms_.b, 1), timing_);
  }
  // Writes dA. Returns the gradient of x, with that of the head.
  at::Tensor backward(const at::Tensor& grad_x) const {
    if (a_ == nullptr) return grad_x;
    scale_modules(terms_.grad_s, *modules_);
    lora_backward_a(terms_.grad_s, x_, *a_, *modules_, dropout_, timing_);
    return lora_backward_x(terms_.grad_s, *a_, *modules_, dropout_, timing_, grad_x);
  }

 private:
  const LoraModules* modules_;
  const Parameter* a_;
  at::Tensor x_;
  LoraDropout dropout_;
  const GemmTiming& timing_;
  LogitsUpdate terms_;
};

HeadBlock::HeadBlock(std::vector<ParameterSpec> parameters, const DecoderConfig& config,
                     std::shared_ptr<const Objective> objective)
    : parameters_(std::move(parameters)),
      norm_(config.norm),
      logit_multiplier_(config.logit_multiplier),
      soft_cap_(config.logit_soft_cap),
      has_bias_(config.head_bias),
      lora_(config.lora_of(head_weight(config))),
      lora_dropout_(lora_ != nullptr ? config.adapter->dropout : 0),
      experts_(config.experts),
      objective_(std::move(objective)) {}

HeadBlock::Weights HeadBlock::weights(std::span<const Parameter> parameters) const {
  const Parameter* next = parameters.data();
  Weights weights{};
  if (norm_.has_weight) weights.norm.weight = next++;
  if (norm_.has_bias) weights.norm.bias = next++;
  weights.head = next++;
  if (has_bias_) weights.bias = next++;
  if (lora_ != nullptr) {
    weights.lora_a = next++;
    weights.lora_b = next++;
  }
  return weights;
}

at::Tensor HeadBlock::logits(const Weights& weights, const Update& update, const at::Tensor& normed,
                             const GemmTiming& timing) const {
  const at::Tensor logits = linear_forward(normed, *weights.head, weights.bias, timing);
  update.add_to(logits);
  return soft_cap_ == 0 ? logits : logits.div_(soft_cap_).tanh_().mul_(soft_cap_);
}

LoraDropout HeadBlock::dropout(const DeviceBatch& batch) const {
  if (lora_dropout_ == 0 || !batch.row_seeds.defined()) return {};
  return {batch.row_seeds.index_select(0, batch.loss_index), lora_dropout_};
}

// To multiply the logits, multiplies one of their factors, which is far smaller.
BlockOutput HeadBlock::forward(std::span<const Parameter> parameters, const BlockContext& context,
                               const at::Tensor& x) const {
  const bool training = context.mode == BlockMode::kTrain;
  const at::NoGradGuard no_grad;
  DeviceBatch& batch = context.batch;
  const GemmTiming& timing = context.options.gemm_timing;
  finish_routing(batch, experts_);
  Weights w = weights(parameters);
  if (batch.without_adapter) w.lora_a = nullptr;
  const NormOutput normed = norm_forward(x, w.norm, norm_);
  if (logit_multiplier_ != 1.0) normed.y.mul_(logit_multiplier_);
  const Update update(lora_.get(), w, normed.y, dropout(batch), timing, training);
  if (batch.row_logits.defined() && x.size(0) > 0)
    batch.row_logits.copy_(logits(w, update, normed.y, timing));
  const at::Tensor row_losses =
      batch.row_losses.defined() ? batch.row_losses : at::empty_like(batch.loss_weight);
  ObjectiveValue objective;
  RowWeights row_weights;
  if (objective_->is_linear()) {
    row_weights.known = batch.loss_weight;
  } else {
    row_weights.from_losses = [&] {
      objective = objective_->evaluate(batch, row_losses);
      return objective.gradient;
    };
  }
  at::Tensor grad_x = linear_loss(
      normed.y, *w.head, w.bias,
      {.gradients = training,
       .weights = row_weights,
       .gemm_timing = timing,
       .update = update.terms()},
      [&](const LogitsChunk& chunk) { write_row_losses(chunk, batch, row_losses, soft_cap_); });
  if (!training && batch.only_row_losses) return {at::zeros({}, row_losses.options()), nullptr};
  if (!objective.loss.defined()) objective = objective_->evaluate(batch, row_losses);
  if (!training) return {objective.loss, nullptr};
  grad_x = update.backward(grad_x);
  if (logit_multiplier_ != 1.0) grad_x.mul_(logit_multiplier_);
  auto tape = std::make_unique<HeadTape>();
  tape->grad_x = norm_backward(grad_x, x, normed.statistics, w.norm, norm_);
  return {objective.loss, std::move(tape)};
}

at::Tensor HeadBlock::backward(std::span<const Parameter> /*parameters*/,
                               const BlockContext& /*context*/, std::unique_ptr<Tape> tape,
                               const at::Tensor& /*grad_output*/) const {
  return std::move(static_cast<HeadTape&>(*tape).grad_x);
}

ShapeTape head_shapes(const DecoderConfig& config, const MicroBatchShape& size) {
  ShapeTape tape(size);
  const ValueShape x{size.num_supervised_rows, config.hidden_size, size.compute};
  declare_norm(tape, "final_norm", config.hidden_size, config.norm);
  declare_weight(tape, head_weight(config), {config.vocab_size, config.hidden_size},
                 config.initializer_range);
  declare_bias(tape, "head.bias", {config.vocab_size}, config.head_bias);
  if (const auto modules = config.lora_of(head_weight(config))) {
    declare_lora(tape, "head", *modules, config.hidden_size, config.adapter->name);
  }
  Operator head;
  head.inputs = {tape.value(ValueKind::kInput, "input", x)};
  const std::int64_t multiply_adds = x.numel() * config.vocab_size;
  (is_head_trained(config) ? head.multiply_adds.of_rows : head.multiply_adds.of_frozen_rows) =
      multiply_adds;
  head.memory = [=](const MicroBatchShape& of, const RecomputePolicy&) {
    return head_memory(config, x, of);
  };
  tape.record(std::move(head));
  return tape;
}

}  // namespace packtrain

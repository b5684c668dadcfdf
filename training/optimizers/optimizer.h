// The interface of optimizers: the state that one keeps, and its update of a part of the flat
// shard. optimizer.cpp has the table of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "framework/config/config.h"
#include "models/block/block.h"
#include "parallel/sharding/optimizer_state.h"

namespace packtrain {

// A part of the flat shard. All tensors are 1-D [n], contiguous and on one device.
struct ShardPart {
  at::Tensor master;              // float32
  at::Tensor grad;                // float32 or bfloat16
  std::vector<at::Tensor> state;  // in the order of Optimizer::state()
  at::Tensor weight;              // the master as encoded: bfloat16, or the master itself
  // int32 [n]: the largest magnitudes of weights (ShardRange::amax), as bits of float32. Undefined
  // if no range has one.
  at::Tensor amax = {};
};

// Elements of a part of one optimizer group.
struct ShardRange {
  std::int64_t begin = 0;
  std::int64_t numel = 0;
  OptimizerGroup group = OptimizerGroup::kDecay;
  // Index of its first element in the whole model. Random bits depend on it, so that they are the
  // same on any number of ranks.
  std::int64_t first_element = 0;
  // Element of ShardPart::amax. The update enters there what is larger: the magnitudes of `weight`
  // as written. -1: not asked for.
  int amax = -1;
};

struct UpdateOptions {
  double learning_rate = 0;
  std::int64_t step = 1;   // optimizer steps of the run including this one
  at::Tensor clip_factor;  // float32 [] on the device; multiplies the gradient
  at::Tensor skip;         // uint8 [] on the device; nothing is written when it is not zero
  // int32 [kUnclippedCounters] (unclipped.h) or undefined. An optimizer that clips each element's
  // step adds the number of elements that it did not clip.
  at::Tensor num_unclipped = {};
};

// The update of a diagonal Hessian estimate, from a gradient of its own.
struct HessianOptions {
  double num_tokens = 1;  // sampled labels of all ranks, B in training/steps/hessian_batches.h
  std::int64_t step = 1;  // as in UpdateOptions
  at::Tensor skip;        // as in UpdateOptions
};

// The passes over a part: prepare(), update() and update_hessian().
enum class UpdatePass { kPrepare, kUpdate, kHessian };
// What a pass does with a tensor. What is not used need not be copied (memory.offload: optimizer).
enum class StateUse { kNone, kRead, kReadAndWrite };

// Settings of factored second moments (training/optimizers/adafactor.h has their formula).
struct FactoredSettings {
  double beta2_decay = 0;
  double epsilon = 0;
  double min_rms = 0;
  double clip_threshold = 0;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  virtual const char* name() const = 0;  // for traces
  virtual std::vector<OptimizerStateSpec> state() const = 0;
  virtual StateUse master_use(UpdatePass /*pass*/) const { return StateUse::kReadAndWrite; }
  // `tensor`: its index in state().
  virtual StateUse state_use(UpdatePass /*pass*/, std::size_t /*tensor*/) const {
    return StateUse::kReadAndWrite;
  }
  // True if update() needs whole matrices, which ranks exchange between prepare() and update().
  virtual bool orthogonalises() const { return false; }
  // Replaces the gradient by what is to be orthogonalised, and updates the state. update() then
  // finds the orthogonal matrices in the place of the gradient. Otherwise as update().
  virtual void prepare(const ShardPart& /*part*/, std::span<const ShardRange> /*ranges*/,
                       const UpdateOptions& /*options*/) const {}
  // Not null if FactoredMoments (training/steps/factored_moments.h) keeps the state. A parameter
  // has one tensor of it. update() then finds its updates in the place of the gradient.
  virtual const FactoredSettings* factored() const { return nullptr; }
  // Enqueues the update on the current stream. The host does not wait. `ranges` are contiguous and
  // cover the part.
  virtual void update(const ShardPart& part, std::span<const ShardRange> ranges,
                      const UpdateOptions& options) const = 0;

  // True if update_hessian() writes a part of the state. It is then called every
  // optimizer.hessian_every steps, after update(). part.grad is the gradient of Hessian batches
  // (training/steps/hessian_batches.h).
  virtual bool has_hessian() const { return false; }
  virtual void update_hessian(const ShardPart& /*part*/, std::span<const ShardRange> /*ranges*/,
                              const HessianOptions& /*options*/) const {}
};

// The optimizer that `optimizer.name` selects. `seed`: of stochastic rounding.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerSection& options, std::uint64_t seed);

// The weight decay of each group. Norms and biases have none unless decay_norms_and_biases is true.
std::array<double, kNumOptimizerGroups> weight_decays(const OptimizerSection& options);

}  // namespace packtrain

// Keys of the sections model, batch, optimizer, schedule and precision.
#include "framework/config/schema_sections.h"

namespace packtrain {
namespace {

Choices<Strategy> strategies() {
  Choices<Strategy> choices;
  for (const StrategyTraits& traits : kStrategyTraits) {
    choices.emplace_back(traits.name, traits.strategy);
  }
  return choices;
}

Choices<std::string> optimizers() {
  Choices<std::string> choices;
  for (const char* name : kOptimizerNames) choices.emplace_back(name, name);
  return choices;
}

Choices<Moments> moments() {
  return {{"fp32", Moments::kFloat32}, {"bf16", Moments::kBFloat16}, {"int8", Moments::kInt8}};
}

Choices<Precision> precisions() {
  return {{"fp32", Precision::kFloat32}, {"bf16", Precision::kBFloat16}};
}

}  // namespace

std::vector<Field> fields_of(ModelSection& s) {
  return {
      text("model.path", s.path)
          .means("A Hugging Face folder with config.json and weights, or `hf:OWNER/NAME` or "
                 "`hf:OWNER/NAME@REVISION`, which is downloaded once. Set either this or "
                 "model.config."),
      json_map("model.config", s.config)
          .means("The keys of a config.json, for a model with random weights. "
                 "`model.config.KEY=VALUE` on the command line changes one key."),
      text_list("model.frozen", s.frozen)
          .means("Parameters that are not trained, with the names that `packtrain verify` prints. "
                 "`*` matches any text."),
      choice("model.base", s.base,
             {{"bf16", BaseStorage::kBFloat16},
              {"nf4", BaseStorage::kNf4},
              {"fp8", BaseStorage::kFp8}})
          .means("How frozen weights of projections are stored. `bf16`: in the type of "
                 "precision.compute. `nf4`: in 4 bits with double quantisation, as bitsandbytes "
                 "does. `fp8`: as 8-bit floats with one scale for each weight. Products decode "
                 "them; those of precision.linear: fp8_tensor read `fp8` as it is. Embeddings, "
                 "head, norms and biases are not encoded."),
      integer("model.resize_vocabulary", s.resize_vocabulary, 1)
          .in("tokens")
          .means("Resizes embedding and head of model.path to this vocabulary size. New rows are "
                 "the mean of the existing rows."),
      real("model.dropout", s.dropout, {.low = 0})
          .means("0: ignore the dropout probabilities of config.json. Dropout is not supported, so "
                 "a model with dropout is rejected without this key."),
      text_list("model.ignore_keys", s.ignore_keys)
          .means("Keys of config.json to ignore with a warning. Use it for keys that packtrain "
                 "rejects although they have no effect on this model."),
      text("model.prefix", s.prefix)
          .means("Prefix of all tensor names in model.path, such as `_orig_mod.`. It is removed at "
                 "load to get the names of transformers."),
  };
}

std::vector<Field> fields_of(BatchSection& s) {
  return {
      choice("batch.strategy", s.strategy, strategies())
          .means("How examples become batches. `padding`: pad to the longest example. "
                 "`padding_free`: concatenate the same examples. `balanced`: distribute the "
                 "examples of a step over all ranks by cost. `multipack`: fill packs of a fixed "
                 "number of tokens with whole examples. `fixed_length`: cut the token stream into "
                 "rows of data.max_length. `file`: read the steps from batch.plan_file. The first "
                 "three have the same steps and losses."),
      choice("batch.order", s.order,
             {{"sequential", OrderKind::kSequential},
              {"random", OrderKind::kRandom},
              {"group_by_length", OrderKind::kGroupByLength}})
          .means("Order of examples in an epoch: `sequential`, the order of the store; `random`, "
                 "shuffled by run.seed; `group_by_length`, shuffled with similar lengths within a "
                 "step."),
      integer("batch.global_batch_size", s.global_batch_size, 1)
          .in("examples")
          .means("Examples in an optimizer step over all ranks. With `fixed_length`: rows of "
                 "data.max_length. With `multipack`: the number of tokens of that many rows. "
                 "Gradient accumulation follows from it and the number of ranks."),
      integer("batch.global_batch_tokens", s.global_batch_tokens, 1)
          .in("tokens")
          .means("Tokens in an optimizer step over all ranks, instead of batch.global_batch_size."),
      integer("batch.micro_batch_size", s.micro_batch_size, 1)
          .in("examples")
          .means("`padding` and `padding_free`: examples in a micro-batch of one rank."),
      integer_or_auto("batch.max_tokens_per_micro_batch", s.max_tokens_per_micro_batch, 1,
                      kMaxTokens)
          .in("tokens")
          .means("Maximum number of tokens in a micro-batch of one rank, at least data.max_length. "
                 "`auto`: as many as fit in memory (memory.limit_gib)."),
      flag("batch.cross_example_attention", s.cross_example_attention)
          .means("`fixed_length`: attend across the examples of a row, as if the row were one "
                 "sequence."),
      integer("batch.packing_window", s.packing_window, 1)
          .in("examples")
          .means("`multipack`: an example moves by fewer places than this in the order. A larger "
                 "window fills packs better."),
      text("batch.plan_file", s.plan_file)
          .means("`file`: the plan file (docs/strategies.md). Each of its steps has examples, or "
                 "their ranks and micro-batches as well."),
      flag("batch.share_prefixes", s.share_prefixes)
          .means("Compute once what the examples of a group begin with, such as the prompt of a "
                 "pair or the earlier turns of a conversation. Every answer attends to it. Losses "
                 "do not change."),
      choice("batch.cost", s.cost,
             {{"flops", CostSource::kFlops}, {"measured", CostSource::kMeasured}})
          .means("Cost that balances ranks: FLOPs of the model, or times measured before the first "
                 "step with a speed for each rank."),
      choice("batch.normalize", s.normalize,
             {{"tokens", Normalize::kTokens}, {"examples", Normalize::kExamples}})
          .means("What has equal weight in the loss of a step: each supervised token, or each "
                 "example."),
  };
}

std::vector<Field> fields_of(OptimizerSection& s) {
  return {
      choice("optimizer.name", s.name, optimizers())
          .means(
              "The optimizer. `adamw`: AdamW. `muon`: Muon for the matrices of layers, and AdamW "
              "for embeddings, head, adapters, norms and biases. Both have one rate. `lion`: Lion, "
              "with a rate 3 to 10 times lower. `sophia`: Sophia-G, which divides the moment by an "
              "estimate of the Hessian's diagonal and clips the step of each element. With it the "
              "defaults of optimizer.betas and optimizer.epsilon are [0.965,0.99] and 1e-15 "
              "(docs/sophia.md). `adafactor`: Adafactor, whose second moment of a matrix is a "
              "number for each row and each column."),
      real("optimizer.learning_rate", s.learning_rate, {.low = 0})
          .means("Peak learning rate, reached at the end of warm-up."),
      real_pair("optimizer.betas", s.betas, {.low = 0, .high = 1, .below = true})
          .means("AdamW: decay rates of the first and second moment. Lion: rates of its direction "
                 "and of its moment, often [0.9, 0.99]. Sophia: of the moment and the Hessian "
                 "estimate."),
      real("optimizer.momentum", s.momentum, {.low = 0, .high = 1, .below = true})
          .means("Muon: decay rate of the momentum, which is Nesterov's."),
      real("optimizer.epsilon", s.epsilon, {.low = 0, .above = true})
          .means(
              "AdamW: added to the square root of the second moment. Sophia: lower bound of gamma "
              "times the Hessian estimate."),
      real("optimizer.weight_decay", s.weight_decay, {.low = 0})
          .means("Decoupled weight decay, multiplied by the learning rate."),
      flag("optimizer.decay_norms_and_biases", s.decay_norms_and_biases)
          .means("Apply weight decay to norms and biases as well."),
      real("optimizer.max_grad_norm", s.max_grad_norm, {.low = 0})
          .means("Clip gradients to this global norm. 0: no clipping. The size of Muon's updates "
                 "does not depend on it."),
      choice("optimizer.moments", s.moments, moments())
          .means("Data type of moments. `bf16` saves 2 bytes per parameter and moment, and uses "
                 "unbiased stochastic rounding. `int8` saves 3 of AdamW's: codes with a scale for "
                 "each 256 elements. Parameters of fewer than 4,096 elements then keep fp32, and "
                 "other optimizers take bf16."),
      optimizer_groups("optimizer.groups", s.groups)
          .means("Parameters with settings of their own: a list of maps with `match` and any of "
                 "`name`, `learning_rate` and `weight_decay`. `match` is a pattern of the names "
                 "that `packtrain verify` prints, in which `*` matches any text. The first group "
                 "that matches a "
                 "parameter counts. Its rate follows the same schedule. Its decay is that of all "
                 "that matches, norms and biases too."),
      real("optimizer.gamma", s.gamma, {.low = 0, .above = true})
          .means("Sophia: factor of the Hessian estimate, rho of the authors' code. A larger one "
                 "clips fewer elements."),
      integer("optimizer.hessian_every", s.hessian_every, 1)
          .in("steps")
          .means("Sophia: steps from one update of the Hessian estimate to the next. The first one "
                 "follows step 1."),
      real("optimizer.hessian_share", s.hessian_share, {.low = 0, .high = 1, .above = true})
          .means("Sophia: share of a step's examples whose gradient updates the estimate."),
      real("optimizer.router_bias_update_rate", s.router_bias_update_rate, {.low = 0})
          .means(
              "Change of each expert's bias in a step, where the router has a bias for the choice "
              "of experts (DeepSeek-V3's). The bias of an expert with fewer tokens than the mean "
              "rises, that of one with more falls. 0: the biases stay. Pretraining took 0.001."),
  };
}

std::vector<Field> fields_of(ScheduleSection& s) {
  return {
      choice("schedule.name", s.name,
             {{"cosine", ScheduleKind::kCosine},
              {"linear", ScheduleKind::kLinear},
              {"constant", ScheduleKind::kConstant},
              {"warmup_stable_decay", ScheduleKind::kWarmupStableDecay},
              {"inverse_sqrt", ScheduleKind::kInverseSqrt}})
          .means(
              "Learning rate schedule after warm-up. `cosine` and `linear` decay until the last "
              "step. `constant` does not decay. `warmup_stable_decay` decays only in the last "
              "steps. `inverse_sqrt` decays with 1 / sqrt(step), independent of the run's length."),
      real("schedule.warmup_ratio", s.warmup_ratio, {.low = 0, .high = 1})
          .means("Fraction of the run's steps in which the learning rate rises linearly from 0."),
      integer("schedule.warmup_steps", s.warmup_steps, 0)
          .in("steps")
          .means("Number of warm-up steps, instead of schedule.warmup_ratio."),
      real("schedule.min_ratio", s.min_ratio, {.low = 0, .high = 1})
          .means("Final learning rate divided by the peak learning rate. With `inverse_sqrt`: the "
                 "minimum."),
      real("schedule.decay_ratio", s.decay_ratio, {.low = 0, .high = 1})
          .means("`warmup_stable_decay`: fraction of the run's steps, at its end, in which the "
                 "learning rate decays."),
      integer("schedule.decay_steps", s.decay_steps, 0)
          .in("steps")
          .means("`warmup_stable_decay`: number of decay steps, instead of schedule.decay_ratio."),
      choice("schedule.decay_shape", s.decay_shape,
             {{"linear", DecayShape::kLinear},
              {"cosine", DecayShape::kCosine},
              {"1-sqrt", DecayShape::kOneMinusSqrt}})
          .means("`warmup_stable_decay`: shape of the decay."),
  };
}

std::vector<Field> fields_of(PrecisionSection& s) {
  return {
      choice("precision.compute", s.compute, precisions())
          .means("Data type of weights, activations and gradients."),
      choice("precision.master", s.master, precisions())
          .means("Data type of the trained weights that the optimizer updates and checkpoints "
                 "have. `bf16` saves 4 bytes per parameter: there is no fp32 copy. Updates compute "
                 "in fp32 and use unbiased stochastic rounding. It needs precision.compute: bf16."),
      choice("precision.reduce", s.reduce, precisions())
          .means("Data type of gradients when they are reduced between ranks. It is fp32 when "
                 "precision.compute is fp32."),
      flag("precision.deterministic", s.deterministic)
          .means("Bit-identical results in every run with the same number of ranks, with slower "
                 "kernels."),
      choice("precision.linear", s.linear,
             {{"bf16", LinearProducts::kBFloat16},
              {"fp8_tensor", LinearProducts::kFp8Tensor},
              {"fp8_block", LinearProducts::kFp8Block}})
          .means("What the products of linear layers read. `bf16`: numbers of precision.compute. "
                 "`fp8_tensor`: 8-bit floats with a scale for each tensor, found for each product. "
                 "`fp8_block`: the same with a scale for each 128 numbers, on Hopper. "
                 "Embedding, head, norms, router and attention keep "
                 "precision.compute."),
      choice("precision.weight_gradient", s.weight_gradient,
             {{"bf16", WeightGradientProducts::kBFloat16},
              {"fp8", WeightGradientProducts::kFp8},
              {"fp8_block", WeightGradientProducts::kFp8Block}})
          .means("The same for the product that gives a weight's gradient. `fp8`: with a scale for "
                 "each tensor. `fp8_block`: with a scale for each 128 tokens of a feature. Except "
                 "with `bf16` the inputs of linear layers are saved for it in 8 bits."),
      text_list("precision.keep_bf16", s.keep_bf16)
          .means("Weights of linear layers whose products are not in 8 bits, with the names that "
                 "`packtrain verify` prints. `*` matches any text."),
  };
}

}  // namespace packtrain

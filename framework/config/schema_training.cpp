// What is trained and how: model, batch, optimizer, schedule, precision.
#include "framework/config/schema_sections.h"

namespace packtrain {
namespace {

constexpr std::int64_t kMaxTokens = 0x7fffffff;  // positions and boundaries are int32

Choices<Precision> precisions() {
  return {{"fp32", Precision::kFloat32}, {"bf16", Precision::kBFloat16}};
}

}  // namespace

std::vector<Field> fields_of(ModelSection& s) {
  return {
      text("model.path", s.path)
          .means("A Hugging Face folder: its config.json and weights. Give this or model.config."),
      json_map("model.config", s.config)
          .means("The keys of a config.json: a model of random weights. A single key is changed by "
                 "`model.config.KEY=VALUE` on the command line."),
      text_list("model.frozen", s.frozen)
          .means("Parameters that are not trained, by name as `packtrain verify` prints them; `*` "
                 "matches anything."),
      integer("model.resize_vocabulary", s.resize_vocabulary, 1)
          .in("tokens")
          .means("Gives the embedding and the head of model.path so many rows; new ones are the "
                 "mean of the old ones."),
      real("model.dropout", s.dropout, {.low = 0})
          .means("0 reads the dropouts of config.json as 0. None is computed, so a model that asks "
                 "for one is refused otherwise."),
      text_list("model.ignore_keys", s.ignore_keys)
          .means("Keys of config.json that are left out, with a warning: those that packtrain "
                 "refuses although they change nothing in this model."),
      text("model.prefix", s.prefix)
          .means("What all tensors of model.path have before the names that transformers gives "
                 "them, such as `_orig_mod.`: removed as they are read."),
  };
}

std::vector<Field> fields_of(BatchSection& s) {
  return {
      choice("batch.strategy", s.strategy,
             {{"padding", Strategy::kPadding},
              {"padding_free", Strategy::kPaddingFree},
              {"fixed_length", Strategy::kFixedLength},
              {"multipack", Strategy::kMultipack},
              {"balanced", Strategy::kBalanced}})
          .means("How examples become batches: `padding` pads them to the longest; `padding_free` "
                 "lays the same ones end to end; `balanced` lays a step's examples over all ranks "
                 "by cost; `multipack` fills packs of tokens with whole examples; `fixed_length` "
                 "cuts rows of data.max_length. The first three have the same steps and losses."),
      choice("batch.order", s.order,
             {{"sequential", OrderKind::kSequential},
              {"random", OrderKind::kRandom},
              {"group_by_length", OrderKind::kGroupByLength}})
          .means("The order of an epoch's examples: the store's, shuffled by run.seed, or shuffled "
                 "with steps of similar lengths."),
      integer("batch.global_batch_size", s.global_batch_size, 1)
          .in("examples")
          .means("An optimizer step, over all ranks; with fixed_length rows of data.max_length, "
                 "with multipack as many tokens as these. Ranks and accumulation follow from it."),
      integer("batch.global_batch_tokens", s.global_batch_tokens, 1)
          .in("tokens")
          .means("An optimizer step counted in tokens, instead of batch.global_batch_size."),
      integer("batch.micro_batch_size", s.micro_batch_size, 1)
          .in("examples")
          .means("padding and padding_free: what a rank computes at once."),
      integer_or_auto("batch.max_tokens_per_micro_batch", s.max_tokens_per_micro_batch, 1,
                      kMaxTokens)
          .in("tokens")
          .means("What a rank computes at once, at most; `auto` takes what memory holds "
                 "(memory.limit_gib). At least data.max_length."),
      flag("batch.cross_example_attention", s.cross_example_attention)
          .means("fixed_length: a row is one sequence, whose examples see each other."),
      integer("batch.packing_window", s.packing_window, 1)
          .in("examples")
          .means("multipack: no example moves so many places; a larger window fills packs better."),
      choice("batch.cost", s.cost,
             {{"flops", CostSource::kFlops}, {"measured", CostSource::kMeasured}})
          .means("What ranks are balanced by: FLOPs of the model, or times measured before the "
                 "first step, with a speed for each rank."),
      choice("batch.normalize", s.normalize,
             {{"tokens", Normalize::kTokens}, {"examples", Normalize::kExamples}})
          .means("What weighs the same in a step's loss: each supervised token, or each example."),
  };
}

std::vector<Field> fields_of(OptimizerSection& s) {
  return {
      choice<std::string>("optimizer.name", s.name, {{"adamw", "adamw"}})
          .means("The optimizer: AdamW."),
      real("optimizer.learning_rate", s.learning_rate, {.low = 0})
          .means("The highest learning rate, which the warm-up ends at."),
      real_pair("optimizer.betas", s.betas, {.low = 0, .high = 1, .below = true})
          .means("How much of AdamW's two moments stays from step to step."),
      real("optimizer.epsilon", s.epsilon, {.low = 0, .above = true})
          .means("AdamW's addend to the root of the second moment."),
      real("optimizer.weight_decay", s.weight_decay, {.low = 0})
          .means("Decoupled weight decay, times the learning rate."),
      flag("optimizer.decay_norms_and_biases", s.decay_norms_and_biases)
          .means("Whether norms and biases decay as well."),
      real("optimizer.max_grad_norm", s.max_grad_norm, {.low = 0})
          .means("Gradients of a larger norm (of all parameters) are scaled down to it; 0: never."),
      choice("optimizer.moments", s.moments, precisions())
          .means("How AdamW's moments are kept; bf16 saves 4 bytes a parameter and rounds at "
                 "random, right on average."),
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
          .means("How the learning rate falls after the warm-up: until the run's last step "
                 "(`cosine`, `linear`), never, in the run's last steps alone "
                 "(`warmup_stable_decay`), or with 1 / sqrt(step) for any length of the run."),
      real("schedule.warmup_ratio", s.warmup_ratio, {.low = 0, .high = 1})
          .means("The share of the run's steps in which the learning rate rises from 0."),
      integer("schedule.warmup_steps", s.warmup_steps, 0)
          .in("steps")
          .means("The length of the warm-up, instead of schedule.warmup_ratio."),
      real("schedule.min_ratio", s.min_ratio, {.low = 0, .high = 1})
          .means("The last learning rate over the highest one; with inverse_sqrt the least."),
      real("schedule.decay_ratio", s.decay_ratio, {.low = 0, .high = 1})
          .means("warmup_stable_decay: the share of the run's steps, at its end, in which the "
                 "learning rate falls."),
      integer("schedule.decay_steps", s.decay_steps, 0)
          .in("steps")
          .means("warmup_stable_decay: the length of the fall, instead of schedule.decay_ratio."),
      choice("schedule.decay_shape", s.decay_shape,
             {{"linear", DecayShape::kLinear},
              {"cosine", DecayShape::kCosine},
              {"1-sqrt", DecayShape::kOneMinusSqrt}})
          .means("warmup_stable_decay: how it falls."),
  };
}

std::vector<Field> fields_of(PrecisionSection& s) {
  return {
      choice("precision.compute", s.compute, precisions())
          .means("Weights, activations and gradients; master weights are always fp32."),
      choice("precision.reduce", s.reduce, precisions())
          .means("Gradients on their way between ranks; fp32 where precision.compute is."),
      flag("precision.deterministic", s.deterministic)
          .means("The same bits in every run on as many ranks, by slower kernels."),
  };
}

}  // namespace packtrain

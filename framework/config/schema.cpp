#include "framework/config/schema.h"

#include <iterator>

#include "framework/config/schema_sections.h"

namespace packtrain {
namespace {

constexpr std::int64_t kMaxTokens = 0x7fffffff;  // positions and boundaries are int32

std::vector<Field> fields_of(DataSection& s) {
  return {
      train_stores("data.train", s.train)
          .means("What to train on: a token store, or a list of stores and of maps {path: STORE, "
                 "repeats: times an epoch visits it, such as 0.5 or 2, loss_weight: of its "
                 "tokens}; instead of repeats share: the part of an epoch's tokens, or "
                 "probability: of its examples, for all of the list, 1 in sum."),
      choice("data.mixture_until", s.mixture_until,
             {{"first_exhausted", MixtureUntil::kFirstExhausted},
              {"all_exhausted", MixtureUntil::kAllExhausted}})
          .means("Where an epoch of stores with share or probability ends: where the first of them "
                 "would be used up once, or where each has been used up at least once. `packtrain "
                 "plan` prints how often each is used."),
      validation_stores("data.validation", s.validation)
          .means(
              "The token store that is evaluated on, or several as a map of names to stores, each "
              "with a loss of its own."),
      integer("data.max_length", s.max_length, 1, kMaxTokens)
          .in("tokens")
          .means("What an example may have; with fixed_length the length of a row."),
      choice("data.too_long", s.too_long,
             {{"error", TooLong::kError},
              {"truncate", TooLong::kTruncate},
              {"split", TooLong::kSplit},
              {"drop", TooLong::kDrop}})
          .means("What becomes of longer examples: the run ends, their end is left out, they are "
                 "cut into several, or they are left out. `packtrain plan` counts them."),
  };
}

std::vector<Field> fields_of(CheckpointSection& s) {
  return {
      interval("checkpoint.save_steps", s.save_steps)
          .in("steps")
          .means(
              "How often a checkpoint is saved: after every so many steps, each `epoch`, or each "
              "share of the run (0.1: ten times); 0: only at the end."),
      flag("checkpoint.save_final", s.save_final)
          .means("false: a run that comes to its end saves nothing, for measurements."),
      integer("checkpoint.keep", s.keep, 1, 1'000'000)
          .in("checkpoints")
          .means("The newest that stay."),
      integer("checkpoint.keep_best", s.keep_best, 0, 1'000'000)
          .in("checkpoints")
          .means("Besides these stay so many of the lowest validation loss."),
      text("checkpoint.best_by", s.best_by)
          .means(
              "Of several stores in data.validation the name of the one whose loss decides which "
              "checkpoints are best and when a run ends early; null: the first."),
      needed_text("checkpoint.resume", s.resume)
          .means("auto: go on from the newest whole checkpoint of run.output, if there is one; "
                 "never: start anew; or the folder of a checkpoint to go on from."),
      flag("checkpoint.asynchronous", s.asynchronous)
          .means("Writes from a copy in host memory while training goes on."),
      integer("checkpoint.max_failed_saves", s.max_failed_saves, 0)
          .in("saves")
          .means("So many may fail in a row; one more ends the run (66)."),
      text_list("checkpoint.allow_changed", s.allow_changed)
          .means("Keys that may differ from those of the checkpoint although they decide the run's "
                 "numbers, by name: [optimizer.learning_rate]. Other batches go on behind the "
                 "examples of the epoch that were trained."),
      flag("checkpoint.allow_repeated", s.allow_repeated)
          .means(
              "Where a changed key leaves unknown which examples of the epoch were trained (other "
              "data), or some were trained in part (fixed_length cuts them), these are trained "
              "again; false: the run is refused, and says which."),
      flag("checkpoint.weights_only", s.weights_only)
          .means("Saves the weights without the optimizer's moments, a third of the size with "
                 "float32 moments. Such a checkpoint is exported or evaluated, or starts a new run "
                 "(model.path); a run that ended early does not go on from it."),
  };
}

std::vector<Field> fields_of(MetricsSection& s) {
  return {
      flag("metrics.serve", s.serve).means("Every rank answers Prometheus."),
      flag("metrics.example_losses", s.example_losses)
          .means("Writes each step's examples and their losses to examples/ in the run folder."),
      needed_text("metrics.address", s.address)
          .means("The host's address that ranks answer on; 0.0.0.0: all of them."),
      integer("metrics.port", s.port, 1, 65535)
          .means("Of the first rank of a node, the others' follow; where it is taken, the next "
                 "free one."),
      real("metrics.last_scrape_timeout_s", s.last_scrape_timeout_s, {.low = 0, .high = 3600})
          .in("seconds")
          .means("When a run is done, each rank still answers until it was scraped once more, but "
                 "so long at most; when it has failed, so long. 0: not at all."),
  };
}

std::vector<Field> fields_of(MemorySection& s) {
  return {
      choice("memory.recompute", s.recompute,
             {{"none", Recompute::kNone},
              {"selective", Recompute::kSelective},
              {"full", Recompute::kFull}})
          .means("What is computed again in the backward to save memory: nothing, norms and "
                 "activations (cheap), or whole layers (a third more work). Losses stay the same."),
      real("memory.limit_gib", s.limit_gib, {.low = 0, .above = true})
          .in("GiB")
          .means("What a rank may take in all, with max_tokens_per_micro_batch: auto."),
  };
}

std::vector<Field> fields_of(RunSection& s) {
  return {
      needed_text("run.output", s.output)
          .means("The run's folder: configuration, log, metrics, checkpoints."),
      integer("run.num_epochs", s.num_epochs, 1, 1'000'000)
          .in("epochs")
          .means("How often every example is trained."),
      integer("run.max_steps", s.max_steps, 1)
          .in("steps")
          .means(
              "The run's length instead of run.num_epochs, and the learning rate's schedule with "
              "it: fewer steps end the run within an epoch, more repeat epochs."),
      unsigned_integer("run.seed", s.seed).means("Decides the order and random weights."),
      interval("run.evaluate_steps", s.evaluate_steps)
          .in("steps")
          .means("How often data.validation is evaluated: after every so many steps, each `epoch`, "
                 "or each share of the run (0.1: ten times), and at the end; 0: only at the end."),
      flag("run.evaluate_at_start", s.evaluate_at_start)
          .means("Evaluates before the first step, too: the loss of step 0, which is no candidate "
                 "for the best checkpoint and counts not for early stopping."),
      integer("run.early_stopping_patience", s.early_stopping_patience, 0)
          .in("evaluations")
          .means("After so many in a row without an improvement of the validation loss the run is "
                 "saved and ends (exit code 0); 0: never."),
      real("run.early_stopping_min_delta", s.early_stopping_min_delta, {.low = 0})
          .means("How far below the lowest loss so far is an improvement."),
      choice("run.cuda_graphs", s.cuda_graphs,
             {{"auto", CudaGraphs::kAuto}, {"on", CudaGraphs::kOn}, {"off", CudaGraphs::kOff}})
          .means("Forward and backward as CUDA graphs; `auto`: on one GPU, where kernels are "
                 "short."),
      integer("run.trace_steps", s.trace_steps, 0, 100)
          .in("steps")
          .means("Writes a timeline of so many to trace/ in the run folder, for Perfetto."),
      integer("run.trace_first", s.trace_first, 1)
          .means("The first step of the timeline, counted from the start of the process."),
  };
}

std::vector<Field> fields_of(SamplesSection& s) {
  return {
      interval("samples.steps", s.steps)
          .in("steps")
          .means("How often the model goes on with beginnings of examples of data.validation (or "
                 "data.train where there is none), and at the end; in samples.jsonl, which "
                 "`packtrain inspect RUN` shows. 0: never. No loss changes by it."),
      integer("samples.num_prompts", s.num_prompts, 1, 1000)
          .in("examples")
          .means("So many of each evaluation set, spread evenly over it."),
      integer("samples.prompt_tokens", s.prompt_tokens, 1, kMaxTokens)
          .in("tokens")
          .means("The beginning of an example that is learned from its first token on; of others "
                 "it is what comes before the first learned token."),
      integer("samples.max_new_tokens", s.max_new_tokens, 1, 100'000)
          .in("tokens")
          .means("A continuation's length, unless it ends before. Each token is a forward pass "
                 "over all prompts."),
      real("samples.temperature", s.temperature, {.low = 0})
          .means("0: always the likeliest token; else drawn, by run.seed, from the logits over "
                 "this."),
      real("samples.top_p", s.top_p, {.low = 0, .high = 1, .above = true})
          .means("With a temperature: drawn from the likeliest tokens that together have this "
                 "probability."),
  };
}

}  // namespace

std::vector<Field> fields_of(Config& config) {
  std::vector<Field> fields;
  const auto add = [&fields](std::vector<Field> section) {
    fields.insert(fields.end(), std::make_move_iterator(section.begin()),
                  std::make_move_iterator(section.end()));
  };
  add(fields_of(config.model));
  add(fields_of(config.data));
  add(fields_of(config.batch));
  add(fields_of(config.optimizer));
  add(fields_of(config.schedule));
  add(fields_of(config.parallel));
  add(fields_of(config.precision));
  add(fields_of(config.checkpoint));
  add(fields_of(config.guard));
  add(fields_of(config.metrics));
  add(fields_of(config.memory));
  add(fields_of(config.run));
  add(fields_of(config.samples));
  add(fields_of(config.debug));
  add(fields_of(config.fault));
  return fields;
}

}  // namespace packtrain

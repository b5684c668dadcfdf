#include "framework/config/schema.h"

#include <iterator>

#include "framework/config/adapters.h"
#include "framework/config/schema_sections.h"

namespace packtrain {
namespace {

std::vector<Field> fields_of(DataSection& s) {
  return {
      train_stores("data.train", s.train)
          .means("The training data: a token store, or a list of stores and maps. Data that is no "
                 "store (a file, a folder, `hf:OWNER/NAME`) is prepared first. A map has "
                 "`path`. `repeats` is how often an epoch visits the store (0.5, 2). `loss_weight` "
                 "is the weight of its tokens in the loss. All stores of a list can have `share` "
                 "or `probability` instead of `repeats`. `share` is the fraction of an epoch's "
                 "tokens. `probability` is the fraction of its examples. The fractions sum to 1."),
      choice("data.mixture_until", s.mixture_until,
             {{"first_exhausted", MixtureUntil::kFirstExhausted},
              {"all_exhausted", MixtureUntil::kAllExhausted}})
          .means("Where an epoch of stores with `share` or `probability` ends. `first_exhausted`: "
                 "when the first store has been used once. `all_exhausted`: when every store has "
                 "been used at least once. `packtrain plan` prints how often each store is used."),
      validation_stores("data.validation", s.validation)
          .means("The validation data: a token store, or a map of names to stores. Each store has "
                 "its own loss. Other data is prepared first, as in data.train."),
      integer("data.max_length", s.max_length, 1, kMaxTokens)
          .in("tokens")
          .means("Maximum length of an example. With `fixed_length`: the length of a row."),
      choice("data.too_long", s.too_long,
             {{"error", TooLong::kError},
              {"truncate", TooLong::kTruncate},
              {"split", TooLong::kSplit},
              {"drop", TooLong::kDrop}})
          .means("How to handle longer examples: error, truncate, split or drop. `packtrain plan` "
                 "counts them."),
      text_list("data.prepare_options", s.prepare_options)
          .means(
              "Options of `packtrain prepare` for data that is no token store yet: files, folders "
              "and data sets of the hub (`hf:OWNER/NAME`) in data.train and data.validation."),
      text("data.prepared_path", s.prepared_path)
          .means("Folder of the stores of such data. They are made once for the same data, "
                 "tokenizer and options. null: the folder `stores` in run.output."),
  };
}

std::vector<Field> fields_of(CheckpointSection& s) {
  return {
      interval("checkpoint.save_steps", s.save_steps)
          .in("steps")
          .means("How often to save a checkpoint: every N steps, every `epoch`, or after each "
                 "fraction of the run (0.1: ten times). 0: only at the end."),
      flag("checkpoint.save_final", s.save_final)
          .means("Save a checkpoint when the run completes. `false` is for measurements."),
      integer("checkpoint.keep", s.keep, 1, 1'000'000)
          .in("checkpoints")
          .means("Number of newest checkpoints to keep."),
      integer("checkpoint.keep_best", s.keep_best, 0, 1'000'000)
          .in("checkpoints")
          .means("Number of checkpoints with the lowest validation loss to keep in addition to the "
                 "newest."),
      text("checkpoint.best_by", s.best_by)
          .means("Name of the store in data.validation whose loss selects the best checkpoints and "
                 "drives early stopping. null: the first store."),
      needed_text("checkpoint.resume", s.resume)
          .means(
              "`auto`: resume from the newest complete checkpoint of run.output, if there is "
              "one. `never`: start from the beginning. A checkpoint folder: resume from it. "
              "Started again, the run then resumes from the newest checkpoint of run.output that "
              "descends from it."),
      flag("checkpoint.asynchronous", s.asynchronous)
          .means("Copy the state to host memory and write it while training continues."),
      integer("checkpoint.max_failed_saves", s.max_failed_saves, 0)
          .in("saves")
          .means("Maximum number of consecutive failed saves. One more ends the run (66)."),
      text_list("checkpoint.allow_changed", s.allow_changed)
          .means("Keys that may differ from the checkpoint although they change the run's results, "
                 "such as [optimizer.learning_rate]. When batches change, the run continues after "
                 "the examples of the epoch that were trained."),
      flag("checkpoint.allow_repeated", s.allow_repeated)
          .means("Allow examples to be trained twice in an epoch after a resume with changed keys. "
                 "It applies when it is unknown which examples were trained (other data), or when "
                 "`fixed_length` trained only a part of them. `false`: the run is rejected with a "
                 "list of the reasons."),
      flag("checkpoint.weights_only", s.weights_only)
          .means("Save weights without the optimizer's moments: a third of the size with float32 "
                 "moments. Such a checkpoint can be exported, evaluated, or given to a new run as "
                 "model.path. An interrupted run cannot resume from it."),
      text_list("checkpoint.after_save", s.after_save)
          .means("A program and its arguments that rank 0 starts on each committed checkpoint, in "
                 "order and without a shell, such as [rclone, copy, \"{checkpoint}\", "
                 "\"store:runs/{run}/step-{step}\"]. Without `{checkpoint}` its folder is the last "
                 "argument. Training does not wait. A failure is retried twice and is then a "
                 "warning."),
  };
}

std::vector<Field> fields_of(MetricsSection& s) {
  return {
      flag("metrics.serve", s.serve).means("Serve Prometheus metrics on every rank."),
      flag("metrics.example_losses", s.example_losses)
          .means(
              "Write the examples of each step and their losses to examples/ in the run folder."),
      needed_text("metrics.address", s.address)
          .means("The address that ranks listen on. 0.0.0.0: all addresses of the host."),
      integer("metrics.port", s.port, 1, 65535)
          .means("Port of the first rank of a node. The other ranks use the following ports. A "
                 "port in use is replaced by the next free one."),
      real("metrics.last_scrape_timeout_s", s.last_scrape_timeout_s, {.low = 0, .high = 3600})
          .in("seconds")
          .means("Maximum time that a rank continues to serve metrics after the run completes, "
                 "until one more scrape. After a failure the rank serves them for the whole time. "
                 "0: not at all."),
      choice_list("metrics.report_to", s.report_to,
                  {{"tensorboard", ReportTo::kTensorBoard},
                   {"wandb", ReportTo::kWandb},
                   {"mlflow", ReportTo::kMlflow}})
          .means("Rank 0 starts `packtrain follow` with the run and ends it after the last record. "
                 "`tensorboard`: event files in tensorboard/ of the run folder. `wandb` and "
                 "`mlflow` need that Python package and read its environment variables."),
  };
}

std::vector<Field> fields_of(MemorySection& s) {
  return {
      recompute_or_auto("memory.recompute", s.recompute)
          .means("What backward recomputes to save memory: nothing, norms and activation functions "
                 "(cheap), or whole layers (a third more compute). `full:20+selective`: whole "
                 "layers in the first 20, norms and activation functions in the others. "
                 "`selective:12@16384`: in micro-batches of 16,384 tokens or more; smaller ones "
                 "recompute in fewer layers, within the same memory. `auto`: what memory.fit "
                 "chooses, else nothing. Losses do not change."),
      choice("memory.fit", s.fit,
             {{"auto", MemoryFit::kAuto},
              {"keep_tokens", MemoryFit::kKeepTokens},
              {"off", MemoryFit::kOff}})
          .means("On GPUs, or with memory.limit_gib: choose the fastest settings whose planned "
                 "memory fits, of those that do not change the optimizer steps. `auto`: "
                 "memory.recompute, parallel.gather_slots and memory.offload where they are auto, "
                 "and fewer tokens than batch.max_tokens_per_micro_batch. `keep_tokens`: the same "
                 "without fewer tokens; the default where batch.max_tokens_per_micro_batch is set. "
                 "`off`: choose nothing, and start although the plan does not fit."),
      real("memory.limit_gib", s.limit_gib, {.low = 0, .above = true})
          .in("GiB")
          .means("Maximum memory of a rank, for memory.fit and for "
                 "batch.max_tokens_per_micro_batch `auto`."),
      offload_or_auto("memory.offload", s.offload)
          .means("What is kept in pinned host memory. `activations`: the inputs of layers from "
                 "forward to backward, copied while other layers compute; with memory.recompute: "
                 "full little else of a layer is kept. `optimizer`: the state of optimizers and "
                 "float32 master weights, copied to the GPU and back in each step's update. "
                 "`[activations, optimizer]`: both. `auto`: the first of these with which a plan "
                 "fits where nothing fits otherwise (memory.fit), else none. Losses do not "
                 "change."),
  };
}

std::vector<Field> fields_of(RunSection& s) {
  return {
      needed_text("run.output", s.output)
          .means("The run folder: configuration, log, metrics and checkpoints."),
      integer("run.num_epochs", s.num_epochs, 1, 1'000'000)
          .in("epochs")
          .means("Number of passes over the training data."),
      integer("run.max_steps", s.max_steps, 1)
          .in("steps")
          .means("Number of optimizer steps, instead of run.num_epochs. It also sets the length of "
                 "the learning rate schedule. The run can end within an epoch, or repeat epochs."),
      unsigned_integer("run.seed", s.seed)
          .means("Random seed for the order of examples and for random weights."),
      interval("run.evaluate_steps", s.evaluate_steps)
          .in("steps")
          .means(
              "How often to evaluate data.validation: every N steps, every `epoch`, or after each "
              "fraction of the run (0.1: ten times), and always at the end. 0: only at the end."),
      flag("run.evaluate_at_start", s.evaluate_at_start)
          .means("Evaluate before the first step as well, as step 0. This loss does not count for "
                 "the best checkpoint or for early stopping."),
      integer("run.early_stopping_patience", s.early_stopping_patience, 0)
          .in("evaluations")
          .means("Number of consecutive evaluations without improvement of the validation loss "
                 "after which the run saves and ends (exit code 0). 0: never."),
      real("run.early_stopping_min_delta", s.early_stopping_min_delta, {.low = 0})
          .means("Minimum decrease below the lowest loss that counts as an improvement."),
      choice("run.cuda_graphs", s.cuda_graphs,
             {{"auto", CudaGraphs::kAuto}, {"on", CudaGraphs::kOn}, {"off", CudaGraphs::kOff}})
          .means("Run forward and backward as CUDA graphs. `auto`: on one GPU when kernels are "
                 "short."),
      integer("run.trace_steps", s.trace_steps, 0, 100)
          .in("steps")
          .means("Number of steps to trace. The timeline for Perfetto is in trace/ of the run "
                 "folder."),
      integer("run.trace_first", s.trace_first, 1)
          .means("First step to trace, counted from the start of the process."),
      text_list("run.evaluate_command", s.evaluate_command)
          .means(
              "A program and its arguments that rank 0 starts without a shell on committed "
              "checkpoints, one at a time. `{export}`, else the last argument, is a Hugging Face "
              "folder of the checkpoint. The numbers of the JSON object in its last line of "
              "output become metrics. Training does not wait."),
      real("run.command_timeout_s", s.command_timeout_s, {.low = 0, .above = true})
          .in("seconds")
          .means("Time limit of one start of run.evaluate_command or checkpoint.after_save. A "
                 "longer one is ended and has failed."),
  };
}

std::vector<Field> fields_of(SamplesSection& s) {
  return {
      interval("samples.steps", s.steps)
          .in("steps")
          .means("How often to generate text from the beginnings of validation examples (of "
                 "data.train without data.validation). The values are those of run.evaluate_steps, "
                 "but 0: never. The model also generates text at the end. `packtrain inspect RUN` "
                 "shows the result, samples.jsonl. Losses do not change."),
      integer("samples.num_prompts", s.num_prompts, 1, 1000)
          .in("examples")
          .means("Prompts taken from each evaluation set, evenly spaced."),
      integer("samples.prompt_tokens", s.prompt_tokens, 1, kMaxTokens)
          .in("tokens")
          .means("Prompt length for examples that are supervised from their first token on. For "
                 "other examples the prompt is the text before the first supervised token."),
      integer("samples.max_new_tokens", s.max_new_tokens, 1, 100'000)
          .in("tokens")
          .means("Maximum number of generated tokens for a prompt. Each token takes one forward "
                 "pass over all prompts."),
      real("samples.temperature", s.temperature, {.low = 0})
          .means("Sampling temperature: logits are divided by it, and run.seed seeds the sampling. "
                 "0: greedy decoding."),
      real("samples.top_p", s.top_p, {.low = 0, .high = 1, .above = true})
          .means("Nucleus sampling: sample from the most likely tokens whose probabilities sum to "
                 "this value. It needs a temperature above 0."),
      flag("samples.without_adapter", s.without_adapter)
          .means("Also generate with the model under the adapter, to compare."),
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
  add(fields_of(config.adapter));
  add({adapter_list("adapters", config.adapters)
           .means(
               "Adapters that are trained together over one model: a list of maps. An entry has "
               "a `name`. It may have the keys of `adapter` except kind, path, save and "
               "use_dora. It may also have `train`, `global_batch_size`, `global_batch_tokens`, "
               "`learning_rate`, "
               "`betas`, `epsilon`, `weight_decay`, `max_grad_norm`, and `schedule`, a map. What "
               "it leaves out comes from the sections.")});
  add(fields_of(config.data));
  add(fields_of(config.objective));
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

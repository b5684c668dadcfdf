// All settings of a run: one struct for each section, with defaults. load_config (load.h) reads
// them from YAML, applies overrides and checks them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/config/adapter_section.h"
#include "framework/config/fault_section.h"
#include "framework/config/objective_section.h"
#include "framework/config/optimizer_section.h"
#include "framework/config/precision_section.h"
#include "framework/config/recompute.h"
#include "framework/config/strategy.h"
#include "framework/core/backend.h"

namespace packtrain {

// Where an epoch of stores with shares or probabilities ends.
enum class MixtureUntil { kFirstExhausted, kAllExhausted };
enum class TooLong { kError, kTruncate, kSplit, kDrop };
enum class OrderKind { kSequential, kRandom, kGroupByLength };
enum class CostSource { kFlops, kMeasured };
enum class Normalize { kTokens, kExamples };
enum class ScheduleKind { kCosine, kLinear, kConstant, kWarmupStableDecay, kInverseSqrt };
// Shape of the decay at the end of warmup_stable_decay.
enum class DecayShape { kLinear, kCosine, kOneMinusSqrt };
// The settings that memory.fit may choose, of those that are not set (training/plan/memory_fit.h).
enum class MemoryFit { kAuto, kKeepTokens, kOff };
// How frozen weights of projections are stored. kBFloat16: in the type of precision.compute.
enum class BaseStorage { kBFloat16, kNf4, kFp8 };
// When a step reduces its gradients: after each micro-batch, or once.
enum class Accumulate { kShard, kLocal };
// What is kept in host memory: inputs of layers from forward to backward, and the optimizer's
// state.
enum class Offload { kNone, kActivations, kOptimizer, kActivationsAndOptimizer };
// Forward and backward as CUDA graphs, for runs of one rank.
enum class CudaGraphs { kAuto, kOn, kOff };
// Action on a step whose loss or gradient norm is not finite. Its update is never applied.
enum class NonFinite { kStop, kSkip, kRewind };
// Where a run sends its metrics by a follower of its own (`packtrain follow`).
enum class ReportTo { kTensorBoard, kWandb, kMlflow };
// Action on a step whose loss or norm is far above those of previous steps.
enum class Spikes { kIgnore, kWarn, kSkip };

// How often something is done: every `steps` steps (0: never), after each `share` of the run's
// steps, or after each epoch.
struct Interval {
  constexpr Interval() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a number of steps is an interval.
  constexpr Interval(std::int64_t every) : steps(every) {}

  std::int64_t steps = 0;
  double share = 0;  // below 1; 0: none
  bool epoch = false;

  bool is_never() const { return steps == 0 && share == 0 && !epoch; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

struct ModelSection {
  std::string path;                 // a Hugging Face folder with weights; or:
  std::string config;               // JSON text of a config.json (a map in YAML): random weights
  std::vector<std::string> frozen;  // parameter names that are not trained; `*` matches any text
  BaseStorage base = BaseStorage::kBFloat16;
  // Vocabulary size of the model, at least that of `path`. New rows of embedding and head are the
  // mean of the existing rows.
  std::optional<std::int64_t> resize_vocabulary;
  std::optional<double> dropout;         // 0: dropout of config.json is ignored (none is computed)
  std::vector<std::string> ignore_keys;  // keys of config.json to ignore
  std::string prefix;                    // prefix of the tensor names in `path`
};

// A store to train on. An epoch visits each of its examples `repeats` times; with a fraction, some
// of them once more. Its tokens have weight `loss_weight` in the loss.
struct TrainStore {
  std::string path;
  double repeats = 1.0;
  double loss_weight = 1.0;
  // All stores of a list can have one of these instead of repeats. share: fraction of an epoch's
  // tokens. probability: fraction of its examples.
  std::optional<double> share = std::nullopt;
  std::optional<double> probability = std::nullopt;

  friend bool operator==(const TrainStore&, const TrainStore&) = default;
};

// A store to evaluate on. A single store can have no name; each of several has one.
struct ValidationStore {
  std::string name;
  std::string path;

  friend bool operator==(const ValidationStore&, const ValidationStore&) = default;
};

struct DataSection {
  std::vector<TrainStore> train;                               // token stores; required by `train`
  MixtureUntil mixture_until = MixtureUntil::kFirstExhausted;  // for stores with shares
  std::vector<ValidationStore> validation;                     // token stores; optional
  std::int64_t max_length = 4096;                              // maximum tokens of an example
  TooLong too_long = TooLong::kError;
  std::vector<std::string> prepare_options;  // of `packtrain prepare`, for data that is no store
  std::string prepared_path;                 // folder of their stores; empty: run.output/stores
};

struct BatchSection {
  Strategy strategy = kDefaultStrategy;
  OrderKind order = OrderKind::kRandom;
  // Size of an optimizer step, one of the two. Examples (rows with fixed_length; with multipack the
  // tokens of that many rows), or tokens.
  std::optional<std::int64_t> global_batch_size = 64;
  std::optional<std::int64_t> global_batch_tokens;
  std::int64_t micro_batch_size = 4;  // padding, padding_free: examples of a rank's micro-batch
  std::optional<std::int64_t> max_tokens_per_micro_batch = 16384;  // nothing: `auto`
  bool cross_example_attention = false;  // fixed_length: a row is one sequence
  std::int64_t packing_window = 4096;    // multipack: an example moves fewer places than this
  std::string plan_file;                 // file: the steps (samplers/plan_file)
  bool share_prefixes = true;  // tokens that all examples of a group begin with are computed once
  // No key: an upper limit of attention's keys for each row (training/plan/shared_keys.h).
  std::optional<double> keys_of_row;
  CostSource cost = CostSource::kFlops;  // cost that balances ranks
  Normalize normalize = Normalize::kTokens;
};

struct ScheduleSection {
  ScheduleKind name = ScheduleKind::kCosine;
  double warmup_ratio = 0.03;                // fraction of all steps; or:
  std::optional<std::int64_t> warmup_steps;  // number of steps
  double min_ratio = 0.1;                    // final learning rate / peak learning rate
  // Decay of warmup_stable_decay: fraction of all steps, or number of steps.
  double decay_ratio = 0.1;
  std::optional<std::int64_t> decay_steps;
  DecayShape decay_shape = DecayShape::kLinear;
};

constexpr int kMinGatherSlots = 3;

struct ParallelSection {
  // kMpi: TCP where the ranks were started without MPI. Nothing (`auto`): nccl where every rank has
  // a GPU, else mpi; local for one rank.
  std::optional<Backend> backend;
  int zero_stage = 3;  // 3 shards weights too; 2 keeps them gathered
  // zero_stage 3: maximum number of blocks whose gathered weights are in memory at a time. Nothing
  // (`auto`): as many as memory allows, at least kMinGatherSlots.
  std::optional<std::int64_t> gather_slots;
  // Ranks that share one copy of the model's state; further groups hold replicas. Nothing (`auto`):
  // the fewest whole hosts whose memory fits (training/plan/shard_size.h).
  std::optional<std::int64_t> shard_size;
  bool resident_embeddings = true;  // false: embedding and head share one weight slot
  // Where several ranks share a copy and a step has several micro-batches. Nothing (`auto`):
  // memory decides (training/plan/accumulation.h).
  std::optional<Accumulate> accumulate;
  // NCCL: how weights are gathered and gradients reduced. Nothing (`auto`): the fastest path that
  // all ranks support.
  std::optional<CollectivePath> gather_path;
  std::optional<CollectivePath> reduce_path;
};

struct CheckpointSection {
  Interval save_steps = 500;  // 0: only at the end
  // false: no checkpoint when the run completes (a stopped run still saves)
  bool save_final = true;
  int keep = 3;       // newest checkpoints kept, at least 1
  int keep_best = 0;  // number of checkpoints of lowest validation loss to keep in addition
  // Store of data.validation whose loss selects the best checkpoints and drives early stopping.
  // Empty: the first.
  std::string best_by;
  std::string resume = "auto";        // auto | never | a checkpoint folder
  bool asynchronous = true;           // copy to host memory, write while training continues
  std::int64_t max_failed_saves = 3;  // consecutive failures that do not end the run
  // Keys that may differ from the checkpoint although they change the run's results.
  std::vector<std::string> allow_changed;
  // Train examples a second time when the checkpoint does not show which examples of the epoch were
  // trained, or when some were trained in part.
  bool allow_repeated = false;
  bool weights_only = false;  // saves no moments; no run can resume from such a checkpoint
  // Program and arguments, run on each committed checkpoint. Empty: none.
  std::vector<std::string> after_save;
};

// Detection of bad steps, hangs, replicas that differ, and slow ranks.
struct GuardSection {
  NonFinite non_finite = NonFinite::kStop;
  Spikes spikes = Spikes::kIgnore;
  double spike_threshold = 6.0;            // deviations above the median of the window
  std::int64_t spike_window = 128;         // steps
  std::int64_t max_skipped_steps = 10;     // in a row; one more stops the run
  std::int64_t check_replicas_steps = 50;  // how often ranks compare equal state; 0: never
  double start_timeout_s = 1800;       // until the first step is done; 0 in the three limits: none
  double step_timeout_s = 600;         // for a step
  double checkpoint_timeout_s = 1800;  // for a save or an evaluation
  double straggler_ratio = 1.3;        // warn above this multiple of the median time; 0: never
};

struct MetricsSection {
  bool serve = true;
  bool example_losses = false;  // write each step's examples and their losses to the run folder
  std::string address = "127.0.0.1";
  int port = 19400;  // + rank on the node; the next free one if taken
  // Maximum time that endpoints stay after the end of the run, until one more scrape.
  double last_scrape_timeout_s = 0;
  std::vector<ReportTo> report_to;
};

struct MemorySection {
  // Nothing (`auto`): what `fit` chooses, else none.
  std::optional<RecomputeByLayer> recompute;
  MemoryFit fit = MemoryFit::kAuto;
  std::optional<double> limit_gib;  // memory of a rank
  // Nothing (`auto`): what `fit` chooses, else none.
  std::optional<Offload> offload;
};

struct RunSection {
  std::string output = "runs/default";
  std::int64_t num_epochs = 1;
  std::optional<std::int64_t> max_steps;  // length of the run instead of num_epochs
  std::uint64_t seed = 0;
  Interval evaluate_steps = 0;     // 0: only at the end
  bool evaluate_at_start = false;  // evaluate before the first step as well
  // Consecutive evaluations without improvement after which the run ends. 0: never.
  std::int64_t early_stopping_patience = 0;
  double early_stopping_min_delta = 0;  // minimum decrease of the loss that is an improvement
  CudaGraphs cuda_graphs = CudaGraphs::kAuto;  // auto: when kernels are short, on one GPU
  std::int64_t trace_steps = 0;  // write a timeline of this many steps to run.output/trace
  std::int64_t trace_first = 6;  // the first traced step, counted from the start of the process
  // Program and arguments, run on an export of committed checkpoints. Empty: none.
  std::vector<std::string> evaluate_command;
  double command_timeout_s = 3600;  // for one start of evaluate_command or checkpoint.after_save
};

// Text that the model generates during training after the beginnings of examples.
struct SamplesSection {
  Interval steps = 0;               // how often; 0: never
  std::int64_t num_prompts = 4;     // of each evaluation set
  std::int64_t prompt_tokens = 32;  // for examples that are supervised from their first token on
  std::int64_t max_new_tokens = 64;
  double temperature = 0;  // 0: greedy decoding
  double top_p = 1;
  bool without_adapter = false;  // the model under the adapter writes too
};

// Checks that help to find races. They do not change results.
struct DebugSection {
  bool poison_slots = false;  // fill a freed weight slot with NaN
  std::int64_t stream_delay_us =
      0;                           // CPU streams: random delay up to this before each piece of work
  bool check_gathers = false;      // compare checksums of gathered weights across ranks
  bool check_collectives = false;  // compare collective calls across ranks before each call
  // maximum memory of a rank's tensors; more is out of memory
  std::optional<double> memory_cap_gib;
};

struct Config {
  ModelSection model;
  AdapterSection adapter;
  // Trained together, each by its own settings over those of the sections (adapters.h). Empty: the
  // adapter of the section above, or none.
  std::vector<NamedAdapter> adapters;
  DataSection data;
  ObjectiveSection objective;
  BatchSection batch;
  OptimizerSection optimizer;
  ScheduleSection schedule;
  ParallelSection parallel;
  PrecisionSection precision;
  CheckpointSection checkpoint;
  GuardSection guard;
  MetricsSection metrics;
  MemorySection memory;
  RunSection run;
  SamplesSection samples;
  DebugSection debug;
  FaultSection fault;
};

}  // namespace packtrain

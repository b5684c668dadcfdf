// Every setting of a run, one struct a section, defaults beside their meaning.
// Read from YAML by `load_config` (load.h): strict keys, overrides, cross-field checks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace packtrain {

// Where an epoch of stores with shares ends.
enum class MixtureUntil { kFirstExhausted, kAllExhausted };
enum class TooLong { kError, kTruncate, kSplit, kDrop };
enum class Strategy { kPadding, kPaddingFree, kFixedLength, kMultipack, kBalanced };
enum class OrderKind { kSequential, kRandom, kGroupByLength };
enum class CostSource { kFlops, kMeasured };
enum class Normalize { kTokens, kExamples };
enum class ScheduleKind { kCosine, kLinear, kConstant, kWarmupStableDecay, kInverseSqrt };
// How warmup_stable_decay falls at its end.
enum class DecayShape { kLinear, kCosine, kOneMinusSqrt };
enum class Precision { kFloat32, kBFloat16 };
enum class Recompute { kNone, kSelective, kFull };
enum class BackendKind { kAuto, kLocal, kMpi, kNccl };
enum class GatherPath { kAuto, kCopyEngine, kSymmetric, kRing };
// Forward and backward of a rank alone as CUDA graphs.
enum class CudaGraphs { kAuto, kOn, kOff };
// What a step leads to whose loss or gradient norm is not finite (its update is never applied), or
// far above those before it.
enum class NonFinite { kStop, kSkip, kRewind };
enum class Spikes { kIgnore, kWarn, kSkip };
enum class FaultKind {
  kNone,
  kAbort,
  kHang,
  kSlow,
  kStop,
  kNanGradient,
  kOutOfMemory,
  kFlipBit,
  kSpin,
  kSkipCollective,
  kOtherCollective,
  kFailedCollective,
  kLostLink,
};
enum class FaultPhase { kLoad, kStep, kUpdate, kSave, kShutdown };
enum class ReducePath { kAuto, kCopyEngine, kSymmetric, kRing };

// How often something is done: after every so many steps (0: never), or instead after each share
// of the run's steps, or after each epoch.
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
  std::string path;    // a Hugging Face folder with weights; or
  std::string config;  // JSON text of a config.json (given as a YAML map): random weights
  std::vector<std::string> frozen;  // parameter names that are not trained, `*` matches anything
  // Tokens that the model shall have, as many as path's or more: new rows of the embedding and the
  // head are the mean of the old ones.
  std::optional<std::int64_t> resize_vocabulary;
  std::optional<double> dropout;  // 0: the config's dropouts are read as 0 (none is computed)
  std::vector<std::string> ignore_keys;  // of config.json, left out
  std::string prefix;                    // what path's tensors have before their names
};

// A store to train on. An epoch visits each of its examples `repeats` times, and with a fraction
// some of them once more; its tokens weigh `loss_weight` times as much as those of a store of
// weight 1.
struct TrainStore {
  std::string path;
  double repeats = 1.0;
  double loss_weight = 1.0;
  // Instead of repeats, one of the two for all stores of the list: the part of an epoch's tokens,
  // or of its examples, that are of this store.
  std::optional<double> share = std::nullopt;
  std::optional<double> probability = std::nullopt;

  friend bool operator==(const TrainStore&, const TrainStore&) = default;
};

// A store to evaluate on: one without a name, or several that each have one.
struct ValidationStore {
  std::string name;
  std::string path;

  friend bool operator==(const ValidationStore&, const ValidationStore&) = default;
};

struct DataSection {
  std::vector<TrainStore> train;                               // token stores; needed by `train`
  MixtureUntil mixture_until = MixtureUntil::kFirstExhausted;  // of stores with shares
  std::vector<ValidationStore> validation;                     // token stores; optional
  std::int64_t max_length = 4096;                              // tokens an example may have
  TooLong too_long = TooLong::kError;
};

struct BatchSection {
  Strategy strategy = Strategy::kBalanced;
  OrderKind order = OrderKind::kRandom;
  // An optimizer step, one of the two: examples (with fixed_length rows, with multipack as many
  // tokens as that many rows), or tokens.
  std::optional<std::int64_t> global_batch_size = 64;
  std::optional<std::int64_t> global_batch_tokens;
  std::int64_t micro_batch_size = 4;  // padding, padding_free: examples a rank and micro-batch
  std::optional<std::int64_t> max_tokens_per_micro_batch = 16384;  // nothing: found (`auto`)
  bool cross_example_attention = false;  // fixed_length: a row is one sequence, as if one example
  std::int64_t packing_window = 4096;    // multipack: no example moves this many places or more
  CostSource cost = CostSource::kFlops;  // what ranks are balanced by
  Normalize normalize = Normalize::kTokens;
};

struct OptimizerSection {
  std::string name = "adamw";
  double learning_rate = 1.0e-5;
  std::array<double, 2> betas = {0.9, 0.95};
  double epsilon = 1.0e-8;
  double weight_decay = 0.1;
  bool decay_norms_and_biases = false;
  double max_grad_norm = 1.0;               // 0 switches clipping off
  Precision moments = Precision::kFloat32;  // bf16: rounded stochastically
};

struct ScheduleSection {
  ScheduleKind name = ScheduleKind::kCosine;
  double warmup_ratio = 0.03;                // of all steps; or
  std::optional<std::int64_t> warmup_steps;  // this many
  double min_ratio = 0.1;                    // last learning rate / highest
  // warmup_stable_decay: its end, of all steps; or this many.
  double decay_ratio = 0.1;
  std::optional<std::int64_t> decay_steps;
  DecayShape decay_shape = DecayShape::kLinear;
};

constexpr int kMinGatherSlots = 3;

struct ParallelSection {
  BackendKind backend =
      BackendKind::kAuto;  // auto: nccl where every rank has a GPU, else mpi; local for one rank
  int zero_stage = 3;      // 3 shards weights too; 2 keeps them gathered
  // zero_stage 3: blocks whose weights are resident at once. Nothing (`auto`): as many as memory
  // holds, kMinGatherSlots at least.
  std::optional<std::int64_t> gather_slots;
  // Ranks that share one copy of the model's state; groups of them hold replicas. Nothing (`auto`):
  // all ranks on one node, else the ranks of a node.
  std::optional<std::int64_t> shard_size;
  bool resident_embeddings = true;  // false: embedding and head take turns in one weight slot
  GatherPath gather_path = GatherPath::kAuto;  // NCCL: how weights are gathered
  ReducePath reduce_path = ReducePath::kAuto;  // NCCL: how gradients are reduced
};

struct PrecisionSection {
  Precision compute = Precision::kBFloat16;
  Precision reduce = Precision::kBFloat16;  // dtype of gradients on the wire
  bool deterministic = false;               // bit-equal runs, slower kernels
};

struct CheckpointSection {
  Interval save_steps = 500;  // 0: only at the end
  bool save_final = true;     // false: a run that ends (not: is stopped) leaves no checkpoint
  int keep = 3;               // newest checkpoints kept, at least 1
  int keep_best = 0;          // besides these, as many of the lowest validation loss
  // Of several stores in data.validation the one whose loss tells the best (and when
  // run.early_stopping_patience ends); empty: the first.
  std::string best_by;
  std::string resume = "auto";        // auto | never | a checkpoint folder
  bool asynchronous = true;           // written while training goes on, from a copy in host memory
  std::int64_t max_failed_saves = 3;  // in a row, that training survives
  // Keys that may differ from those of the checkpoint that a run goes on from, though they decide
  // its numbers.
  std::vector<std::string> allow_changed;
  // Where the checkpoint cannot tell which examples of the epoch were trained, or not wholly: they
  // are trained again.
  bool allow_repeated = false;
  bool weights_only = false;  // saves no moments: no run goes on from such a checkpoint
};

// What watches over a run.
struct GuardSection {
  NonFinite non_finite = NonFinite::kStop;
  Spikes spikes = Spikes::kIgnore;
  double spike_threshold = 6.0;            // deviations above the median of the window
  std::int64_t spike_window = 128;         // steps
  std::int64_t max_skipped_steps = 10;     // in a row; one more stops the run
  std::int64_t check_replicas_steps = 50;  // ranks compare what is equal; 0: never
  double start_timeout_s = 1800;           // until the first step is done; this and below: 0: none
  double step_timeout_s = 600;             // of a step
  double checkpoint_timeout_s = 1800;      // of a save or an evaluation
  double straggler_ratio = 1.3;  // of a rank's time to the median; above: a warning; 0: none
};

// A fault to be injected, once: for tests and for trying out what a cluster does about it.
struct FaultSection {
  FaultKind kind = FaultKind::kNone;
  std::int64_t rank = 0;       // -1: every rank
  std::int64_t step = 1;       // counted from 1, as in the metrics
  std::int64_t num_steps = 1;  // slow: from there on
  FaultPhase phase = FaultPhase::kStep;
  double seconds = 3;  // slow: each time
  // out_of_memory: where in the step; -1: the last one.
  std::int64_t micro_batch = 0;
  std::int64_t block = 0;
  bool backward = false;
};

struct MetricsSection {
  bool serve = true;
  bool example_losses = false;  // write each step's examples and their losses to the run folder
  std::string address = "127.0.0.1";
  int port = 19400;  // + rank on the node; the next free one if taken
  // When the run ends, its endpoints stay until they were scraped once more, at most this long.
  double last_scrape_timeout_s = 0;
};

struct MemorySection {
  Recompute recompute = Recompute::kNone;
  std::optional<double> limit_gib;  // of a rank, for max_tokens_per_micro_batch: auto
};

struct RunSection {
  std::string output = "runs/default";
  std::int64_t num_epochs = 1;
  std::optional<std::int64_t> max_steps;  // the run's length instead of num_epochs
  std::uint64_t seed = 0;
  Interval evaluate_steps = 0;     // 0: only at the end
  bool evaluate_at_start = false;  // before the first step, too
  // Evaluations in a row without an improvement, after which the run ends; 0: never.
  std::int64_t early_stopping_patience = 0;
  double early_stopping_min_delta = 0;         // what the loss falls by at least, to have improved
  CudaGraphs cuda_graphs = CudaGraphs::kAuto;  // auto: where kernels are short, on one GPU
  std::int64_t trace_steps = 0;  // write a timeline of this many steps to run.output/trace
  std::int64_t trace_first = 6;  // the first of them, counted from the start of the process
};

// Continuations of examples' beginnings, written down while the model is trained.
struct SamplesSection {
  Interval steps = 0;               // how often; 0: never
  std::int64_t num_prompts = 4;     // from each evaluation set
  std::int64_t prompt_tokens = 32;  // of examples that are learned from their first token on
  std::int64_t max_new_tokens = 64;
  double temperature = 0;  // 0: always the likeliest token
  double top_p = 1;
};

// Aids for tests and for hunting races; they change no result.
struct DebugSection {
  bool poison_slots = false;  // fill a freed gather slot with NaN
  std::int64_t stream_delay_us =
      0;                           // CPU streams: random delay up to this before each piece of work
  bool check_gathers = false;      // compare checksums of gathered weights across ranks
  bool check_collectives = false;  // ranks tell each other what they call before they call it
  std::optional<double> memory_cap_gib;  // of a rank's tensors: what is above is out of memory
};

struct Config {
  ModelSection model;
  DataSection data;
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

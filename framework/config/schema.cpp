#include "framework/config/schema.h"

#include <iterator>

namespace packtrain {
namespace {

constexpr std::int64_t kMaxTokens = 0x7fffffff;  // positions and boundaries are int32

Choices<Precision> precisions() {
  return {{"fp32", Precision::kFloat32}, {"bf16", Precision::kBFloat16}};
}

std::vector<Field> fields_of(ModelSection& s) {
  return {
      text("model.path", s.path),
      json_map("model.config", s.config),
      text_list("model.frozen", s.frozen),
      integer("model.resize_vocabulary", s.resize_vocabulary, 1),
      real("model.dropout", s.dropout, {.low = 0}),
  };
}

std::vector<Field> fields_of(DataSection& s) {
  return {
      train_stores("data.train", s.train),
      text("data.validation", s.validation),
      integer("data.max_length", s.max_length, 1, kMaxTokens),
      choice("data.too_long", s.too_long,
             {{"error", TooLong::kError},
              {"truncate", TooLong::kTruncate},
              {"split", TooLong::kSplit},
              {"drop", TooLong::kDrop}}),
  };
}

std::vector<Field> fields_of(BatchSection& s) {
  return {
      choice("batch.strategy", s.strategy,
             {{"padding", Strategy::kPadding},
              {"padding_free", Strategy::kPaddingFree},
              {"fixed_length", Strategy::kFixedLength},
              {"multipack", Strategy::kMultipack},
              {"balanced", Strategy::kBalanced}}),
      choice("batch.order", s.order,
             {{"sequential", OrderKind::kSequential},
              {"random", OrderKind::kRandom},
              {"group_by_length", OrderKind::kGroupByLength}}),
      integer("batch.global_batch_size", s.global_batch_size, 1),
      integer("batch.global_batch_tokens", s.global_batch_tokens, 1),
      integer("batch.micro_batch_size", s.micro_batch_size, 1),
      integer_or_auto("batch.max_tokens_per_micro_batch", s.max_tokens_per_micro_batch, 1,
                      kMaxTokens),
      flag("batch.cross_example_attention", s.cross_example_attention),
      integer("batch.packing_window", s.packing_window, 1),
      choice("batch.cost", s.cost,
             {{"flops", CostSource::kFlops}, {"measured", CostSource::kMeasured}}),
      choice("batch.normalize", s.normalize,
             {{"tokens", Normalize::kTokens}, {"examples", Normalize::kExamples}}),
  };
}

std::vector<Field> fields_of(OptimizerSection& s) {
  return {
      choice<std::string>("optimizer.name", s.name, {{"adamw", "adamw"}}),
      real("optimizer.learning_rate", s.learning_rate, {.low = 0}),
      real_pair("optimizer.betas", s.betas, {.low = 0, .high = 1, .below = true}),
      real("optimizer.epsilon", s.epsilon, {.low = 0, .above = true}),
      real("optimizer.weight_decay", s.weight_decay, {.low = 0}),
      flag("optimizer.decay_norms_and_biases", s.decay_norms_and_biases),
      real("optimizer.max_grad_norm", s.max_grad_norm, {.low = 0}),
      choice("optimizer.moments", s.moments, precisions()),
  };
}

std::vector<Field> fields_of(ScheduleSection& s) {
  return {
      choice("schedule.name", s.name,
             {{"cosine", ScheduleKind::kCosine},
              {"linear", ScheduleKind::kLinear},
              {"constant", ScheduleKind::kConstant}}),
      real("schedule.warmup_ratio", s.warmup_ratio, {.low = 0, .high = 1}),
      integer("schedule.warmup_steps", s.warmup_steps, 0),
      real("schedule.min_ratio", s.min_ratio, {.low = 0, .high = 1}),
  };
}

std::vector<Field> fields_of(ParallelSection& s) {
  return {
      choice("parallel.backend", s.backend,
             {{"auto", BackendKind::kAuto},
              {"local", BackendKind::kLocal},
              {"mpi", BackendKind::kMpi},
              {"nccl", BackendKind::kNccl}}),
      integer("parallel.zero_stage", s.zero_stage, 2, 3),
      integer("parallel.gather_slots", s.gather_slots, 1, 1024),
      integer_or_auto("parallel.shard_size", s.shard_size, 1, 1'000'000),
      flag("parallel.resident_embeddings", s.resident_embeddings),
      choice("parallel.gather_path", s.gather_path,
             {{"auto", GatherPath::kAuto},
              {"copy_engine", GatherPath::kCopyEngine},
              {"symmetric", GatherPath::kSymmetric},
              {"ring", GatherPath::kRing}}),
      choice("parallel.reduce_path", s.reduce_path,
             {{"auto", ReducePath::kAuto},
              {"symmetric", ReducePath::kSymmetric},
              {"ring", ReducePath::kRing}}),
  };
}

std::vector<Field> fields_of(PrecisionSection& s) {
  return {
      choice("precision.compute", s.compute, precisions()),
      choice("precision.reduce", s.reduce, precisions()),
      flag("precision.deterministic", s.deterministic),
  };
}

std::vector<Field> fields_of(CheckpointSection& s) {
  return {
      integer("checkpoint.save_steps", s.save_steps, 0),
      flag("checkpoint.save_final", s.save_final),
      integer("checkpoint.keep", s.keep, 2, 1'000'000),
      needed_text("checkpoint.resume", s.resume),
      flag("checkpoint.asynchronous", s.asynchronous),
      integer("checkpoint.max_failed_saves", s.max_failed_saves, 0),
  };
}

std::vector<Field> fields_of(GuardSection& s) {
  return {
      choice(
          "guard.non_finite", s.non_finite,
          {{"stop", NonFinite::kStop}, {"skip", NonFinite::kSkip}, {"rewind", NonFinite::kRewind}}),
      choice("guard.spikes", s.spikes,
             {{"ignore", Spikes::kIgnore}, {"warn", Spikes::kWarn}, {"skip", Spikes::kSkip}}),
      real("guard.spike_threshold", s.spike_threshold, {.low = 0, .above = true}),
      integer("guard.spike_window", s.spike_window, 8, 100'000),
      integer("guard.max_skipped_steps", s.max_skipped_steps, 0),
      real("guard.start_timeout_s", s.start_timeout_s, {.low = 0}),
      real("guard.step_timeout_s", s.step_timeout_s, {.low = 0}),
      real("guard.checkpoint_timeout_s", s.checkpoint_timeout_s, {.low = 0}),
  };
}

std::vector<Field> fields_of(MetricsSection& s) {
  return {
      flag("metrics.serve", s.serve),
      flag("metrics.example_losses", s.example_losses),
      needed_text("metrics.address", s.address),
      integer("metrics.port", s.port, 1, 65535),
  };
}

std::vector<Field> fields_of(MemorySection& s) {
  return {
      choice("memory.recompute", s.recompute,
             {{"none", Recompute::kNone},
              {"selective", Recompute::kSelective},
              {"full", Recompute::kFull}}),
      real("memory.limit_gib", s.limit_gib, {.low = 0, .above = true}),
  };
}

std::vector<Field> fields_of(RunSection& s) {
  return {
      needed_text("run.output", s.output),
      integer("run.num_epochs", s.num_epochs, 1, 1'000'000),
      integer("run.max_steps", s.max_steps, 1),
      unsigned_integer("run.seed", s.seed),
      integer("run.evaluate_steps", s.evaluate_steps, 0),
      choice("run.cuda_graphs", s.cuda_graphs,
             {{"auto", CudaGraphs::kAuto}, {"on", CudaGraphs::kOn}, {"off", CudaGraphs::kOff}}),
      integer("run.trace_steps", s.trace_steps, 0, 100),
      integer("run.trace_first", s.trace_first, 1),
  };
}

std::vector<Field> fields_of(DebugSection& s) {
  return {
      flag("debug.poison_slots", s.poison_slots),
      integer("debug.stream_delay_us", s.stream_delay_us, 0, 1'000'000),
      flag("debug.check_gathers", s.check_gathers),
  };
}

std::vector<Field> fields_of(FaultSection& s) {
  return {
      choice("fault.kind", s.kind,
             {{"none", FaultKind::kNone},
              {"abort", FaultKind::kAbort},
              {"hang", FaultKind::kHang},
              {"slow", FaultKind::kSlow},
              {"nan_gradient", FaultKind::kNanGradient}}),
      integer("fault.rank", s.rank, 0),
      integer("fault.step", s.step, 1),
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
  add(fields_of(config.debug));
  add(fields_of(config.fault));
  return fields;
}

}  // namespace packtrain

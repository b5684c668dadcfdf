// Keys of the sections parallel, guard, debug and fault.
#include "framework/config/schema_sections.h"

#include <optional>

namespace packtrain {
namespace {

Choices<std::optional<CollectivePath>> collective_paths() {
  return {{"auto", std::nullopt},
          {"copy_engine", CollectivePath::kCopyEngine},
          {"symmetric", CollectivePath::kSymmetric},
          {"ring", CollectivePath::kRing}};
}

}  // namespace

std::vector<Field> fields_of(ParallelSection& s) {
  return {
      choice("parallel.backend", s.backend,
             {{"auto", std::nullopt},
              {"local", Backend::kLocal},
              {"mpi", Backend::kMpi},
              {"nccl", Backend::kNccl}})
          .means(
              "Communication backend. `auto`: NCCL when every rank has a GPU, MPI between CPU "
              "ranks, none for one rank. `mpi` uses TCP when the ranks were started without MPI."),
      integer("parallel.zero_stage", s.zero_stage, 2, 3)
          .means("ZeRO stage. 2: shard gradients and optimizer state. 3: also shard weights and "
                 "gather them block by block."),
      integer_or_auto("parallel.gather_slots", s.gather_slots, 1, 1024)
          .in("blocks")
          .means("ZeRO 3: maximum number of blocks whose gathered weights are in memory at a time. "
                 "Weights that stay from forward to backward are gathered once. `auto`: on GPUs as "
                 "many as leave a tenth of the memory free, else 3."),
      integer_or_auto("parallel.shard_size", s.shard_size, 1, 1'000'000)
          .in("ranks")
          .means("Number of ranks that share one copy of the model's state (HSDP). Further ranks "
                 "hold replicas. `auto`: the smallest number of whole hosts whose memory fits by "
                 "the memory plan."),
      flag("parallel.resident_embeddings", s.resident_embeddings)
          .means("ZeRO 3: keep the weights of embedding and head in separate buffers. `false`: "
                 "they share one buffer to save memory."),
      choice("parallel.accumulate", s.accumulate,
             {{"auto", std::nullopt}, {"shard", Accumulate::kShard}, {"local", Accumulate::kLocal}})
          .means("When ranks reduce the gradients of a step of several micro-batches. `shard`: "
                 "after each one, and each rank sums its part. `local`: once; each rank sums all "
                 "gradients in float32 before, 4 bytes a trained parameter. `auto`: `local` on "
                 "GPUs where most steps have several micro-batches and it fits, else `shard`."),
      choice("parallel.gather_path", s.gather_path, collective_paths())
          .means("NCCL path of the all-gather of weights. `auto`: the fastest path that all ranks "
                 "support."),
      choice("parallel.reduce_path", s.reduce_path, collective_paths())
          .means("NCCL path of the reduction of gradients. `auto`: the fastest path that all ranks "
                 "support."),
  };
}

std::vector<Field> fields_of(GuardSection& s) {
  return {
      choice(
          "guard.non_finite", s.non_finite,
          {{"stop", NonFinite::kStop}, {"skip", NonFinite::kSkip}, {"rewind", NonFinite::kRewind}})
          .means("Action on a step whose loss or gradient norm is not finite. Its update is never "
                 "applied. `stop`: end the run (71). `skip`: skip the step. `rewind`: return to "
                 "the newest checkpoint and skip the step."),
      choice("guard.spikes", s.spikes,
             {{"ignore", Spikes::kIgnore}, {"warn", Spikes::kWarn}, {"skip", Spikes::kSkip}})
          .means(
              "Action on a step whose loss or gradient norm is far above those of previous steps."),
      real("guard.spike_threshold", s.spike_threshold, {.low = 0, .above = true})
          .in("deviations")
          .means("Distance above the median of the window from which a step is a spike."),
      integer("guard.spike_window", s.spike_window, 8, 100'000)
          .in("steps")
          .means("Number of previous steps used to detect a spike."),
      integer("guard.max_skipped_steps", s.max_skipped_steps, 0)
          .in("steps")
          .means("Maximum number of consecutive skipped steps. One more ends the run (71)."),
      integer("guard.check_replicas_steps", s.check_replicas_steps, 0)
          .in("steps")
          .means("How often ranks compare, bit by bit, state that must be equal. 0: never."),
      real("guard.start_timeout_s", s.start_timeout_s, {.low = 0})
          .in("seconds")
          .means("Time limit for the first step to complete, from the start of the run. A longer "
                 "start ends the run as a hang (72). 0: no limit."),
      real("guard.step_timeout_s", s.step_timeout_s, {.low = 0})
          .in("seconds")
          .means("Time limit of a step. A longer step ends the run as a hang (72). 0: no limit."),
      real("guard.checkpoint_timeout_s", s.checkpoint_timeout_s, {.low = 0})
          .in("seconds")
          .means("Time limit of a save or an evaluation. A longer one ends the run as a hang (72). "
                 "0: no limit."),
      real("guard.straggler_ratio", s.straggler_ratio, {.low = 0})
          .means("Log a warning when the time of a rank exceeds this multiple of the median of all "
                 "ranks. 0: no warning."),
  };
}

std::vector<Field> fields_of(DebugSection& s) {
  return {
      flag("debug.poison_slots", s.poison_slots)
          .means("Fill weight slots with NaN when their weights are no longer needed, so that late "
                 "reads are visible."),
      integer("debug.stream_delay_us", s.stream_delay_us, 0, 1'000'000)
          .in("microseconds")
          .means("CPU: maximum random delay before each operation of a stream."),
      flag("debug.check_gathers", s.check_gathers)
          .means("Compare checksums of gathered weights across ranks after each step (73)."),
      flag("debug.check_collectives", s.check_collectives)
          .means("Compare collective calls across ranks before each call. Different calls end the "
                 "run (70)."),
      real("debug.memory_cap_gib", s.memory_cap_gib, {.low = 0, .above = true})
          .in("GiB")
          .means("Maximum memory of a rank's tensors. Larger allocations fail with out of memory."),
  };
}

std::vector<Field> fields_of(FaultSection& s) {
  return {
      choice("fault.kind", s.kind,
             {{"none", FaultKind::kNone},
              {"abort", FaultKind::kAbort},
              {"hang", FaultKind::kHang},
              {"slow", FaultKind::kSlow},
              {"stop", FaultKind::kStop},
              {"nan_gradient", FaultKind::kNanGradient},
              {"out_of_memory", FaultKind::kOutOfMemory},
              {"flip_bit", FaultKind::kFlipBit},
              {"spin", FaultKind::kSpin},
              {"skip_collective", FaultKind::kSkipCollective},
              {"other_collective", FaultKind::kOtherCollective},
              {"failed_collective", FaultKind::kFailedCollective},
              {"lost_link", FaultKind::kLostLink}})
          .means("The fault to inject, once."),
      integer("fault.rank", s.rank, -1).means("Rank that has the fault. -1: every rank."),
      integer("fault.step", s.step, 1)
          .means("Step of the fault. Steps count from 1, as in the metrics."),
      integer("fault.num_steps", s.num_steps, 1)
          .in("steps")
          .means("slow: number of steps with the delay."),
      choice("fault.phase", s.phase,
             {{"load", FaultPhase::kLoad},
              {"step", FaultPhase::kStep},
              {"update", FaultPhase::kUpdate},
              {"save", FaultPhase::kSave},
              {"hessian", FaultPhase::kHessian},
              {"shutdown", FaultPhase::kShutdown}})
          .means("abort, hang, slow and stop: phase of the run in which the fault occurs. "
                 "With out_of_memory `hessian` means the batches of a Hessian estimate."),
      real("fault.seconds", s.seconds, {.low = 0})
          .in("seconds")
          .means("slow: length of each delay."),
      integer("fault.micro_batch", s.micro_batch, -1)
          .means("out_of_memory: micro-batch of the step, from 0. -1: the last."),
      integer("fault.block", s.block, -1)
          .means("out_of_memory: block of the model, from 0. -1: the last."),
      flag("fault.backward", s.backward)
          .means("out_of_memory: fail in backward instead of forward."),
  };
}

}  // namespace packtrain

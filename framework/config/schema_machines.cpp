// On what it is trained, and what watches over it: parallel, guard, debug, fault.
#include "framework/config/schema_sections.h"

namespace packtrain {

std::vector<Field> fields_of(ParallelSection& s) {
  return {
      choice("parallel.backend", s.backend,
             {{"auto", BackendKind::kAuto},
              {"local", BackendKind::kLocal},
              {"mpi", BackendKind::kMpi},
              {"nccl", BackendKind::kNccl}})
          .means("What ranks talk by; `auto`: NCCL where every rank has a GPU, MPI between CPU "
                 "ranks, nothing for one. Started without MPI, `mpi` is TCP."),
      integer("parallel.zero_stage", s.zero_stage, 2, 3)
          .means("What is sharded: 2 gradients and the optimizer's state, 3 weights too, which are "
                 "gathered block by block."),
      integer_or_auto("parallel.gather_slots", s.gather_slots, 1, 1024)
          .in("blocks")
          .means(
              "zero_stage 3: blocks whose weights are there at once; what stays from forward to "
              "backward is gathered once. `auto`: on GPUs as many as leave a tenth of the memory "
              "free, else 3."),
      integer_or_auto("parallel.shard_size", s.shard_size, 1, 1'000'000)
          .in("ranks")
          .means(
              "Ranks that share one copy of the model's state, of which there are several then; "
              "`auto`: the ranks of as few whole hosts as have room for it, by the memory plan."),
      flag("parallel.resident_embeddings", s.resident_embeddings)
          .means("false: embedding and head take turns in one place, for less memory "
                 "(zero_stage 3)."),
      choice("parallel.gather_path", s.gather_path,
             {{"auto", GatherPath::kAuto},
              {"copy_engine", GatherPath::kCopyEngine},
              {"symmetric", GatherPath::kSymmetric},
              {"ring", GatherPath::kRing}})
          .means("How NCCL gathers weights; `auto` takes the fastest that all ranks can."),
      choice("parallel.reduce_path", s.reduce_path,
             {{"auto", ReducePath::kAuto},
              {"copy_engine", ReducePath::kCopyEngine},
              {"symmetric", ReducePath::kSymmetric},
              {"ring", ReducePath::kRing}})
          .means("How NCCL adds up gradients; `auto` takes the fastest that all ranks can."),
  };
}

std::vector<Field> fields_of(GuardSection& s) {
  return {
      choice(
          "guard.non_finite", s.non_finite,
          {{"stop", NonFinite::kStop}, {"skip", NonFinite::kSkip}, {"rewind", NonFinite::kRewind}})
          .means("After a step whose loss or gradient norm is not finite, which changes no weight: "
                 "end (71), leave it out, or go back to the newest checkpoint and leave it out."),
      choice("guard.spikes", s.spikes,
             {{"ignore", Spikes::kIgnore}, {"warn", Spikes::kWarn}, {"skip", Spikes::kSkip}})
          .means("What is done about a step whose loss or norm is far above those before it."),
      real("guard.spike_threshold", s.spike_threshold, {.low = 0, .above = true})
          .in("deviations")
          .means("How far above the median of the window is a spike."),
      integer("guard.spike_window", s.spike_window, 8, 100'000)
          .in("steps")
          .means("What a spike is told from."),
      integer("guard.max_skipped_steps", s.max_skipped_steps, 0)
          .in("steps")
          .means("So many may be left out in a row; one more ends the run (71)."),
      integer("guard.check_replicas_steps", s.check_replicas_steps, 0)
          .in("steps")
          .means("How often ranks compare, bit by bit, what they should hold alike; 0: never."),
      real("guard.start_timeout_s", s.start_timeout_s, {.low = 0})
          .in("seconds")
          .means("A run that has not done a step by then ends as a hang (72); 0: no limit."),
      real("guard.step_timeout_s", s.step_timeout_s, {.low = 0})
          .in("seconds")
          .means("A step that takes longer is a hang (72); 0: no limit."),
      real("guard.checkpoint_timeout_s", s.checkpoint_timeout_s, {.low = 0})
          .in("seconds")
          .means("A save or an evaluation that takes longer is a hang (72); 0: no limit."),
      real("guard.straggler_ratio", s.straggler_ratio, {.low = 0})
          .means("A rank that needs so many times the median of all is warned of; 0: none."),
  };
}

std::vector<Field> fields_of(DebugSection& s) {
  return {
      flag("debug.poison_slots", s.poison_slots)
          .means("Fills memory whose weights are no longer needed with NaN, so that late readers "
                 "are seen."),
      integer("debug.stream_delay_us", s.stream_delay_us, 0, 1'000'000)
          .in("microseconds")
          .means("CPU: delays each piece of work by up to this at random."),
      flag("debug.check_gathers", s.check_gathers)
          .means("Compares checksums of gathered weights across ranks after each step (73)."),
      flag("debug.check_collectives", s.check_collectives)
          .means("Ranks tell each other what they are about to call; different calls end the run "
                 "(70)."),
      real("debug.memory_cap_gib", s.memory_cap_gib, {.low = 0, .above = true})
          .in("GiB")
          .means("Memory a rank's tensors may take; above it is out of memory."),
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
          .means("What goes wrong, once."),
      integer("fault.rank", s.rank, -1).means("Where; -1: on every rank."),
      integer("fault.step", s.step, 1).means("When; steps count from 1, as in the metrics."),
      integer("fault.num_steps", s.num_steps, 1).in("steps").means("slow: for how long."),
      choice("fault.phase", s.phase,
             {{"load", FaultPhase::kLoad},
              {"step", FaultPhase::kStep},
              {"update", FaultPhase::kUpdate},
              {"save", FaultPhase::kSave},
              {"shutdown", FaultPhase::kShutdown}})
          .means("abort, hang, slow and stop: in which part of the run."),
      real("fault.seconds", s.seconds, {.low = 0}).in("seconds").means("slow: lost each time."),
      integer("fault.micro_batch", s.micro_batch, -1)
          .means("out_of_memory: in which one of the step, from 0; -1: the last."),
      integer("fault.block", s.block, -1)
          .means("out_of_memory: in which block of the model, from 0; -1: the last."),
      flag("fault.backward", s.backward)
          .means("out_of_memory: in the backward instead of the forward."),
  };
}

}  // namespace packtrain

#include "training/faults/fault_injector.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <thread>
#include <utility>

#include "framework/core/logging.h"
#include "framework/device/spin.h"

namespace packtrain {
namespace {

constexpr std::array<std::pair<FaultKind, CollectiveFault>, 4> kCollectiveFaults = {
    {{FaultKind::kSkipCollective, CollectiveFault::kSkip},
     {FaultKind::kOtherCollective, CollectiveFault::kOther},
     {FaultKind::kFailedCollective, CollectiveFault::kFail},
     {FaultKind::kLostLink, CollectiveFault::kLose}}};

bool is_restarted() {
  const char* restarts = std::getenv("PACKTRAIN_RESTARTS");  // set by launch/packtrain-run
  return restarts != nullptr && std::string_view(restarts) != "0";
}

bool is_collective_fault(FaultKind kind) {
  return std::ranges::any_of(kCollectiveFaults, [&](const auto& one) { return one.first == kind; });
}

bool is_phase_fault(FaultKind kind) {
  return kind == FaultKind::kAbort || kind == FaultKind::kHang || kind == FaultKind::kSlow ||
         kind == FaultKind::kStop;
}

// Flips a high bit of the first weight's fraction.
void flip_bit(const std::vector<ReplicatedState>& state) {
  for (const ReplicatedState& part : state) {
    const at::Tensor& weights = part.tensors.front();
    if (weights.numel() == 0) continue;
    weights.view(at::kInt).select(0, 0).bitwise_xor_(1 << 20);
    return;
  }
}

}  // namespace

FaultInjector::FaultInjector(const FaultSection& fault, int rank)
    : fault_(fault),
      rank_(rank),
      armed_((fault.rank == rank || fault.rank == -1) && !is_restarted()),
      collectives_(is_collective_fault(fault.kind) ? std::make_shared<CollectiveFaults>()
                                                   : nullptr) {}

bool FaultInjector::is_due(FaultPhase phase, std::int64_t number) const {
  if (!armed_ || phase != fault_.phase) return false;
  if (phase == FaultPhase::kLoad || phase == FaultPhase::kShutdown) return true;
  const std::int64_t count = fault_.kind == FaultKind::kSlow ? fault_.num_steps : 1;
  return number >= fault_.step && number < fault_.step + count;
}

void FaultInjector::log_fault(std::int64_t number) {
  if (std::exchange(logged_, true)) return;
  log_warning("fault.kind is injected on rank {} at step {}", rank_, number);
  flush_log();
}

bool FaultInjector::fires(FaultKind kind, std::int64_t number) {
  if (!armed_ || fault_.kind != kind || fault_.step != number) return false;
  log_fault(number);
  return true;
}

void FaultInjector::maybe_inject(FaultPhase phase, std::int64_t number) {
  if (!is_due(phase, number)) return;
  const FaultKind kind = fault_.kind;
  if (!is_phase_fault(kind)) return;
  log_fault(number);
  if (kind == FaultKind::kAbort) std::abort();
  if (kind == FaultKind::kStop) std::raise(SIGTERM);
  if (kind == FaultKind::kSlow) {
    std::this_thread::sleep_for(std::chrono::duration<double>(fault_.seconds));
  }
  while (kind == FaultKind::kHang) std::this_thread::sleep_for(std::chrono::hours(24));
}

void FaultInjector::before_compute(std::int64_t number, std::size_t num_micro_batches,
                                   ShardedModel& model) {
  for (const auto& [kind, fault] : kCollectiveFaults) {
    if (fires(kind, number)) collectives_->inject(fault);
  }
  if (fires(FaultKind::kSpin, number)) model.compute().run(spin_forever);
  if (fault_.phase == FaultPhase::kHessian || !fires(FaultKind::kOutOfMemory, number)) return;
  run_out_of_memory(num_micro_batches, model);
}

void FaultInjector::before_hessian(std::int64_t number, std::size_t num_micro_batches,
                                   ShardedModel& model) {
  maybe_inject(FaultPhase::kHessian, number);
  if (fault_.phase != FaultPhase::kHessian || !fires(FaultKind::kOutOfMemory, number)) return;
  run_out_of_memory(num_micro_batches, model);
}

void FaultInjector::run_out_of_memory(std::size_t num_micro_batches, ShardedModel& model) {
  armed_ = false;  // the repeated step must not fail again
  const auto place = [](std::int64_t wanted, std::size_t count) {
    return wanted < 0 ? static_cast<int>(count) - 1 : static_cast<int>(wanted);
  };
  const int micro_batch = place(fault_.micro_batch, num_micro_batches);
  const int block = place(fault_.block, model.units().unit_of_block.size());
  const ActionKind kind = fault_.backward ? ActionKind::kBackward : ActionKind::kForward;
  model.before_compute([=, struck = false](const Action& action) mutable {
    if (struck || action.kind != kind || action.block != block) return;
    if (action.micro_batch != micro_batch) return;
    struck = true;
    TORCH_CHECK_WITH(OutOfMemoryError, false, "injected by fault.kind");
  });
}

void FaultInjector::before_update(std::int64_t number, ShardedModel& model) {
  maybe_inject(FaultPhase::kUpdate, number);
  const bool nan = fires(FaultKind::kNanGradient, number);
  const bool flip = fires(FaultKind::kFlipBit, number);
  if (!nan && !flip) return;
  model.compute().run([&](StreamHandle) {
    const at::NoGradGuard no_grad;
    if (nan) model.gradient().select(0, 0).fill_(std::numeric_limits<double>::quiet_NaN());
    if (flip) flip_bit(model.parameters().replicated_state());
  });
}

}  // namespace packtrain

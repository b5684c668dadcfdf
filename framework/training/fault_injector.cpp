#include "framework/training/fault_injector.h"

#include <ATen/core/grad_mode.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <thread>

namespace packtrain {
namespace {

constexpr std::chrono::seconds kSlowStep{3};

bool is_restarted() {
  const char* restarts = std::getenv("PACKTRAIN_RESTARTS");  // set by launch/packtrain-run
  return restarts != nullptr && std::string_view(restarts) != "0";
}

}  // namespace

FaultInjector::FaultInjector(const FaultSection& fault, int rank)
    : fault_(fault), armed_(fault.rank == rank && !is_restarted()) {}

bool FaultInjector::fires(FaultKind kind, std::int64_t number) const {
  if (!armed_ || fault_.kind != kind || fault_.step != number) return false;
  spdlog::warn("fault.kind is injected on rank {} at step {}", fault_.rank, number);
  spdlog::default_logger()->flush();
  return true;
}

void FaultInjector::before_step(std::int64_t number) {
  if (fires(FaultKind::kAbort, number)) std::abort();
  if (fires(FaultKind::kSlow, number)) std::this_thread::sleep_for(kSlowStep);
  while (fires(FaultKind::kHang, number)) std::this_thread::sleep_for(std::chrono::hours(24));
}

void FaultInjector::before_update(std::int64_t number, ShardedModel& model) {
  if (!fires(FaultKind::kNanGradient, number)) return;
  model.compute().run([&](StreamHandle) {
    const at::NoGradGuard no_grad;
    model.gradient().select(0, 0).fill_(std::numeric_limits<double>::quiet_NaN());
  });
}

}  // namespace packtrain

#include "framework/device/cuda/cupti.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

namespace packtrain {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{8} << 20U;

// CUPTI's callbacks have no user pointer, so the state is global.
struct Use {
  std::mutex mutex;
  UseActivity activity;
  CUpti_SubscriberHandle subscriber = nullptr;
};

Use& use_now() {
  static auto* made = new Use;  // never destroyed, because exit handlers can still call stop
  return *made;
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;
}

void CUPTIAPI take_buffer(CUcontext /*context*/, std::uint32_t /*stream*/, std::uint8_t* buffer,
                          std::size_t /*size*/, std::size_t valid_size) {
  const std::unique_ptr<std::uint8_t, decltype(&std::free)> owner(buffer, &std::free);
  Use& use = use_now();
  const std::lock_guard lock(use.mutex);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid_size, &record) == CUPTI_SUCCESS) {
    if (use.activity) use.activity(*record);
  }
}

void CUPTIAPI ignore_callback(void* /*user*/, CUpti_CallbackDomain /*domain*/,
                              CUpti_CallbackId /*id*/, const void* /*data*/) {}

std::string fault(CUptiResult result, const char* call) {
  if (result == CUPTI_SUCCESS) return {};
  const char* text = nullptr;
  cuptiGetResultString(result, &text);
  return std::string(call) + ": " + (text != nullptr ? text : "unknown error");
}

void set_activity(UseActivity activity) {
  const std::lock_guard lock(use_now().mutex);
  use_now().activity = std::move(activity);
}

std::string enable(std::span<const CUpti_ActivityKind> kinds) {
  std::string failure = fault(cuptiActivityRegisterCallbacks(give_buffer, take_buffer),
                              "cuptiActivityRegisterCallbacks");
  for (const CUpti_ActivityKind kind : kinds) {
    if (failure.empty()) failure = fault(cuptiActivityEnable(kind), "cuptiActivityEnable");
  }
  return failure;
}

}  // namespace

std::string start_cupti(std::span<const CUpti_ActivityKind> kinds, UseActivity use) {
  // CUPTI allows one subscriber, so subscribing detects another profiler.
  std::string failure =
      fault(cuptiSubscribe(&use_now().subscriber, ignore_callback, nullptr), "cuptiSubscribe");
  if (!failure.empty()) return failure;
  set_activity(std::move(use));
  failure = enable(kinds);
  if (!failure.empty()) stop_cupti(kinds);
  return failure;
}

std::string stop_cupti(std::span<const CUpti_ActivityKind> kinds) {
  std::string failure =
      fault(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  for (const CUpti_ActivityKind kind : kinds) {
    const std::string disabled = fault(cuptiActivityDisable(kind), "cuptiActivityDisable");
    if (failure.empty()) failure = disabled;
  }
  set_activity(nullptr);
  const std::string left = fault(cuptiUnsubscribe(use_now().subscriber), "cuptiUnsubscribe");
  return failure.empty() ? left : failure;
}

}  // namespace packtrain

#include "framework/device/cuda/cuda_activities.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/device/cuda/check.h"
#include "framework/device/cuda/cupti.h"
#include "framework/device/kernel_name.h"

namespace packtrain {
namespace {

constexpr auto kKinds = std::to_array<CUpti_ActivityKind>(
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2,
     CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER,
     CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION});
constexpr std::uint64_t kLongCallNs = 20'000;
constexpr std::size_t kMaxNameLength = 400;

// An activity whose launching range is not known yet.
struct Raw {
  DeviceActivity activity;
  std::uint32_t stream = 0;
};

struct RawCall {
  DeviceCall call;
  std::uint32_t number = 0;
};

template <typename Record>
Raw raw(const Record& record, std::string name, const char* category) {
  Raw made;
  made.activity.name = std::move(name);
  made.activity.category = category;
  made.activity.begin_ns = static_cast<std::int64_t>(record.start);
  made.activity.end_ns = static_cast<std::int64_t>(record.end);
  made.activity.order = record.correlationId;
  made.stream = record.streamId;
  return made;
}

Raw raw_kernel(const CUpti_ActivityKernel10& kernel) {
  const std::string readable = readable_kernel_name(kernel.name);
  Raw made = raw(kernel, short_kernel_name(readable), "kernel");
  made.activity.details = {
      {"kernel", readable.substr(0, kMaxNameLength)},
      {"grid", fmt::format("{} x {} x {}", kernel.gridX, kernel.gridY, kernel.gridZ)},
      {"block", fmt::format("{} x {} x {}", kernel.blockX, kernel.blockY, kernel.blockZ)}};
  return made;
}

template <typename Record>
Raw raw_copy(const Record& copy, std::string name) {
  Raw made = raw(copy, std::move(name), "copy");
  const double seconds = 1e-9 * static_cast<double>(copy.end - copy.start);
  made.activity.details = {
      {"bytes", std::to_string(copy.bytes)},
      {"GB/s", fmt::format("{:.1f}", 1e-9 * static_cast<double>(copy.bytes) / seconds)}};
  return made;
}

std::string copy_name(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "copy to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "copy to host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "copy on device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
      return "copy between devices";
    default:
      return "copy";
  }
}

std::string call_name(CUpti_CallbackId id) {
  const char* name = nullptr;
  if (cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, id, &name) != CUPTI_SUCCESS ||
      name == nullptr) {
    return "CUDA call";
  }
  const std::string text = name;
  return text.substr(0, text.find("_v"));  // "cudaEventSynchronize_v3020"
}

class CudaActivityRecorder final : public ActivityRecorder {
 public:
  explicit CudaActivityRecorder(const StreamKinds& streams) {
    PACKTRAIN_CUDA_CHECK(cudaDeviceSynchronize());  // completes earlier work, which has no ranges
    const std::string failure =
        start_cupti(kKinds, [this](const CUpti_Activity& record) { take(record); });
    if (!failure.empty()) {
      throw Error(ErrorCategory::kDevice, "CUPTI records nothing of the GPU: " + failure,
                  "One profiler at a time: start without Nsight and CUDA_INJECTION64_PATH, or "
                  "without run.trace_steps.");
    }
    recording_ = true;
    for (const auto& [stream, kind] : streams) {
      std::uint32_t id = 0;
      if (cuptiGetStreamIdEx(nullptr, stream, 0, &id) == CUPTI_SUCCESS) {
        row_of_stream_[id] = stream_name(kind);
      }
    }
  }

  ~CudaActivityRecorder() override {
    if (recording_) stop_cupti(kKinds);
  }
  CudaActivityRecorder(const CudaActivityRecorder&) = delete;
  CudaActivityRecorder& operator=(const CudaActivityRecorder&) = delete;

  void begin_range(std::uint64_t id) override {
    cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, id);
  }

  void end_range() override {
    std::uint64_t id = 0;
    cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &id);
  }

  DeviceActivities finish() override {
    PACKTRAIN_CUDA_CHECK(cudaDeviceSynchronize());
    recording_ = false;
    const std::string failure = stop_cupti(kKinds);
    if (!failure.empty()) {
      throw Error(ErrorCategory::kDevice, "CUPTI lost what it recorded of the GPU: " + failure);
    }
    return assemble();
  }

 private:
  void take(const CUpti_Activity& record) {
    switch (record.kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        raw_.push_back(raw_kernel(reinterpret_cast<const CUpti_ActivityKernel10&>(record)));
        break;
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
        raw_.push_back(raw_copy(copy, copy_name(copy.copyKind)));
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY2: {
        const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpyPtoP4&>(record);
        raw_.push_back(raw_copy(copy, fmt::format("copy GPU {} to GPU {}", copy.srcDeviceId + 0,
                                                  copy.dstDeviceId + 0)));
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMSET:
        raw_.push_back(raw(reinterpret_cast<const CUpti_ActivityMemset4&>(record), "fill", "fill"));
        break;
      case CUPTI_ACTIVITY_KIND_RUNTIME:
        take_call(reinterpret_cast<const CUpti_ActivityAPI&>(record));
        break;
      case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
        const auto& link = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(record);
        range_of_call_[link.correlationId] = link.externalId;
        break;
      }
      default:  // calls of the driver carry only their ranges
        break;
    }
  }

  void take_call(const CUpti_ActivityAPI& call) {
    if (call.end - call.start < kLongCallNs) return;
    calls_.push_back({{call_name(call.cbid), static_cast<std::int64_t>(call.start),
                       static_cast<std::int64_t>(call.end)},
                      call.correlationId});
  }

  DeviceActivities assemble() {
    DeviceActivities done;
    for (const auto& [call, range] : range_of_call_) {
      const auto [at, is_new] = done.order_of_range.try_emplace(range, call);
      if (!is_new) at->second = std::min<std::uint64_t>(at->second, call);
    }
    for (RawCall& call : calls_) {
      call.call.range = range_of(call.number);
      done.long_calls.push_back(std::move(call.call));
    }
    for (Raw& raw : raw_) {
      const auto row = row_of_stream_.find(raw.stream);
      raw.activity.row =
          row != row_of_stream_.end() ? row->second : fmt::format("stream {}", raw.stream);
      raw.activity.range = range_of(static_cast<std::uint32_t>(raw.activity.order));
      done.activities.push_back(std::move(raw.activity));
    }
    return done;
  }

  std::uint64_t range_of(std::uint32_t call) const {
    const auto found = range_of_call_.find(call);
    return found == range_of_call_.end() ? 0 : found->second;
  }

  bool recording_ = false;
  std::map<std::uint32_t, std::string> row_of_stream_;
  // Filled by CUPTI's threads, one at a time. Read after CUPTI has stopped.
  std::vector<Raw> raw_;
  std::vector<RawCall> calls_;
  std::map<std::uint32_t, std::uint64_t> range_of_call_;
};

}  // namespace

std::unique_ptr<ActivityRecorder> record_cuda_activities(const StreamKinds& streams) {
  return std::make_unique<CudaActivityRecorder>(streams);
}

}  // namespace packtrain

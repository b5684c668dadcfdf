// NVML is loaded when it is needed, so that the program starts without a driver.
#include <dlfcn.h>

#include <limits>

#include "framework/device/energy_meter.h"

namespace packtrain {
namespace {

// The C interface of libnvidia-ml (NVML API reference), of which four functions are used.
using NvmlDevice = void*;
constexpr int kNvmlSuccess = 0;

struct Nvml {
  int (*init)() = nullptr;
  int (*find)(const char* pci_bus_id, NvmlDevice* device) = nullptr;
  int (*energy)(NvmlDevice device, unsigned long long* millijoules) = nullptr;

  bool is_loaded() const { return init != nullptr && find != nullptr && energy != nullptr; }
};

template <class Function>
void load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

// The library stays loaded until the process ends.
Nvml load_nvml() {
  Nvml nvml;
  void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (library == nullptr) return nvml;
  load(library, "nvmlInit_v2", nvml.init);
  load(library, "nvmlDeviceGetHandleByPciBusId_v2", nvml.find);
  load(library, "nvmlDeviceGetTotalEnergyConsumption", nvml.energy);
  return nvml;
}

class GpuEnergyMeter final : public EnergyMeter {
 public:
  GpuEnergyMeter(const Nvml& nvml, NvmlDevice device, double first_joules)
      : nvml_(nvml), device_(device), first_joules_(first_joules) {}

  double joules() override {
    unsigned long long millijoules = 0;
    if (nvml_.energy(device_, &millijoules) != kNvmlSuccess) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    return static_cast<double>(millijoules) / 1000 - first_joules_;
  }

 private:
  Nvml nvml_;
  NvmlDevice device_;
  double first_joules_;
};

}  // namespace

std::unique_ptr<EnergyMeter> make_gpu_energy_meter(const std::string& pci_bus_id) {
  static const Nvml nvml = load_nvml();
  if (!nvml.is_loaded() || nvml.init() != kNvmlSuccess) return nullptr;
  NvmlDevice device = nullptr;
  unsigned long long millijoules = 0;
  if (nvml.find(pci_bus_id.c_str(), &device) != kNvmlSuccess ||
      nvml.energy(device, &millijoules) != kNvmlSuccess) {
    return nullptr;
  }
  return std::make_unique<GpuEnergyMeter>(nvml, device, static_cast<double>(millijoules) / 1000);
}

}  // namespace packtrain

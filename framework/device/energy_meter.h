// Counters of the energy that hardware has used.
#pragma once

#include <memory>
#include <string>

namespace packtrain {

class EnergyMeter {
 public:
  virtual ~EnergyMeter() = default;
  // Joules since the meter was made. NaN when the counter can no longer be read.
  virtual double joules() = 0;
};

// The total energy counter of a GPU, of NVIDIA's management library (NVML). `pci_bus_id` as in
// visible_gpus(). Nothing without the library or the counter (before Volta). Never throws.
std::unique_ptr<EnergyMeter> make_gpu_energy_meter(const std::string& pci_bus_id);

// The processor packages of this host, by the powercap counters of Linux (RAPL). Nothing where they
// do not exist or only root may read them. It does not count main memory. Never throws. Call
// joules() at least once a minute, because the counters wrap around.
std::unique_ptr<EnergyMeter> make_cpu_energy_meter(
    const std::string& folder = "/sys/class/powercap");

}  // namespace packtrain

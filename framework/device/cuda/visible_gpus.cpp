#include "framework/device/visible_gpus.h"

#include <cuda_runtime_api.h>

#include <array>

#include "framework/device/device.h"

namespace packtrain {

std::vector<std::string> visible_gpus() {
  std::vector<std::string> bus_ids;
  for (int index = 0; index < num_cuda_devices(); ++index) {
    std::array<char, 32> bus_id{};
    if (cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), index) !=
        cudaSuccess) {
      cudaGetLastError();  // no bus id: other processes cannot identify this GPU
    }
    bus_ids.emplace_back(bus_id.data());
  }
  return bus_ids;
}

}  // namespace packtrain

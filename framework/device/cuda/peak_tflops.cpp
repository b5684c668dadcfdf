#include "framework/device/cuda/peak_tflops.h"

#include <array>

namespace packtrain {
namespace {

struct Peak {
  std::string_view part_of_name;
  double tflops;
};

// Values of NVIDIA's data sheets without sparsity. The first match counts, so variants come before
// the name of their family.
constexpr std::array kPeaks = {
    Peak{"H100 PCIe", 756.5}, Peak{"H100 NVL", 835.5}, Peak{"H100", 989.4}, Peak{"H200 NVL", 835.5},
    Peak{"H200", 989.4},      Peak{"H800", 989.4},     Peak{"H20", 148.0},  Peak{"A100", 312.0},
    Peak{"A800", 312.0},      Peak{"A40", 149.7},      Peak{"A30", 165.0},  Peak{"A10G", 70.0},
    Peak{"A10", 125.0},       Peak{"L40S", 362.0},     Peak{"L40", 181.0},  Peak{"L4", 121.0},
};

}  // namespace

double peak_tflops_of(std::string_view name) {
  for (const Peak& peak : kPeaks) {
    if (name.find(peak.part_of_name) != std::string_view::npos) return peak.tflops;
  }
  return 0;
}

}  // namespace packtrain

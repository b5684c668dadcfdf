#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/device/energy_meter.h"

namespace packtrain {
namespace {

namespace fs = std::filesystem;

// Microjoules in a file of a counter.
std::optional<std::int64_t> read_count(const fs::path& path) {
  try {
    const std::string text = read_text(path.string(), ErrorCategory::kInternal);
    std::int64_t count = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (fault == std::errc()) return count;
  } catch (const Error&) {  // only root may read it
  }
  return std::nullopt;
}

// One package. Its counter begins again at 0 after `range`.
struct PackageCounter {
  fs::path file;
  std::int64_t range = 0;
  std::int64_t last = 0;
};

class CpuEnergyMeter final : public EnergyMeter {
 public:
  explicit CpuEnergyMeter(std::vector<PackageCounter> packages) : packages_(std::move(packages)) {}

  double joules() override {
    for (PackageCounter& package : packages_) {
      const auto count = read_count(package.file);
      if (!count) return std::numeric_limits<double>::quiet_NaN();
      const std::int64_t used = *count - package.last;
      microjoules_ += static_cast<double>(used < 0 ? used + package.range : used);
      package.last = *count;
    }
    return microjoules_ / 1e6;
  }

 private:
  std::vector<PackageCounter> packages_;
  double microjoules_ = 0;
};

// "intel-rapl:0" is a package, "intel-rapl:0:1" a part of it. AMD's have the same names.
bool is_package(const std::string& name) {
  return name.starts_with("intel-rapl:") && std::ranges::count(name, ':') == 1;
}

}  // namespace

std::unique_ptr<EnergyMeter> make_cpu_energy_meter(const std::string& folder) {
  std::vector<PackageCounter> packages;
  std::error_code fault;
  for (const auto& entry : fs::directory_iterator(folder, fault)) {
    if (!is_package(entry.path().filename().string())) continue;
    const auto range = read_count(entry.path() / "max_energy_range_uj");
    const auto first = read_count(entry.path() / "energy_uj");
    if (!range || !first) return nullptr;
    packages.push_back({entry.path() / "energy_uj", *range, *first});
  }
  if (packages.empty()) return nullptr;
  return std::make_unique<CpuEnergyMeter>(std::move(packages));
}

}  // namespace packtrain

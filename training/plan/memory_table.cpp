#include <fmt/format.h>

#include <algorithm>

#include "framework/core/units.h"
#include "training/plan/memory_plan.h"

namespace packtrain {

std::string memory_table(const MemoryPlan& plan, std::int64_t device_bytes) {
  const bool is_small = std::max(plan.total(), device_bytes) < static_cast<std::int64_t>(kGibibyte);
  std::string table;
  const auto line = [&](const std::string& name, std::int64_t bytes, const std::string& what) {
    const auto size = static_cast<double>(bytes);
    const std::string amount = is_small ? fmt::format("{:.1f} MiB", size / kMebibyte)
                                        : fmt::format("{:.3f} GiB", size / kGibibyte);
    table += fmt::format("  {:<52}{:>13}  {}\n", name, amount, what);
  };
  for (const auto* entries : {&plan.allocated, &plan.outside}) {
    for (const MemoryEntry& entry : *entries) line(entry.name, entry.bytes, entry.what);
  }
  line("together", plan.total(), "most in the " + plan.moment);
  if (device_bytes > 0) {
    line("free", device_bytes - plan.total(),
         fmt::format("of {:.2f} GiB", static_cast<double>(device_bytes) / kGibibyte));
  }
  if (plan.num_keys > 0) {
    table += fmt::format("  keys of attention, copies of prefixes included: {}, {}\n",
                         plan.num_keys, plan.keys_basis);
  }
  table.pop_back();
  return table;
}

}  // namespace packtrain

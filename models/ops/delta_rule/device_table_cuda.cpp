#include "models/ops/delta_rule/device_table_cuda.h"

#include <vector>

#include "framework/device/cuda/architecture.h"
#include "models/ops/delta_rule/boundaries_cuda.h"
#include "models/ops/delta_rule/delta_rule_bytes.h"

namespace packtrain {
namespace {

constexpr const char* kTableName = "delta rule";

DeltaRuleDivision division_of(const DeltaRuleInputs& in, const DeltaRuleOptions& options) {
  static const int num_multiprocessors = device_attribute(cudaDevAttrMultiProcessorCount);
  const DeltaRuleWork work = {in.v.size(1), in.v.size(2), num_multiprocessors,
                              delta_rule_shared_bytes() >= kDeltaRuleWideBytes ? 128 : 64};
  return divide_delta_rule(delta_rule_sequence_chunks(options.boundaries), work);
}

DeltaRuleDeviceTable make_table(std::span<const std::int32_t> boundaries,
                                const DeltaRuleDivision& division, at::Device device) {
  DeltaRuleDeviceTable table;
  table.division = division;
  table.host = delta_rule_table(boundaries, division.groups);
  std::vector<std::int32_t> values;
  const auto append = [&](const auto& items) {
    const auto* const begin = reinterpret_cast<const std::int32_t*>(items.data());
    values.insert(values.end(), begin,
                  begin + items.size() * sizeof(items[0]) / sizeof(std::int32_t));
  };
  append(table.host.chunks);
  append(table.host.sequences);
  append(table.host.group_begins);
  table.ints = to_device_ints(values, device, kTableName);
  return table;
}

// Finds a table, or makes it with the division that `divide` returns.
template <class Divide>
const DeltaRuleDeviceTable& find_table(std::span<const std::int32_t> boundaries,
                                       const at::Tensor& like,
                                       std::pair<std::int64_t, std::int64_t> key,
                                       std::shared_ptr<DeltaRuleTables>& tables,
                                       const Divide& divide) {
  refuse_graph_capture(like, kTableName);
  if (tables == nullptr) tables = std::make_shared<DeltaRuleTables>();
  const auto found = tables->of_values.find(key);
  if (found != tables->of_values.end()) return found->second;
  return tables->of_values.try_emplace(key, make_table(boundaries, divide(), like.device()))
      .first->second;
}

}  // namespace

const DeltaRuleDeviceTable& delta_rule_device_table(const DeltaRuleInputs& in,
                                                    const DeltaRuleOptions& options,
                                                    std::shared_ptr<DeltaRuleTables>& tables) {
  return find_table(options.boundaries, in.v, {in.v.size(1), in.v.size(2)}, tables,
                    [&] { return division_of(in, options); });
}

const DeltaRuleDeviceTable& sequence_device_table(std::span<const std::int32_t> boundaries,
                                                  const at::Tensor& like,
                                                  std::shared_ptr<DeltaRuleTables>& tables) {
  return find_table(boundaries, like, {0, 0}, tables, [] { return DeltaRuleDivision{}; });
}

}  // namespace packtrain

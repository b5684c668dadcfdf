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

DeltaRuleDeviceTable make_table(const DeltaRuleInputs& in, const DeltaRuleOptions& options) {
  DeltaRuleDeviceTable table;
  table.division = division_of(in, options);
  table.host = delta_rule_table(options.boundaries, table.division.groups);
  std::vector<std::int32_t> values;
  const auto append = [&](const auto& items) {
    const auto* const begin = reinterpret_cast<const std::int32_t*>(items.data());
    values.insert(values.end(), begin,
                  begin + items.size() * sizeof(items[0]) / sizeof(std::int32_t));
  };
  append(table.host.chunks);
  append(table.host.sequences);
  append(table.host.group_begins);
  table.ints = to_device_ints(values, in.v.device(), kTableName);
  return table;
}

}  // namespace

const DeltaRuleDeviceTable& delta_rule_device_table(const DeltaRuleInputs& in,
                                                    const DeltaRuleOptions& options,
                                                    std::shared_ptr<DeltaRuleTables>& tables) {
  refuse_graph_capture(in.v, kTableName);
  if (tables == nullptr) tables = std::make_shared<DeltaRuleTables>();
  const std::pair key(in.v.size(1), in.v.size(2));
  const auto found = tables->of_values.find(key);
  if (found != tables->of_values.end()) return found->second;
  return tables->of_values.try_emplace(key, make_table(in, options)).first->second;
}

}  // namespace packtrain

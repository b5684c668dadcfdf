#include "models/ops/linear/own_rows.h"

namespace packtrain {

void scale_own_rows(const at::Tensor& s, const LoraModules& modules, const AdapterRows& rows) {
  if (s.is_cuda()) return scale_own_rows_cuda(s, modules, rows.begins);
  const auto* begins = rows.begins.const_data_ptr<std::int32_t>();
  std::int64_t column = 0;
  for (const LoraModule& module : modules) {
    const at::Tensor own = s.narrow(1, column, module.rank);
    const std::int64_t begin = begins[module.adapter];
    const std::int64_t end = begins[module.adapter + 1];
    own.narrow(0, 0, begin).zero_();
    own.narrow(0, begin, end - begin).mul_(module.scale);
    own.narrow(0, end, s.size(0) - end).zero_();
    column += module.rank;
  }
}

}  // namespace packtrain

#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <span>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/linear/own_rows.h"
#include "models/ops/linear/own_rows_launch.h"

namespace packtrain {
namespace {

// Scales the columns of some modules, which begin at `column`. Returns where they end.
std::int64_t scale(const at::Tensor& s, std::int64_t column, std::span<const LoraModule> modules,
                   const at::Tensor& begins) {
  OwnRowsArguments a;
  for (const LoraModule& module : modules) {
    a.width += static_cast<int>(module.rank);
    a.modules[a.num_modules++] = {a.width, module.adapter, static_cast<float>(module.scale)};
  }
  a.begins = begins.const_data_ptr<std::int32_t>();
  a.num_rows = s.size(0);
  a.stride = s.stride(0);
  a.dtype = float_type_of(s, "scale_own_rows");
  a.s = s.narrow(1, column, a.width).data_ptr();
  launch_scale_own_rows(a, current_stream(s));
  return column + a.width;
}

}  // namespace

void scale_own_rows_cuda(const at::Tensor& s, const LoraModules& modules,
                         const at::Tensor& begins) {
  if (s.numel() == 0) return;
  const c10::cuda::CUDAGuard guard(s.device());
  std::int64_t column = 0;
  std::span<const LoraModule> rest(modules);
  while (!rest.empty()) {
    const std::size_t count = std::min<std::size_t>(rest.size(), kMaxScaledModules);
    column = scale(s, column, rest.first(count), begins);
    rest = rest.subspan(count);
  }
}

}  // namespace packtrain

#include "benchmarks/lora/products.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/linear/lora.h"
#include "models/ops/linear/lora_gemm_cuda.h"
#include "models/ops/linear/lora_linear.h"
#include "models/ops/matmul/matmul.h"

namespace packtrain {
namespace {

struct Setting {
  const char* name;
  int panel;
  bool tma_store;
  bool has_update;
};
constexpr Setting kSettings[] = {
    {"kernel, no update", 8, true, false},     {"kernel", 8, true, true},
    {"kernel, panel 4", 4, true, true},        {"kernel, panel 16", 16, true, true},
    {"kernel, direct stores", 8, false, true},
};

constexpr int kColumnWarps[] = {0, 2, 4, 8};  // 0: chosen
std::string skinny_name(int column_warps) {
  return column_warps == 0 ? "kernel" : "kernel, column warps " + std::to_string(column_warps);
}

at::Tensor wide(const at::Tensor& x) {
  return x.to(at::kFloat);
}

at::Tensor columns_of(const at::Tensor& y, const LoraModule& module) {
  return y.narrow(1, module.begin, module.num_rows);
}

LoraGemmArguments with_setting(LoraGemmArguments arguments, const Setting& setting) {
  arguments.panel = setting.panel;
  arguments.tma_store = setting.tma_store;
  if (!setting.has_update) arguments.num_modules = 0;
  return arguments;
}

ProductCase forward_case(const LoraLinear& linear, bool add_residual) {
  const at::Tensor residual = add_residual ? linear.residual : at::Tensor();
  const at::Tensor out = at::empty(linear.grad_output.sizes(), linear.grad_output.options());
  ProductCase product;
  product.name = add_residual ? "forward, residual" : "forward";
  product.flops = linear.flops();
  const auto base = [&linear, residual, out](std::size_t i) {
    gemm_out(out, linear.x, linear.weights[i].value.t(), {.addend = residual}, {});
    return out;
  };
  product.variants.push_back({"library, no update", base});
  product.variants.push_back({"library, update apart",
                              [&linear, base](std::size_t i) {
                                const at::Tensor y = base(i);
                                lora_forward(y, linear.s, linear.modules, linear.b_of(), {});
                                return y;
                              },
                              true});
  for (const Setting& setting : kSettings) {
    const auto run = [&linear, residual, out, setting](std::size_t i) {
      const LoraGemmArguments arguments = lora_gemm_forward_arguments(
          out, {linear.x, linear.weights[i].value, linear.s, {}, residual}, linear.modules,
          linear.b_of());
      launch_lora_gemm_forward(with_setting(arguments, setting), current_stream(out));
      return out;
    };
    product.variants.push_back({setting.name, run, setting.has_update});
  }
  product.reference = [&linear, residual] {
    at::Tensor y = at::mm(wide(linear.x), wide(linear.weights[0].value).t());
    if (residual.defined()) y.add_(residual);
    std::int64_t column = 0;
    for (std::size_t m = 0; m < linear.modules.size(); ++m) {
      const LoraModule& module = linear.modules[m];
      columns_of(y, module).add_(
          at::mm(wide(linear.s.narrow(1, column, module.rank)), wide(linear.b[m].value).t()));
      column += module.rank;
    }
    return y;
  };
  return product;
}

ProductCase backward_case(const LoraLinear& linear) {
  const at::Tensor out = at::empty(linear.x.sizes(), linear.x.options());
  ProductCase product;
  product.name = "backward";
  product.flops = linear.flops();
  const auto base = [&linear, out](std::size_t i) {
    gemm_out(out, linear.grad_output, linear.weights[i].value, {}, {});
    return out;
  };
  product.variants.push_back({"library, no update", base});
  product.variants.push_back({"library, update apart",
                              [&linear, base](std::size_t i) {
                                const at::Tensor dx = base(i);
                                gemm_out(dx, linear.grad_low_rank, linear.a.value, {.addend = dx},
                                         {});
                                return dx;
                              },
                              true});
  for (const Setting& setting : kSettings) {
    const auto run = [&linear, out, setting](std::size_t i) {
      const LoraGemmArguments arguments = lora_gemm_backward_arguments(
          out, {linear.grad_output, linear.weights[i].value, linear.grad_low_rank}, linear.a);
      launch_lora_gemm_backward(with_setting(arguments, setting), current_stream(out));
      return out;
    };
    product.variants.push_back({setting.name, run, setting.has_update});
  }
  product.reference = [&linear] {
    return at::mm(wide(linear.grad_output), wide(linear.weights[0].value))
        .add_(at::mm(wide(linear.grad_low_rank), wide(linear.a.value)));
  };
  return product;
}

// One tensor of all that the kernel computes, so that one error covers all.
at::Tensor flat(const at::Tensor& ds, const std::vector<at::Tensor>& db) {
  std::vector<at::Tensor> all = {wide(ds).flatten()};
  for (const at::Tensor& gradient : db) all.push_back(wide(gradient).flatten());
  return at::cat(all);
}

at::Tensor wide_gradients(const LoraLinear& linear) {
  std::vector<at::Tensor> ds, db;
  std::int64_t column = 0;
  for (std::size_t m = 0; m < linear.modules.size(); ++m) {
    const LoraModule& module = linear.modules[m];
    const at::Tensor g = wide(columns_of(linear.grad_output, module));
    ds.push_back(at::mm(g, wide(linear.b[m].value)).mul_(module.scale));
    db.push_back(at::mm(g.t(), wide(linear.s.narrow(1, column, module.rank))));
    column += module.rank;
  }
  return flat(at::cat(ds, 1), db);
}

// run(0) also collects dB; the other numbers are for timing.
ProductCase gradients_case(const LoraLinear& linear) {
  ProductCase product;
  product.name = "d(x A^T) and dB";
  product.bytes = 2.0 * static_cast<double>(linear.grad_output.numel());
  const auto collect = [&linear](const at::Tensor& ds, std::size_t i) {
    std::vector<at::Tensor> db;
    for (const Parameter& parameter : linear.b) db.push_back(parameter.grad);
    return i == 0 ? flat(ds, db) : ds;
  };
  product.variants.push_back(
      {"library, apart",
       [&linear, collect](std::size_t i) {
         at::Tensor ds = lora_backward_input(linear.grad_output, linear.modules, linear.b_of(), {});
         scale_modules(ds, linear.modules);
         lora_backward_weight(linear.grad_output, linear.s, linear.modules, linear.b_of(), {});
         return collect(ds, i);
       },
       true});
  for (const int column_warps : kColumnWarps) {
    const auto run = [&linear, collect, column_warps](std::size_t i) {
      const at::Tensor ds = at::empty(linear.s.sizes(), linear.s.options());
      SkinnyGemmArguments arguments =
          lora_gradients_arguments(ds, linear.grad_output, linear.s, linear.modules, linear.b_of());
      run_skinny_gemm(arguments, ds, column_warps);
      return collect(ds, i);
    };
    product.variants.push_back({skinny_name(column_warps), run, true});
  }
  product.reference = [&linear] { return wide_gradients(linear); };
  return product;
}

ProductCase low_rank_case(const LoraLinear& linear) {
  ProductCase product;
  product.name = "x A^T";
  product.bytes = 2.0 * static_cast<double>(linear.x.numel());
  product.variants.push_back({"library",
                              [&linear](std::size_t) {
                                return gemm(linear.x, linear.a.value.t(),
                                            {.scale = linear.modules.front().scale}, {});
                              },
                              true});
  for (const int column_warps : kColumnWarps) {
    product.variants.push_back({skinny_name(column_warps),
                                [&linear, column_warps](std::size_t) {
                                  const at::Tensor low =
                                      at::empty(linear.s.sizes(), linear.s.options());
                                  SkinnyGemmArguments arguments = lora_low_rank_arguments(
                                      low, linear.x, linear.a, linear.modules.front().scale);
                                  run_skinny_gemm(arguments, low, column_warps);
                                  return low;
                                },
                                true});
  }
  product.reference = [&linear] {
    return at::mm(wide(linear.x), wide(linear.a.value).t()).mul_(linear.modules.front().scale);
  };
  return product;
}

ProductCase a_gradient_case(const LoraLinear& linear) {
  ProductCase product;
  product.name = "dA";
  product.bytes = 2.0 * static_cast<double>(linear.x.numel());
  product.variants.push_back({"library",
                              [&linear](std::size_t) {
                                gemm_out(linear.a.grad, linear.grad_low_rank.t(), linear.x, {}, {});
                                return linear.a.grad;
                              },
                              true});
  for (const int column_warps : kColumnWarps) {
    product.variants.push_back({skinny_name(column_warps),
                                [&linear, column_warps](std::size_t) {
                                  SkinnyGemmArguments arguments = lora_a_gradient_arguments(
                                      linear.grad_low_rank, linear.x, linear.a);
                                  run_skinny_gemm(arguments, linear.x, column_warps);
                                  return linear.a.grad;
                                },
                                true});
  }
  product.reference = [&linear] { return at::mm(wide(linear.grad_low_rank).t(), wide(linear.x)); };
  return product;
}

}  // namespace

std::vector<ProductCase> product_cases(const LoraLinear& linear) {
  std::vector<ProductCase> cases = {forward_case(linear, false)};
  if (linear.residual.defined()) cases.push_back(forward_case(linear, true));
  cases.push_back(backward_case(linear));
  cases.push_back(gradients_case(linear));
  cases.push_back(low_rank_case(linear));
  cases.push_back(a_gradient_case(linear));
  return cases;
}

}  // namespace packtrain

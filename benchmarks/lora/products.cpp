#include "benchmarks/lora/products.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include "models/ops/linear/lora.h"
#include "models/ops/linear/lora_cuda.h"
#include "models/ops/matmul/matmul.h"

namespace packtrain {
namespace {

at::Tensor wide(const at::Tensor& x) {
  return x.to(at::kFloat);
}

at::Tensor columns_of(const at::Tensor& y, const LoraModule& module) {
  return y.narrow(1, module.begin, module.num_rows);
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
  for (const bool has_update : {false, true}) {
    const auto run = [&linear, residual, has_update](std::size_t i) {
      return lora_gemm_forward_cuda({linear.x, linear.weights[i].value, linear.s, {}, residual},
                                    has_update ? linear.modules : LoraModules{}, linear.b_of());
    };
    product.variants.push_back({has_update ? "kernel" : "kernel, no update", run, has_update});
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
  product.variants.push_back(
      {"kernel",
       [&linear](std::size_t i) {
         return lora_gemm_backward_cuda(
             {linear.grad_output, linear.weights[i].value, linear.grad_low_rank}, linear.a);
       },
       true});
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
  product.variants.push_back(
      {"kernel",
       [&linear, collect](std::size_t i) {
         return collect(
             lora_gradients_cuda(linear.grad_output, linear.s, linear.modules, linear.b_of()), i);
       },
       true});
  product.reference = [&linear] { return wide_gradients(linear); };
  return product;
}

}  // namespace

std::vector<ProductCase> product_cases(const LoraLinear& linear) {
  std::vector<ProductCase> cases = {forward_case(linear, false)};
  if (linear.residual.defined()) cases.push_back(forward_case(linear, true));
  cases.push_back(backward_case(linear));
  cases.push_back(gradients_case(linear));
  return cases;
}

}  // namespace packtrain

#include "framework/device/cuda/architecture.h"
#include "models/ops/cuda/alignment.h"
#include "models/ops/cuda/current_stream.h"
#include "models/ops/cuda/hopper/available.h"
#include "models/ops/syrk/syrk.h"
#include "models/ops/syrk/syrk_launch.h"

namespace packtrain {
namespace {

// The least that the kernel must save of a GEMM's time. Its tiles are half as large as cuBLAS's
// largest ones, which read less.
constexpr double kMostOfGemm = 0.8;

SyrkArguments syrk_arguments(const at::Tensor& out, const at::Tensor& x, const SyrkTerms& terms) {
  SyrkArguments arguments;
  arguments.x = x.const_data_ptr();
  if (terms.addend.defined()) arguments.addend = terms.addend.const_data_ptr();
  arguments.out = out.data_ptr();
  arguments.count = static_cast<int>(x.size(0));
  arguments.n = static_cast<int>(out.size(1));
  arguments.k = static_cast<int>(x.size(terms.transposed ? 1 : 2));
  arguments.scale = static_cast<float>(terms.scale);
  arguments.transposed = terms.transposed;
  return arguments;
}

}  // namespace

bool has_syrk_cuda() {
  return has_hopper_kernels();
}

bool syrk_takes(const at::Tensor& out, const at::Tensor& x, const SyrkTerms& terms) {
  if (!has_syrk_cuda() || x.scalar_type() != at::kBFloat16) return false;
  const SyrkArguments a = syrk_arguments(out, x, terms);
  // Rows start at multiples of 16 bytes. The last stage of a matrix has no rows of the next one.
  const bool has_layout = a.n % 8 == 0 && x.size(2) % 8 == 0 &&
                          are_aligned(16, a.x, a.addend, a.out) &&
                          (!a.transposed || a.count == 1 || a.k % 64 == 0);
  if (!has_layout) return false;
  static const int num_multiprocessors = device_attribute(cudaDevAttrMultiProcessorCount);
  const auto all = static_cast<double>(gemm_rounds(a.count, a.n, num_multiprocessors));
  const auto half = static_cast<double>(syrk_rounds(a.count, a.n, num_multiprocessors));
  return half <= kMostOfGemm * all;
}

void syrk_cuda(const at::Tensor& out, const at::Tensor& x, const SyrkTerms& terms) {
  launch_syrk(syrk_arguments(out, x, terms), current_stream(x));
}

}  // namespace packtrain

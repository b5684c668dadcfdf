#include "models/ops/matmul/matmul.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/matmul/algorithm_cache.h"

namespace packtrain {
namespace {

struct DestroyHandle {
  void operator()(cublasLtHandle_t handle) const { cublasLtDestroy(handle); }
};

// State that the GEMMs of a device share.
struct DeviceState {
  std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, DestroyHandle> handle;
  AlgorithmCache algorithms;
  std::map<void*, at::Tensor> workspaces;  // of each stream
};

struct State {
  std::mutex mutex;
  std::map<int, DeviceState> devices;
};

// Never destroyed, because at process end the driver is gone before static objects are.
State& state() {
  static State& shared = *new State;
  return shared;
}

DeviceState& device_state(int device) {
  DeviceState& found = state().devices[device];
  if (!found.handle) {
    cublasLtHandle_t handle = nullptr;
    check_cublas(cublasLtCreate(&handle), "cublasLtCreate");
    found.handle.reset(handle);
  }
  return found;
}

GemmWorkspace workspace_of(DeviceState& device, const at::Tensor& out) {
  void* stream = current_stream(out);
  at::Tensor& workspace = device.workspaces[stream];
  if (!workspace.defined()) {
    workspace = at::empty({kMatmulWorkspaceBytes}, out.options().dtype(at::kByte));
  }
  return {workspace.data_ptr(), static_cast<std::size_t>(kMatmulWorkspaceBytes),
          static_cast<cudaStream_t>(stream)};
}

GemmMatrix row_major(const at::Tensor& x) {
  return {x.const_data_ptr(), std::max(x.stride(0), x.size(1)), false, float_type_of(x, "matmul")};
}

GemmMatrix any_order(const at::Tensor& x) {
  const bool unit_rows = x.size(1) == 1 || x.stride(1) == 1;
  if (unit_rows && (x.size(0) == 1 || x.stride(0) >= x.size(1))) return row_major(x);
  return {x.const_data_ptr(), std::max(x.stride(1), x.size(0)), true, float_type_of(x, "matmul")};
}

GemmMatrix fp8_matrix(const Fp8Operand& operand, bool transposed) {
  const bool is_e4m3 = operand.codes.scalar_type() == at::kFloat8_e4m3fn;
  return {operand.codes.const_data_ptr(),
          operand.codes.size(1),
          transposed,
          is_e4m3 ? DataType::kFloat8E4M3 : DataType::kFloat8E5M2,
          operand.scale.const_data_ptr<float>(),
          operand.scaling};
}

// All but the operands.
GemmCall call_of(const at::Tensor& out, std::int64_t inner, const GemmTerms& terms) {
  GemmCall call;
  if (terms.addend.defined()) call.addend = row_major(terms.addend);
  call.out = row_major(out);
  if (terms.bias.defined()) call.bias = terms.bias.const_data_ptr();
  call.scale = static_cast<float>(terms.scale);
  call.rows = out.size(0);
  call.columns = out.size(1);
  call.inner = inner;
  return call;
}

// cuBLASLt multiplies 8-bit floats where all else is 16-byte aligned. Tensors in flat buffers may
// begin elsewhere.
bool is_aligned(const at::Tensor& x) {
  constexpr std::uintptr_t kBytes = 16;
  return reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % kBytes == 0;
}

at::Tensor aligned(const at::Tensor& x) {
  return !x.defined() || is_aligned(x) ? x : x.clone();
}

void run_gemm(const at::Tensor& out, const GemmCall& call, const GemmTiming& timing) {
  const c10::cuda::CUDAGuard guard(out.device());
  const std::lock_guard lock(state().mutex);
  DeviceState& device = device_state(out.device().index());
  device.algorithms.run(device.handle.get(), call, workspace_of(device, out), timing);
}

}  // namespace

void gemm_cuda(const at::Tensor& out, const at::Tensor& left, const at::Tensor& right,
               const GemmTerms& terms, const GemmTiming& timing) {
  GemmCall call = call_of(out, left.size(1), terms);
  call.left = any_order(left);
  call.right = any_order(right);
  call.sums_tokens = call.left.transposed;
  run_gemm(out, call, timing);
}

void fp8_gemm_cuda(const at::Tensor& out, const Fp8Operand& left, const Fp8Operand& right,
                   const GemmTerms& terms, const Fp8Gemm& options, const GemmTiming& timing) {
  const GemmTerms copies{aligned(terms.addend), aligned(terms.bias)};
  if (!is_aligned(out)) {
    const at::Tensor whole = at::empty(out.sizes(), out.options());
    fp8_gemm_cuda(whole, left, right, copies, options, timing);
    out.copy_(whole);
    return;
  }
  // cuBLASLt's epilogue adds a bias of bfloat16 alone to 8-bit products.
  const bool adds_bias = copies.bias.defined() && out.scalar_type() == at::kFloat;
  GemmCall call = call_of(out, left.codes.size(1), copies);
  if (adds_bias) call.bias = nullptr;
  call.left = fp8_matrix(left, /*transposed=*/false);
  call.right = fp8_matrix(right, /*transposed=*/true);
  call.sums_tokens = options.sums_tokens;
  call.fast_accumulation = options.fast_accumulation;
  run_gemm(out, call, timing);
  if (adds_bias) out.add_(copies.bias);
}

double gemm_timing_seconds_cuda() {
  const std::lock_guard lock(state().mutex);
  double seconds = 0;
  for (const auto& [index, device] : state().devices) seconds += device.algorithms.timing_seconds();
  return seconds;
}

std::int64_t num_timed_matmuls() {
  const std::lock_guard lock(state().mutex);
  std::int64_t count = 0;
  for (const auto& [index, device] : state().devices) count += device.algorithms.num_timed();
  return count;
}

}  // namespace packtrain

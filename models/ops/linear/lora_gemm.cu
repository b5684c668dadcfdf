// Products of bfloat16 with low-rank modules. A block computes tiles of 128 x 256 with the schedule
// Cooperative.
#include "models/ops/linear/lora_gemm_mainloop.cuh"

namespace packtrain {
namespace {

template <device::Major kRight>
using Schedule = device::Cooperative<device::LoraGemm<device::Major::kK, kRight>>;

}  // namespace

void launch_lora_gemm_forward(const LoraGemmArguments& arguments, void* stream) {
  launch_low_rank_gemm<Schedule<device::Major::kK>>(arguments, stream);
}

void launch_lora_gemm_backward(const LoraGemmArguments& arguments, void* stream) {
  launch_low_rank_gemm<Schedule<device::Major::kMN>>(arguments, stream);
}

}  // namespace packtrain

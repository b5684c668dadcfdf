// Measures how fast ranks multiply and communicate.
#pragma once

#include "launch/doctor/judgement.h"
#include "launch/doctor/probes.h"
#include "parallel/communicators/world.h"
#include "training/setup/run_device.h"

namespace packtrain {

// gemm_tflops: the best of several products: bf16 of 8192 on a GPU, fp32 of 256 on the CPU.
// A GPU that multiplies 8-bit floats has fp8_gemm_tflops too.
void probe_products(const RunDevice& device, const InjectedFault& trouble, World& world,
                    Facts& facts);

// host_gather_gb_s (ranks of one host), gather_gb_s, reduce_gb_s: bus rates, that is (n - 1) / n x
// bytes over seconds. All-reduce counts twice that, as in nccl-tests. One rank has none.
// wrong_collective is set when a known sum or part is wrong. Collective.
void probe_collectives(const RunDevice& device, World& world, Facts& facts);

// A rank's summand of the known sum, and that sum. It is exact in float32 in any order for up to
// 2^16 ranks, because all partial sums are integers below 2^24.
float summand_of(int rank);
double sum_of_summands(int num_ranks);

}  // namespace packtrain

// wgmma: matrix products of a warp group. The right operand is in shared memory, the left one there
// or in registers. A warp group is 128
// threads whose first warp index is a multiple of 4. Only files compiled for sm_90a include this,
// as all files of this folder.
#pragma once

#include <cstdint>

namespace packtrain::device {

// Accumulator fragment of 64 x N. Thread t holds rows r = 16 (t / 32) + t % 32 / 4 and r + 8. Of
// each 8 columns from 8 j it holds columns 2 (t % 4) and the next one. values[4 j .. 4 j + 3] are
// these four, row r first.
template <int N>
struct Accumulator {
  static constexpr int kColumns = N;
  float values[N / 2];
};

// Which dimension of an operand is contiguous in a 128-byte row: the summed one (K-major) or the
// other one (MN-major). Operands are bfloat16, or 8-bit floats, which are K-major.
enum class Major { kK, kMN, kE4M3, kE5M2 };

// Shared memory descriptors of operands: rows of 128 bytes (64 bfloat16, 128 8-bit floats) with the
// swizzle of TMA. The PTX ISA has the bits ("Asynchronous Warpgroup Level Matrix
// Multiply-Accumulate Operations"). They are address / 16, leading and stride offsets / 16, and
// layout type 1 in bits 62-63, the 128-byte swizzle. It XORs address bits 4-6 with bits 7-9 of the
// final address. Only the start of the stage must be a multiple of 1,024 bytes.
//
// K-major: one wgmma sums over 32 bytes of each row. `at` is the first of these, in a row that is a
// multiple of 8. The leading offset is unused in this layout; eight rows are 1,024 bytes apart.
__device__ inline std::uint64_t make_smem_descriptor_k(std::uint32_t at) {
  constexpr std::uint64_t kEightRows = 1024 >> 4;
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62;
  return (at & 0x3ffffU) >> 4 | std::uint64_t{1} << 16 | kEightRows << 32 | kSwizzle128;
}

// MN-major: the sum runs over the rows. `at` starts a row that is a multiple of 8. Blocks of 64
// columns are `block_bytes` apart.
__device__ inline std::uint64_t make_smem_descriptor_mn(std::uint32_t at, int block_bytes) {
  constexpr std::uint64_t kEightRows = 1024 >> 4;
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62;
  return (at & 0x3ffffU) >> 4 | static_cast<std::uint64_t>(block_bytes >> 4) << 16 |
         kEightRows << 32 | kSwizzle128;
}

// Keeps the compiler from moving reads and writes of the accumulators across this point. It does
// not see that wgmma writes these registers asynchronously.
template <int N>
__device__ void warpgroup_fence_operand(Accumulator<N>& sums) {
#pragma unroll
  for (float& value : sums.values) asm volatile("" : "+f"(value)::"memory");
}

// Orders earlier register accesses before the next wgmma (wgmma.fence). The accumulators must not
// be touched until warpgroup_wait.
template <int N>
__device__ void warpgroup_arrive(Accumulator<N>& sums) {
  warpgroup_fence_operand(sums);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void warpgroup_commit_batch() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most the last `kGroups` committed groups are still in flight.
template <int kGroups, int N>
__device__ void warpgroup_wait(Accumulator<N>& sums) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
  warpgroup_fence_operand(sums);
}

// setmaxnreg: a warp group releases registers to the pool or takes some from it. The argument is
// the count for each thread, a multiple of 8. All warps of the group execute it, and the kernel
// needs launch bounds. warpgroup_reg_alloc blocks until enough registers are free.
template <int kRegisters>
__device__ void warpgroup_reg_dealloc() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ void warpgroup_reg_alloc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

#define PACKTRAIN_SUMS_4(i)                                                     \
  "+f"(sums.values[i]), "+f"(sums.values[(i) + 1]), "+f"(sums.values[(i) + 2]), \
      "+f"(sums.values[(i) + 3])
#define PACKTRAIN_SUMS_16(i)                                                 \
  PACKTRAIN_SUMS_4(i), PACKTRAIN_SUMS_4((i) + 4), PACKTRAIN_SUMS_4((i) + 8), \
      PACKTRAIN_SUMS_4((i) + 12)
#define PACKTRAIN_SUMS_32 PACKTRAIN_SUMS_16(0), PACKTRAIN_SUMS_16(16)
#define PACKTRAIN_SUMS_64 \
  PACKTRAIN_SUMS_16(0), PACKTRAIN_SUMS_16(16), PACKTRAIN_SUMS_16(32), PACKTRAIN_SUMS_16(48)
#define PACKTRAIN_SUMS_96 PACKTRAIN_SUMS_64, PACKTRAIN_SUMS_16(64), PACKTRAIN_SUMS_16(80)
#define PACKTRAIN_SUMS_128 PACKTRAIN_SUMS_96, PACKTRAIN_SUMS_16(96), PACKTRAIN_SUMS_16(112)
#define PACKTRAIN_NAMES_32                                       \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "           \
  "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define PACKTRAIN_NAMES_64                                       \
  PACKTRAIN_NAMES_32                                             \
  ", %32, %33, %34, %35, "                                       \
  "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, " \
  "%60, %61, %62, %63"
#define PACKTRAIN_NAMES_96                                         \
  PACKTRAIN_NAMES_64                                               \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, " \
  "%76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, "   \
  "%88, %89, %90, %91, %92, %93, %94, %95"
#define PACKTRAIN_NAMES_128                                                  \
  PACKTRAIN_NAMES_96                                                         \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, "   \
  "%108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, " \
  "%120, %121, %122, %123, %124, %125, %126, %127"
// `left` and the parameters after it are the numbers of the asm operands that follow the
// accumulators.
#define PACKTRAIN_MULTIPLY(columns, count, left, right, adds, left_outer, right_outer)         \
  asm volatile(                                                                                \
      "{ .reg .pred add;\n"                                                                    \
      "setp.ne.b32 add, " adds                                                                 \
      ", 0;\n"                                                                                 \
      "wgmma.mma_async.sync.aligned.m64" columns "k16.f32.bf16.bf16 {" PACKTRAIN_NAMES_##count \
      "}, " left ", " right ", add, 1, 1, " left_outer ", " right_outer "; }"                  \
      : PACKTRAIN_SUMS_##count                                                                 \
      : "l"(left_operand), "l"(right_operand), "r"(static_cast<int>(add)),                     \
        "n"(kLeft == Major::kMN ? 1 : 0), "n"(kRight == Major::kMN ? 1 : 0))

// sums = left right, or sums += left right if `add`. left is 64 x 16 and right 16 x N, both
// descriptors of the given majors. The first product of a tile passes add = false, so that
// accumulators need no zeros.
template <Major kLeft, Major kRight, int N>
__device__ void wgmma(Accumulator<N>& sums, std::uint64_t left_operand, std::uint64_t right_operand,
                      bool add) {
  static_assert(N == 64 || N == 128 || N == 192 || N == 256);
  if constexpr (N == 64) {
    PACKTRAIN_MULTIPLY("n64", 32, "%32", "%33", "%34", "%35", "%36");
  } else if constexpr (N == 128) {
    PACKTRAIN_MULTIPLY("n128", 64, "%64", "%65", "%66", "%67", "%68");
  } else if constexpr (N == 192) {
    PACKTRAIN_MULTIPLY("n192", 96, "%96", "%97", "%98", "%99", "%100");
  } else {
    PACKTRAIN_MULTIPLY("n256", 128, "%128", "%129", "%130", "%131", "%132");
  }
}

#define PACKTRAIN_MULTIPLY_FP8(left_type)                                                    \
  asm volatile(                                                                              \
      "{ .reg .pred add;\n"                                                                  \
      "setp.ne.b32 add, %130, 0;\n"                                                          \
      "wgmma.mma_async.sync.aligned.m64n256k32.f32." left_type ".e4m3 {" PACKTRAIN_NAMES_128 \
      "}, %128, %129, add, 1, 1; }"                                                          \
      : PACKTRAIN_SUMS_128                                                                   \
      : "l"(left_operand), "l"(right_operand), "r"(static_cast<int>(add)))

// The same of 8-bit floats, 64 x 32 and 32 x 256. The right operand is e4m3. The tensor cores sum
// with about 14 bits (arXiv 2412.19437, section 3.3.2).
template <Major kLeft>
__device__ void wgmma_fp8(Accumulator<256>& sums, std::uint64_t left_operand,
                          std::uint64_t right_operand, bool add) {
  static_assert(kLeft == Major::kE4M3 || kLeft == Major::kE5M2);
  if constexpr (kLeft == Major::kE4M3) {
    PACKTRAIN_MULTIPLY_FP8("e4m3");
  } else {
    PACKTRAIN_MULTIPLY_FP8("e5m2");
  }
}

#define PACKTRAIN_MULTIPLY_ROWS(columns, count, a, b, c, d, right, outer)                        \
  asm volatile("wgmma.mma_async.sync.aligned.m64" columns                                        \
               "k16.f32.bf16.bf16 {" PACKTRAIN_NAMES_##count "}, {" a ", " b ", " c ", " d       \
                                                             "}, " right ", 1, 1, 1, " outer ";" \
               : PACKTRAIN_SUMS_##count                                                          \
               : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right_operand),     \
                 "n"(kRight == Major::kMN ? 1 : 0))

// sums += left right, with the left operand in registers. Its rows are those of the accumulator.
// The words have row r, columns 2 (t % 4) and the next, then the same of row r + 8. The last two
// words have the columns + 8.
template <Major kRight, int N>
__device__ void wgmma_rows(Accumulator<N>& sums, const std::uint32_t (&left)[4],
                           std::uint64_t right_operand) {
  static_assert(N == 64 || N == 128);
  if constexpr (N == 64) {
    PACKTRAIN_MULTIPLY_ROWS("n64", 32, "%32", "%33", "%34", "%35", "%36", "%37");
  } else {
    PACKTRAIN_MULTIPLY_ROWS("n128", 64, "%64", "%65", "%66", "%67", "%68", "%69");
  }
}

#undef PACKTRAIN_MULTIPLY_ROWS
#undef PACKTRAIN_MULTIPLY_FP8
#undef PACKTRAIN_MULTIPLY
#undef PACKTRAIN_NAMES_128
#undef PACKTRAIN_NAMES_96
#undef PACKTRAIN_NAMES_64
#undef PACKTRAIN_NAMES_32
#undef PACKTRAIN_SUMS_128
#undef PACKTRAIN_SUMS_96
#undef PACKTRAIN_SUMS_64
#undef PACKTRAIN_SUMS_32
#undef PACKTRAIN_SUMS_16
#undef PACKTRAIN_SUMS_4

}  // namespace packtrain::device

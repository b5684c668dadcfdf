#include "framework/device/kernel_name.h"

#include <gtest/gtest.h>

namespace packtrain {
namespace {

TEST(KernelName, IsReadableWhereItIsMangled) {
  EXPECT_EQ(readable_kernel_name("_ZN9packtrain6kernelIfLi4EEEvPT_i"),
            "void packtrain::kernel<float, 4>(float*, int)");
  EXPECT_EQ(readable_kernel_name("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTN"),
            "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTN");
}

TEST(KernelName, IsShortWithoutNamespacesArgumentsAndParameters) {
  EXPECT_EQ(short_kernel_name("void packtrain::(anonymous namespace)::rms_norm<at::Half, 8>(int*)"),
            "rms_norm");
  EXPECT_EQ(short_kernel_name("void at::native::elementwise<4, at::f(T)::{lambda(int)#1}>(int, "
                              "at::f(T)::{lambda(int)#1}, void (*)(char*))"),
            "elementwise");
  EXPECT_EQ(short_kernel_name("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
            "ncclDevKernel_AllGather_RING_LL");
  EXPECT_EQ(short_kernel_name("nvjet_tst_128x256_64x4_1x2_h_bz"),
            "nvjet_tst_128x256_64x4_1x2_h_bz");
}

TEST(KernelName, OfAnOddNameIsTheNameItself) {
  for (const char* odd : {"", ")", ">", "(x)", "a >> b"}) {
    EXPECT_EQ(short_kernel_name(odd).empty(), std::string(odd).empty()) << odd;
  }
}

}  // namespace
}  // namespace packtrain

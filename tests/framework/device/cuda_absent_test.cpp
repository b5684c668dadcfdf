// These tests pass on machines with and without a GPU.
#include <gtest/gtest.h>

#include <string>

#include "framework/core/error.h"
#include "framework/device/device.h"

namespace packtrain {
namespace {

TEST(CudaDevices, CountingThemNeverThrows) {
  EXPECT_GE(num_cuda_devices(), 0);
}

TEST(CudaDevices, OneThatIsNotThereIsANamedError) {
  try {
    make_cuda_device(num_cuda_devices(), {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kDevice);
    EXPECT_NE(error.message().find("CUDA"), std::string::npos);
    EXPECT_FALSE(error.advice().empty());
  }
}

}  // namespace
}  // namespace packtrain

// libFuzzer's side (llvm.org/docs/LibFuzzer.html): PACKTRAIN_FUZZ_TARGET names what is fuzzed.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/targets.h"

namespace {

const packtrain::fuzz::Target* target = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const char* name = std::getenv("PACKTRAIN_FUZZ_TARGET");
  target = name == nullptr ? nullptr : packtrain::fuzz::find_target(name);
  if (target != nullptr) return 0;
  std::fputs("set PACKTRAIN_FUZZ_TARGET to a target of tests/fuzz/targets.cpp\n", stderr);
  std::exit(64);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  target->run({reinterpret_cast<const char*>(data), size});
  return 0;
}

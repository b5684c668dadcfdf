#include "framework/core/safetensors.h"

#include "tests/fuzz/input_file.h"
#include "tests/fuzz/targets.h"

namespace packtrain::fuzz {

// Every byte of every tensor is read: what lies outside of the file is seen by the sanitizer or
// ends the process.
void read_safetensors(std::string_view input) {
  static InputFile file;
  file.write(input);
  try {
    const auto opened = SafetensorsFile::open(file.path(), ErrorCategory::kData);
    std::size_t num_bytes = 0;
    unsigned sum = 0;
    for (const auto& [name, tensor] : opened->tensors()) {
      require(
          static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype) == tensor.data.size(),
          "a tensor has the bytes of its shape");
      for (const std::byte byte : tensor.data) sum += static_cast<unsigned>(byte);
      num_bytes += tensor.data.size();
    }
    require(sum <= 255 * num_bytes && num_bytes < input.size(), "tensors lie apart in the file");
  } catch (const Error&) {
  }
}

}  // namespace packtrain::fuzz

#include "models/ops/fp8/fp8_stored.h"

#include <ATen/ops/empty.h>

#include <cstring>

#include "models/block/fp8_bytes.h"
#include "models/ops/fp8/fp8.h"

namespace packtrain {
namespace {

at::Tensor stored_scale(const EncodedParameter& parameter) {
  const std::int64_t numel = parameter.bytes.numel() - kFp8ScaleBytes;
  return parameter.bytes.narrow(0, numel, kFp8ScaleBytes).view(at::kFloat).narrow(0, 0, 2);
}

at::Tensor stored_codes(const EncodedParameter& parameter) {
  return parameter.bytes.narrow(0, 0, parameter.bytes.numel() - kFp8ScaleBytes);
}

}  // namespace

void fp8_decode(const EncodedParameter& parameter, const at::Tensor& values) {
  const at::Tensor codes = stored_codes(parameter);
  const at::Tensor scale = stored_scale(parameter);
  if (codes.is_cuda()) return fp8_decode_cuda(codes, scale, values);
  values.copy_(fp8_decode_codes(codes, scale));
}

at::Tensor fp8_scale_of(float amax) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &amax, sizeof bits);
  const std::uint32_t factor = fp8::scale_of(bits & 0x7FFFFFFFU, Fp8Format::kE4M3).factor;
  at::Tensor scale = at::empty({2}, at::kFloat);
  std::memcpy(scale.data_ptr<float>(), &factor, sizeof factor);
  scale.data_ptr<float>()[1] = amax;
  return scale;
}

at::Tensor fp8_codes_of(const at::Tensor& values, const at::Tensor& scale) {
  const at::Tensor rows = values.view({-1, kFp8Alignment});
  const Fp8Copies copies = fp8_cast(rows, scale, {.rows = true, .has_known_scale = true});
  return copies.rows.view(at::kByte).view({-1});
}

at::Tensor fp8_decode_codes(const at::Tensor& codes, const at::Tensor& scale) {
  return codes.view(at::kFloat8_e4m3fn).to(at::kFloat).mul_(scale.const_data_ptr<float>()[0]);
}

}  // namespace packtrain

#include "training/checkpoint/hf_bitsandbytes.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "models/ops/nf4/nf4.h"
#include "models/ops/nf4/nf4_arithmetic.h"
#include "training/checkpoint/checkpoint_error.h"
#include "training/checkpoint/hf_files.h"

namespace packtrain {
namespace {

constexpr const char* kDoubleQuantisation =
    "packtrain reads NF4 of bitsandbytes with double quantisation (bnb_4bit_quant_type: nf4, "
    "bnb_4bit_use_double_quant: true), in blocks of 64. Use the unquantized model: model.base: nf4 "
    "quantises it.";

using Json = nlohmann::json;

// The tensors that describe `name`.
class Companions {
 public:
  Companions(HfTensors& tensors, std::string name)
      : tensors_(tensors), name_(std::move(name)), file_(tensors.at(state_name()).file->path()) {}

  std::string state_name() const { return name_ + std::string(kNf4StateSuffix); }

  [[noreturn]] void fail(const std::string& fault) const {
    fail_at(file_, fmt::format("tensor '{}': {}", name_, fault), kDoubleQuantisation);
  }

  HfTensor take(const std::string& name, DataType type, std::int64_t numel) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) fail(fmt::format("has no '{}'", name));
    const HfTensor tensor = found->second;
    if (tensor.view->dtype != type || (numel >= 0 && tensor.view->numel() != numel)) {
      fail(fmt::format("'{}' is not {} of {} elements", name,
                       type == DataType::kUInt8 ? "uint8" : "float32", numel));
    }
    tensors_.erase(found);
    return tensor;
  }

  void take_map(const std::string& suffix, std::span<const float> wanted) {
    const auto tensor =
        take(name_ + suffix, DataType::kFloat32, static_cast<std::int64_t>(wanted.size()));
    if (!std::ranges::equal(tensor.view->data, std::as_bytes(wanted))) {
      fail(fmt::format("'{}' has other values than bitsandbytes' map", name_ + suffix));
    }
  }

 private:
  HfTensors& tensors_;
  std::string name_;
  std::string file_;
};

struct QuantState {
  std::vector<std::int64_t> shape;
  float offset = 0;
};

QuantState parse_state(const HfTensor& tensor, const Companions& companions) {
  const auto bytes = tensor.view->data;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const Json state = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!state.is_object()) companions.fail("its quant_state is not a JSON object");
  const auto require = [&](const char* key, const Json& wanted) {
    const Json got = state.value(key, Json());
    if (got != wanted) {
      companions.fail(fmt::format("{} is {}, want {}", key, got.dump(), wanted.dump()));
    }
  };
  require("quant_type", "nf4");
  require("blocksize", kNf4BlockElements);
  require("nested_blocksize", kNf4GroupBlocks);
  const Json shape = state.value("shape", Json());
  const Json offset = state.value("nested_offset", Json());
  if (!offset.is_number()) companions.fail("its quant_state has no nested_offset");
  if (!shape.is_array() || !std::ranges::all_of(shape, [](const Json& size) {
        return size.is_number_unsigned() && size.get<std::uint64_t>() < (std::uint64_t{1} << 31);
      })) {
    companions.fail("its quant_state has no shape");
  }
  return {shape.get<std::vector<std::int64_t>>(), offset.get<float>()};
}

BitsandbytesTensor take_tensor(HfTensors& tensors, const std::string& name) {
  constexpr Nf4Tables kTables = make_nf4_tables();
  Companions companions(tensors, name);
  const QuantState state =
      parse_state(companions.take(companions.state_name(), DataType::kUInt8, -1), companions);
  TensorView plain{DataType::kFloat32, state.shape, {}};
  const std::int64_t numel = state.shape.empty() ? 0 : plain.numel();
  if (numel <= 0 || numel % kNf4BlockElements != 0) companions.fail("is not whole blocks of 64");
  companions.take_map(".quant_map", kTables.quantiles);
  companions.take_map(".nested_quant_map", kTables.absmax_map);
  BitsandbytesTensor tensor;
  tensor.absmax = companions.take(name + ".absmax", DataType::kUInt8, numel / kNf4BlockElements);
  tensor.nested_absmax =
      companions.take(name + ".nested_absmax", DataType::kFloat32, num_nf4_groups(numel));
  tensor.codes = companions.take(name, DataType::kUInt8, numel / 2);
  tensor.offset = state.offset;
  plain.data = tensor.codes.view->data;
  tensor.plain = std::make_shared<const TensorView>(std::move(plain));
  tensors[name] = {tensor.codes.file, tensor.plain.get()};
  return tensor;
}

}  // namespace

BitsandbytesTensors take_bitsandbytes_tensors(HfTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    if (name.ends_with(kNf4StateSuffix)) {
      names.push_back(name.substr(0, name.size() - kNf4StateSuffix.size()));
    }
  }
  BitsandbytesTensors taken;
  for (const std::string& name : names) taken.emplace(name, take_tensor(tensors, name));
  return taken;
}

void read_groups(const BitsandbytesTensor& tensor, std::int64_t first_group,
                 const at::Tensor& groups) {
  const at::Tensor made = at::zeros(groups.sizes(), at::kByte);
  const std::int64_t num_groups = groups.numel() / kNf4GroupBytes;
  for (std::int64_t i = 0; i < num_groups; ++i) {
    const std::int64_t group = first_group + i;
    auto* to = made.data_ptr<std::uint8_t>() + i * kNf4GroupBytes;
    const auto copy = [](std::span<const std::byte> from, std::int64_t begin, std::int64_t size,
                         std::uint8_t* target) {
      const auto end = std::min(static_cast<std::int64_t>(from.size()), begin + size);
      std::memcpy(target, from.data() + begin, static_cast<std::size_t>(end - begin));
    };
    constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));
    copy(tensor.nested_absmax.view->data, group * kFloat, kFloat, to);
    std::memcpy(to + kFloat, &tensor.offset, sizeof tensor.offset);
    copy(tensor.absmax.view->data, group * kNf4GroupBlocks, kNf4GroupBlocks, to + kNf4HeaderBytes);
    copy(tensor.codes.view->data, group * kNf4GroupElements / 2, kNf4GroupElements / 2,
         to + kNf4HeaderBytes + kNf4GroupBlocks);
  }
  groups.copy_(made);
}

at::Tensor decode(const BitsandbytesTensor& tensor) {
  const at::Tensor groups = at::empty({num_nf4_groups(tensor.numel()) * kNf4GroupBytes}, at::kByte);
  read_groups(tensor, 0, groups);
  at::Tensor values = at::empty({tensor.numel()}, at::kFloat);
  nf4_decode({groups, {{0, tensor.numel()}}}, values);
  return values;
}

}  // namespace packtrain

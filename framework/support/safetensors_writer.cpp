#include "framework/support/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "framework/support/file.h"
#include "framework/support/safetensors_header.h"

namespace packtrain {
namespace {

// Wide types first, so that every tensor is aligned to its own elements.
std::vector<const TensorToWrite*> aligned_order(std::span<const TensorToWrite> tensors) {
  std::vector<const TensorToWrite*> order;
  order.reserve(tensors.size());
  for (const TensorToWrite& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return size_of(a->dtype) > size_of(b->dtype);
  });
  return order;
}

void check(std::span<const TensorToWrite> tensors, const std::string& path) {
  std::set<std::string_view> names;
  for (const TensorToWrite& tensor : tensors) {
    const auto numel = checked_numel(tensor.shape);
    const bool fits =
        numel && static_cast<std::size_t>(*numel) * size_of(tensor.dtype) == tensor.data.size();
    if (!fits || tensor.name == "__metadata__" || !names.insert(tensor.name).second) {
      throw Error(ErrorCategory::kInternal,
                  fmt::format("{}: tensor '{}' has a name used before, or {} bytes that are not "
                              "its shape's",
                              path, tensor.name, tensor.data.size()));
    }
  }
}

std::string header_text(std::span<const TensorToWrite* const> order,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t begin = 0;
  for (const TensorToWrite* tensor : order) {
    const std::uint64_t end = begin + tensor->data.size();
    header[tensor->name] = {{"dtype", safetensors_dtype_name(tensor->dtype)},
                            {"shape", tensor->shape},
                            {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

void write_safetensors(const std::string& path, std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata, ErrorCategory category) {
  check(tensors, path);
  const std::vector<const TensorToWrite*> order = aligned_order(tensors);
  const std::string header = header_text(order, metadata);
  const std::uint64_t length = header.size();
  OutputFile file(path, OutputFile::Mode::kCreate, category);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  for (const TensorToWrite* tensor : order) file.write(tensor->data);
  file.sync();
  file.close();
}

}  // namespace packtrain

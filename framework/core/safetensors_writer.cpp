#include "framework/core/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "framework/core/safetensors_header.h"

namespace packtrain {
namespace {

// Wide types come first, so that every tensor is aligned to its elements.
std::vector<const TensorToWrite*> aligned_order(std::span<const TensorToWrite> tensors) {
  std::vector<const TensorToWrite*> order;
  order.reserve(tensors.size());
  for (const TensorToWrite& tensor : tensors) order.push_back(&tensor);
  // Equal widths keep the given order. The pointers compare by position in the input.
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    const std::size_t width_a = size_of(a->dtype);
    const std::size_t width_b = size_of(b->dtype);
    return width_a != width_b ? width_a > width_b : a < b;
  });
  return order;
}

std::size_t num_bytes(const TensorHeader& tensor, const std::string& path) {
  const auto numel = checked_numel(tensor.shape);
  if (!numel) {
    throw Error(ErrorCategory::kInternal,
                fmt::format("{}: tensor '{}' has too many elements", path, tensor.name));
  }
  return static_cast<std::size_t>(*numel) * size_of(tensor.dtype);
}

std::string header_text(const std::vector<TensorHeader>& tensors, const std::string& path,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t begin = 0;
  std::set<std::string_view> names = {"__metadata__"};
  for (const TensorHeader& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      throw Error(ErrorCategory::kInternal,
                  fmt::format("{}: tensor name '{}' is used before", path, tensor.name));
    }
    const std::uint64_t end = begin + num_bytes(tensor, path);
    header[tensor.name] = {{"dtype", safetensors_dtype_name(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<TensorHeader> tensors,
                                     const std::map<std::string, std::string>& metadata,
                                     ErrorCategory category)
    : path_(std::move(path)), tensors_(std::move(tensors)) {
  const std::string header = header_text(tensors_, path_, metadata);
  const std::uint64_t length = header.size();
  header_.assign(reinterpret_cast<const char*>(&length), sizeof length);
  header_ += header;
  file_ = std::make_unique<OutputFile>(path_, OutputFile::Mode::kCreate, category);
  file_->write(header_);
}

void SafetensorsWriter::write(std::span<const std::byte> data) {
  const bool is_whole = next_ < tensors_.size() && num_appended_ == 0 &&
                        data.size() == num_bytes(tensors_[next_], path_);
  if (!is_whole) fail_size(data.size());
  file_->write(data);
  ++next_;
}

void SafetensorsWriter::append(std::span<const std::byte> data) {
  skip_complete();
  if (data.empty()) return;
  const bool fits =
      next_ < tensors_.size() && data.size() <= num_bytes(tensors_[next_], path_) - num_appended_;
  if (!fits) fail_size(data.size());
  file_->write(data);
  num_appended_ += data.size();
  skip_complete();
}

// Tensors without elements are complete.
void SafetensorsWriter::skip_complete() {
  while (next_ < tensors_.size() && num_appended_ == num_bytes(tensors_[next_], path_)) {
    ++next_;
    num_appended_ = 0;
  }
}

void SafetensorsWriter::fail_size(std::size_t size) const {
  throw Error(ErrorCategory::kInternal,
              fmt::format("{}: {} bytes are not those of its tensor {} of {}", path_, size, next_,
                          tensors_.size()));
}

void SafetensorsWriter::finish() {
  if (next_ != tensors_.size()) {
    throw Error(ErrorCategory::kInternal,
                fmt::format("{}: {} of {} tensors written", path_, next_, tensors_.size()));
  }
  file_->sync();
  file_->close();
}

void write_safetensors(const std::string& path, std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata, ErrorCategory category) {
  const std::vector<const TensorToWrite*> order = aligned_order(tensors);
  std::vector<TensorHeader> headers;
  headers.reserve(order.size());
  for (const TensorToWrite* tensor : order) {
    headers.push_back({tensor->name, tensor->dtype, tensor->shape});
  }
  SafetensorsWriter writer(path, std::move(headers), metadata, category);
  for (const TensorToWrite* tensor : order) writer.write(tensor->data);
  writer.finish();
}

}  // namespace packtrain

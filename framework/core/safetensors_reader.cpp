#include "framework/core/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include "framework/core/safetensors_header.h"

namespace packtrain {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

namespace {

constexpr const char* kDamaged =
    "The file is damaged or was cut short: write or download it again.";

// `git clone` without git-lfs leaves a pointer file in place of a large file.
bool is_lfs_pointer(std::span<const std::byte> bytes) {
  constexpr std::string_view kBegin = "version https://git-lfs";
  return bytes.size() > kBegin.size() &&
         std::memcmp(bytes.data(), kBegin.data(), kBegin.size()) == 0;
}

}  // namespace

std::int64_t TensorView::numel() const {
  std::int64_t numel = 1;
  for (const std::int64_t size : shape) numel *= size;  // checked when the file was opened
  return numel;
}

std::shared_ptr<const SafetensorsFile> SafetensorsFile::open(const std::string& path,
                                                             ErrorCategory category) {
  const auto fail = [&](const std::string& fault, const char* advice = kDamaged) {
    throw Error(category, fmt::format("{}: {}", path, fault), advice);
  };
  std::shared_ptr<SafetensorsFile> result(new SafetensorsFile);
  result->path_ = path;
  result->category_ = category;
  result->file_ = MappedFile::open(path, category);
  const std::span<const std::byte> bytes = result->file_->bytes();
  if (is_lfs_pointer(bytes)) {
    fail("is a pointer of git-lfs, not the file", "`git lfs pull` in its folder fetches the file.");
  }
  std::uint64_t length = 0;
  if (bytes.size() < sizeof length) {
    fail(fmt::format("has {} bytes, too few for a safetensors file", bytes.size()));
  }
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kMaxSafetensorsHeaderBytes || length > bytes.size() - sizeof length) {
    fail(fmt::format("says its header has {} bytes, but at most {} are possible", length,
                     std::min(kMaxSafetensorsHeaderBytes, bytes.size() - sizeof length)));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof length, length);
  const std::span<const std::byte> data = bytes.subspan(sizeof length + length);
  try {
    SafetensorsHeader header = parse_safetensors_header(text, data.size());
    result->metadata_ = std::move(header.metadata);
    for (auto& [name, entry] : header.tensors) {
      result->tensors_.emplace(name,
                               TensorView{entry.dtype, std::move(entry.shape),
                                          data.subspan(entry.begin, entry.end - entry.begin)});
    }
  } catch (const UnreadType& fault) {
    fail(fault.what(), "Quantized weights cannot be trained: use the unquantized model.");
  } catch (const SafetensorsFault& fault) {
    fail(fault.what());
  }
  return result;
}

void SafetensorsFile::check_unchanged() const {
  file_->check_unchanged();
}

const TensorView& SafetensorsFile::tensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw Error(category_, fmt::format("{}: has no tensor '{}'", path_, name));
  }
  return found->second;
}

}  // namespace packtrain

#include "training/checkpoint/shard_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/hash.h"

namespace packtrain {
namespace {

constexpr auto kCategory = ErrorCategory::kCheckpoint;
constexpr std::uint64_t kMaxResidentBlocks = 128;
constexpr std::size_t kDigestDigits = 32;
constexpr const char* kBlockBytesKey = "block_bytes";
constexpr std::uint64_t kLengthBytes = sizeof(std::uint64_t);

std::string digests_key(const std::string& tensor) {
  return "digests/" + tensor;
}

std::string block_digests(std::span<const std::byte> bytes) {
  std::string digests;
  for (std::size_t begin = 0; begin < bytes.size(); begin += kBlockBytes) {
    digests +=
        hash_bytes(bytes.subspan(begin, std::min<std::size_t>(kBlockBytes, bytes.size() - begin)));
  }
  return digests;
}

std::string hash_text(std::string_view text) {
  return hash_bytes(std::as_bytes(std::span(text)));
}

// Wide types come first, so that each tensor is aligned to its elements.
std::vector<const TensorToWrite*> aligned_order(std::span<const TensorToWrite> tensors) {
  std::vector<const TensorToWrite*> order;
  order.reserve(tensors.size());
  for (const TensorToWrite& tensor : tensors) order.push_back(&tensor);
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [](const TensorToWrite* tensor) { return size_of(tensor->dtype); });
  return order;
}

}  // namespace

CheckpointFile write_shard_file(const std::string& folder, const std::string& name,
                                std::span<const TensorToWrite> tensors) {
  std::vector<TensorHeader> headers;
  std::map<std::string, std::string> metadata = {{kBlockBytesKey, std::to_string(kBlockBytes)}};
  const std::vector<const TensorToWrite*> order = aligned_order(tensors);
  for (const TensorToWrite* tensor : order) {
    headers.push_back({tensor->name, tensor->dtype, tensor->shape});
    metadata[digests_key(tensor->name)] = block_digests(tensor->data);
  }
  SafetensorsWriter writer(folder + "/" + name, std::move(headers), metadata, kCategory);
  CheckpointFile file{.name = name,
                      .size = writer.header().size(),
                      .digest = {},
                      .header_size = writer.header().size(),
                      .header_digest = hash_text(writer.header())};
  Hasher whole;
  whole.update(std::as_bytes(std::span(writer.header())));
  for (const TensorToWrite* tensor : order) {
    whole.update(tensor->data);
    writer.write(tensor->data);
    file.size += tensor->data.size();
  }
  writer.finish();
  file.digest = whole.hex();
  return file;
}

ShardFile::ShardFile(std::string path, const CheckpointFile& saved, ReadCounts& counts)
    : path_(std::move(path)), saved_(saved), counts_(counts) {
  const std::string header = read_header();
  data_begin_ = kLengthBytes + header.size();
  try {
    header_ = parse_safetensors_header(header, saved_.size - data_begin_);
  } catch (const SafetensorsFault& fault) {
    fail(fault.what());
  }
  const auto block_bytes = header_.metadata.find(kBlockBytesKey);
  if (block_bytes == header_.metadata.end()) return;
  const std::string& digits = block_bytes->second;
  std::from_chars(digits.data(), digits.data() + digits.size(), block_bytes_);
  if (block_bytes_ == 0) fail("has blocks of no bytes");
}

void ShardFile::open() {
  file_ = std::make_unique<Descriptor>(path_, O_RDONLY, kCategory);
  ++counts_.num_opens;
  struct stat status{};
  if (::fstat(file_->get(), &status) != 0) fail_on(path_, "fstat", errno, kCategory);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (S_ISREG(status.st_mode) && size == saved_.size) return;
  fail(fmt::format("has {} bytes, want {}", size, saved_.size));
}

std::string ShardFile::read_header() {
  if (!saved_.header_digest.empty()) {
    const std::string header = read_bytes(0, saved_.header_size);
    const std::string digest = hash_text(header);
    if (digest == saved_.header_digest) return header.substr(std::min(kLengthBytes, header.size()));
    fail(fmt::format("its header has the digest {}, want {}", digest, saved_.header_digest));
  }
  std::uint64_t length = 0;
  if (saved_.size < kLengthBytes) fail("is too short for a safetensors file");
  std::memcpy(&length, read_bytes(0, kLengthBytes).data(), kLengthBytes);
  if (length > kMaxSafetensorsHeaderBytes || length > saved_.size - kLengthBytes) {
    fail(fmt::format("says its header has {} bytes", length));
  }
  return read_bytes(kLengthBytes, length);
}

void ShardFile::fail(const std::string& fault) const {
  throw Error(kCategory, fmt::format("{}: {}", path_, fault));
}

std::string ShardFile::read_bytes(std::uint64_t begin, std::uint64_t size) {
  if (file_ == nullptr) open();
  std::string bytes(size, '\0');
  const std::size_t done = read_at(*file_, path_, begin, bytes, kCategory);
  if (done < size) fail(fmt::format("ends at byte {}", begin + done));
  counts_.num_bytes += size;
  return bytes;
}

void ShardFile::verify_whole() {
  if (!saved_.header_digest.empty() || verified_) return;
  const std::string digest = hash_file(path_, kCategory);
  counts_.num_bytes += saved_.size;
  ++counts_.num_opens;
  if (digest != saved_.digest) {
    fail(fmt::format("has the digest {}, want {}", digest, saved_.digest));
  }
  verified_ = true;
}

void ShardFile::check_blocks(const std::string& tensor, std::uint64_t first,
                             std::string_view bytes) const {
  if (saved_.header_digest.empty()) return;
  const auto digests = header_.metadata.find(digests_key(tensor));
  for (std::uint64_t block = first; !bytes.empty(); ++block) {
    const std::string_view part = bytes.substr(0, block_bytes_);
    const std::string digest = hash_text(part);
    const bool is_known =
        digests != header_.metadata.end() && digests->second.size() >= (block + 1) * kDigestDigits;
    if (!is_known || digests->second.compare(block * kDigestDigits, kDigestDigits, digest) != 0) {
      fail(fmt::format("block {} of '{}' has the digest {}, want {}", block, tensor, digest,
                       is_known ? digests->second.substr(block * kDigestDigits, kDigestDigits)
                                : "one in the header"));
    }
    bytes.remove_prefix(part.size());
  }
}

void ShardFile::read(const std::string& tensor, std::uint64_t begin, std::uint64_t end,
                     const std::function<void(std::span<const std::byte>)>& take) {
  verify_whole();
  const SafetensorsEntry& entry = header_.tensors.at(tensor);
  const std::uint64_t size = entry.end - entry.begin;
  while (begin < end) {
    const std::uint64_t block = begin / block_bytes_;
    const std::uint64_t from = block * block_bytes_;
    const std::uint64_t blocks_end = (end + block_bytes_ - 1) / block_bytes_;
    const std::uint64_t to =
        std::min(size, std::min(blocks_end, block + kMaxResidentBlocks) * block_bytes_);
    const std::string bytes = read_bytes(data_begin_ + entry.begin + from, to - from);
    check_blocks(tensor, block, bytes);
    const std::uint64_t stop = std::min(end, to);
    take(std::as_bytes(std::span(bytes)).subspan(begin - from, stop - begin));
    begin = stop;
  }
}

}  // namespace packtrain

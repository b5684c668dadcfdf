#include "framework/metrics/last_lines.h"

#include <algorithm>
#include <cerrno>

#include "framework/core/descriptor.h"
#include "framework/core/file.h"

namespace packtrain {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{256} << 10U;

class Blocks {
 public:
  Blocks(const std::string& path, ErrorCategory category)
      : path_(path), category_(category), file_(path, O_RDONLY, category) {
    struct stat status{};
    if (::fstat(file_.get(), &status) != 0) fail_on(path, "fstat", errno, category);
    check_regular_file(status, path, category);
    size_ = static_cast<std::size_t>(status.st_size);
  }

  std::size_t size() const { return size_; }

  std::string read(std::size_t begin, std::size_t size) const {
    std::string bytes(size, '\0');
    if (read_at(file_, path_, begin, bytes, category_) < size) {
      throw Error(category_, path_ + ": became shorter while it was read");
    }
    return bytes;
  }

 private:
  std::string path_;
  ErrorCategory category_;
  Descriptor file_;
  std::size_t size_ = 0;
};

// Where the last line of `text` begins, if a newline before it is there.
std::size_t after_last_newline(const std::string& text) {
  if (text.size() < 2) return std::string::npos;
  const std::size_t newline = text.rfind('\n', text.size() - 2);
  return newline == std::string::npos ? newline : newline + 1;
}

}  // namespace

void visit_lines_backwards(
    const std::string& path, ErrorCategory category,
    const std::function<bool(std::string_view line, std::size_t begin)>& visit) {
  const Blocks blocks(path, category);
  std::string text;  // bytes that no visited line has, from `begin` on
  for (std::size_t begin = blocks.size(); begin > 0;) {
    const std::size_t size = std::min(begin, kBlockBytes);
    begin -= size;
    text.insert(0, blocks.read(begin, size));
    for (std::size_t at; (at = after_last_newline(text)) != std::string::npos;) {
      if (!visit(std::string_view(text).substr(at), begin + at)) return;
      text.resize(at);
    }
  }
  if (!text.empty()) visit(text, 0);
}

void replace_end(const std::string& path, std::size_t num_kept_bytes, std::string_view rest,
                 ErrorCategory category) {
  const Blocks blocks(path, category);
  replace_atomically(path, category, [&](OutputFile& file) {
    for (std::size_t begin = 0; begin < num_kept_bytes; begin += kBlockBytes) {
      file.write(blocks.read(begin, std::min(num_kept_bytes - begin, kBlockBytes)));
    }
    file.write(rest);
  });
}

}  // namespace packtrain

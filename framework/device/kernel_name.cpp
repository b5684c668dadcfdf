#include "framework/device/kernel_name.h"

#include <cxxabi.h>

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace packtrain {
namespace {

// Position of the bracket that opens the one at `end`.
std::size_t opening(const std::string& text, std::size_t end, char open, char close) {
  int depth = 0;
  for (std::size_t at = end + 1; at-- > 0;) {
    if (text[at] == close) ++depth;
    if (text[at] == open && --depth == 0) return at;
  }
  return 0;
}

}  // namespace

std::string readable_kernel_name(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : mangled;
}

std::string short_kernel_name(const std::string& readable) {
  std::string name = readable;
  const std::size_t parameters = name.find_last_of(')');
  if (parameters + 1 == name.size() && parameters > 0) {
    name.erase(opening(name, parameters, '(', ')'));
  }
  if (!name.empty() && name.back() == '>') name.erase(opening(name, name.size() - 1, '<', '>'));
  const std::size_t before = name.find_last_of(": ");
  name.erase(0, before == std::string::npos ? 0 : before + 1);
  return name.empty() ? readable : name;
}

}  // namespace packtrain

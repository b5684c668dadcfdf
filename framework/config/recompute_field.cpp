// The kind of field of memory.recompute.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "framework/config/field.h"
#include "framework/config/recompute.h"
#include "framework/core/nearest.h"

namespace packtrain {

Field recompute_or_auto(const char* name, std::optional<RecomputeByLayer>& member) {
  std::vector<std::string> names = recompute_names();
  names.insert(names.begin(), "auto");
  const std::string wanted = one_of(names) + ", or by layer like full:20+selective@16384";
  const auto read = [=, &member](const Setting& setting) {
    if (!setting.value.is_string()) reject(setting, wanted);
    const auto text = setting.value.get<std::string>();
    member = parse_recompute(text);
    if (member || text == "auto") return;
    const std::optional<std::string> near = nearest_name(text, names);
    reject(setting, wanted, near ? fmt::format("Did you mean {}?", *near) : "");
  };
  const auto write = [&member] { return member ? recompute_text(*member) : std::string("auto"); };
  return {.name = name, .wanted = wanted, .read = read, .write = write, .choices = names};
}

}  // namespace packtrain

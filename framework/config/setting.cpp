#include "framework/config/setting.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/utf8.h"

namespace packtrain {
namespace {

using Json = nlohmann::ordered_json;

// Source of a text. The command line has no line numbers.
struct Source {
  std::string name;
  bool has_lines = true;

  std::string at(const YAML::Mark& mark) const {
    if (!has_lines || mark.is_null()) return name;
    return fmt::format("{}:{}:{}", name, mark.line + 1, mark.column + 1);
  }
};

// Rejects YAML features that are dangerous (aliases can expand without bound) or surprising
// (several documents, tags) before a tree is built.
class PlainYamlOnly : public YAML::EventHandler {
 public:
  explicit PlainYamlOnly(const Source& source) : source_(source) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++num_documents_ > 1) reject_at(source_.at(mark), "a second YAML document; wanted one");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { check(mark, "", anchor); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    reject_at(source_.at(mark), "a YAML alias (*name); write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check(mark, tag, anchor);
    // yaml-cpp 0.7 writes the escapes \_ and \N as single bytes, which is invalid UTF-8.
    if (first_invalid_utf8(value)) reject_at(source_.at(mark), "an escape that is no UTF-8 here");
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    check(mark, tag, anchor);
    enter(mark);
  }
  void OnSequenceEnd() override { --depth_; }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    check(mark, tag, anchor);
    enter(mark);
  }
  void OnMapEnd() override { --depth_; }

 private:
  // The tag "?" marks a plain value without a tag, "!" a quoted one.
  void check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) const {
    if (anchor != 0) reject_at(source_.at(mark), "a YAML anchor (&name); write the value out");
    if (!tag.empty() && tag != "?" && tag != "!") {
      reject_at(source_.at(mark), fmt::format("the YAML tag {}; write the value without it", tag));
    }
  }

  void enter(const YAML::Mark& mark) {
    if (++depth_ <= kMaxConfigDepth) return;
    reject_at(source_.at(mark), fmt::format("nesting deeper than {} levels", kMaxConfigDepth));
  }

  const Source& source_;
  int num_documents_ = 0;
  std::size_t depth_ = 0;
};

// Line and column, from 1 on, of the first tab that indents a line. yaml-cpp's error names the
// place after it, and not the tab.
std::optional<std::pair<int, int>> first_indenting_tab(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::size_t at = line.find_first_not_of(' ');
    const bool has_content = line.find_first_not_of(" \t\r") != std::string::npos;
    if (has_content && line[at] == '\t') return std::pair{number, static_cast<int>(at) + 1};
  }
  return std::nullopt;
}

[[noreturn]] void reject_syntax(const std::string& text, const Source& source,
                                const YAML::Exception& failure) {
  const auto tab = first_indenting_tab(text);
  if (tab && source.has_lines && tab->first <= failure.mark.line + 1) {
    reject_at(fmt::format("{}:{}:{}", source.name, tab->first, tab->second),
              "got a tab in front of a key, wanted spaces", "YAML takes no tabs there.");
  }
  reject_at(source.at(failure.mark), "YAML syntax: " + failure.msg);
}

YAML::Node parse(const std::string& text, const Source& source) {
  if (text.size() > kMaxConfigBytes) {
    reject_at(source.name, fmt::format("got {} bytes, wanted a configuration of at most {}",
                                       text.size(), kMaxConfigBytes));
  }
  if (const auto byte = first_invalid_utf8(text)) {
    reject_at(source.name, fmt::format("is not UTF-8 at its byte {}", *byte));
  }
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    PlainYamlOnly handler(source);
    while (parser.HandleNextDocument(handler)) {
    }
    return YAML::Load(text);
  } catch (const YAML::Exception& failure) {
    reject_syntax(text, source, failure);
  }
}

std::optional<Json> read_number(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (text.starts_with('+')) text.remove_prefix(1);
  if (text.find_first_not_of("0123456789.eE+-") != text.npos) return std::nullopt;
  const char* const end = text.data() + text.size();
  const auto all_read = [end](const std::from_chars_result& result) {
    return result.ec == std::errc() && result.ptr == end;
  };
  std::int64_t whole = 0;
  if (negative && all_read(std::from_chars(text.data(), end, whole))) return Json(whole);
  std::uint64_t positive = 0;
  if (!negative && all_read(std::from_chars(text.data(), end, positive))) return Json(positive);
  double real = 0;
  // -0.0 becomes 0, because it would be written as -0, which is an integer.
  if (all_read(std::from_chars(text.data(), end, real))) return Json(real + 0.0);
  return std::nullopt;
}

Json scalar_to_json(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;  // quoted
  if (text == "null" || text == "Null" || text == "NULL" || text == "~") return nullptr;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return read_number(text).value_or(Json(text));
}

// Calls visit(key, key node, value node) for each entry of a map. A duplicate key is an error.
template <class Visit>
void for_each_key(const YAML::Node& map, const Source& source, Visit visit) {
  std::map<std::string, std::string> seen;
  for (const auto& entry : map) {
    const std::string where = source.at(entry.first.Mark());
    if (!entry.first.IsScalar()) reject_at(where, "got a map or list as a key, wanted a name");
    const std::string key = entry.first.Scalar();
    const auto [first, is_new] = seen.emplace(key, where);
    if (!is_new)
      reject_at(where, fmt::format("'{}' is given twice, first at {}", key, first->second));
    visit(key, entry.first, entry.second);
  }
}

Json to_json(const YAML::Node& node, const Source& source) {
  switch (node.Type()) {
    case YAML::NodeType::Scalar:
      return scalar_to_json(node);
    case YAML::NodeType::Sequence: {
      Json list = Json::array();
      for (const YAML::Node& element : node) list.push_back(to_json(element, source));
      return list;
    }
    case YAML::NodeType::Map: {
      Json map = Json::object();
      for_each_key(node, source,
                   [&](const std::string& key, const YAML::Node&, const YAML::Node& value) {
                     map[key] = to_json(value, source);
                   });
      return map;
    }
    default:
      return nullptr;
  }
}

Setting make_setting(const YAML::Node& value, const std::string& key_where, const Source& source) {
  Setting setting;
  setting.key_where = key_where;
  // An empty value (`path:`) has no place, so the place of its key is used.
  setting.where = value.IsNull() ? key_where : source.at(value.Mark());
  if (value.IsScalar()) setting.text = value.Scalar();
  setting.value = to_json(value, source);
  return setting;
}

// The settings of one section. A section that is not a map gives one setting without a key.
void read_section(const std::string& section, const std::string& section_where,
                  const YAML::Node& keys, const Source& source, std::vector<Setting>& settings) {
  const auto add = [&](Setting setting, std::string key) {
    setting.section = section;
    setting.section_where = section_where;
    setting.key = std::move(key);
    settings.push_back(std::move(setting));
  };
  if (!keys.IsMap() || keys.size() == 0) {
    add(make_setting(keys, section_where, source), "");
    return;
  }
  for_each_key(keys, source,
               [&](const std::string& key, const YAML::Node& key_node, const YAML::Node& value) {
                 add(make_setting(value, source.at(key_node.Mark()), source), key);
               });
}

}  // namespace

std::vector<Setting> read_settings(const std::string& text, const std::string& file) {
  const Source source{file};
  const YAML::Node root = parse(text, source);
  if (!root.IsNull() && !root.IsMap()) {
    reject_at(source.at(root.Mark()),
              "wanted sections, each a map of keys (section: {key: value})");
  }
  std::vector<Setting> settings;
  for_each_key(
      root, source,
      [&](const std::string& section, const YAML::Node& section_node, const YAML::Node& keys) {
        read_section(section, source.at(section_node.Mark()), keys, source, settings);
      });
  return settings;
}

Setting read_override(const std::string& text) {
  const Source source{"command line: " + text, false};
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const std::size_t dot = name.find('.');
  if (equals == std::string::npos || dot == std::string::npos || dot == 0 ||
      dot + 1 == name.size()) {
    reject_at(source.name, "wanted section.key=value, for example run.max_steps=100");
  }
  const YAML::Node value = parse(text.substr(equals + 1), source);
  Setting setting = make_setting(value, source.name, source);
  setting.section = name.substr(0, dot);
  setting.section_where = source.name;
  setting.key = name.substr(dot + 1);
  return setting;
}

Setting read_whole_override(const std::string& text) {
  const Source source{"command line: " + text, false};
  const std::size_t equals = text.find('=');
  Setting setting = make_setting(parse(text.substr(equals + 1), source), source.name, source);
  setting.section = text.substr(0, equals);
  setting.section_where = source.name;
  return setting;
}

void reject_at(const std::string& where, const std::string& what, std::string advice) {
  throw Error(ErrorCategory::kConfig, where + ": " + what, std::move(advice));
}

void reject(const Setting& setting, std::string_view wanted, std::string advice) {
  constexpr std::size_t kShown = 80;
  std::string got = setting.value.is_string()
                        ? fmt::format("'{}'", setting.value.get<std::string>())
                        : setting.value.dump();
  if (got.size() > kShown) got = got.substr(0, kShown) + "...";
  reject_at(setting.where, fmt::format("{}: got {}, wanted {}", setting.name(), got, wanted),
            std::move(advice));
}

}  // namespace packtrain

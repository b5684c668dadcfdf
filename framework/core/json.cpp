#include "framework/core/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace packtrain {
namespace {

using Json = nlohmann::json;

class Checker : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }

  bool key(string_t& text) override {
    const auto [found, is_new] = keys_.back().insert(std::move(text));
    if (!is_new) throw JsonFault(fmt::format("has the key '{:.80}' twice", *found));
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    throw JsonFault(fmt::format("is no valid JSON at its byte {}", position));
  }

 private:
  bool enter() {
    if (keys_.size() == kMaxJsonDepth) {
      throw JsonFault(fmt::format("is nested deeper than {} levels", kMaxJsonDepth));
    }
    keys_.emplace_back();
    return true;
  }
  bool leave() {
    keys_.pop_back();
    return true;
  }

  std::vector<std::unordered_set<std::string>> keys_;  // of the open objects and arrays
};

// The text with each Infinity outside of strings as an object.
std::string with_infinite_objects(std::string_view text) {
  constexpr std::string_view kInfinity = "Infinity";
  std::string result;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!in_string && text.substr(i, kInfinity.size()) == kInfinity) {
      result += R"({"__float__": "Infinity"})";
      i += kInfinity.size() - 1;
      continue;
    }
    result += text[i];
    if (text[i] == '"') in_string = !in_string;
    if (in_string && text[i] == '\\' && i + 1 < text.size()) result += text[++i];
  }
  return result;
}

}  // namespace

void check_json(std::string_view text) {
  Checker checker;
  Json::sax_parse(text.begin(), text.end(), &checker);
}

nlohmann::json parse_json(std::string_view text) {
  check_json(text);
  return Json::parse(text.begin(), text.end());
}

nlohmann::json parse_hf_json(std::string_view text) {
  if (text.find("Infinity") == std::string_view::npos) return parse_json(text);
  return parse_json(with_infinite_objects(text));
}

}  // namespace packtrain

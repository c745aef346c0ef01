#include "models/companion_files.h"

#include <algorithm>

#include "base/files.h"
#include "base/json.h"

namespace mtl {

namespace {

constexpr const char* kCompanionFiles[] = {
    "tokenizer.json",     "tokenizer_config.json",  "vocab.json",      "merges.txt",         "special_tokens_map.json",
    "added_tokens.json",  "generation_config.json", "tokenizer.model", "tokenizer.tiktoken", "tiktoken_config.json",
    "chat_template.jinja"};
constexpr const char* kEndOfText = "<|endoftext|>";

}  // namespace

bool is_companion_file(const std::string& name) {
  return std::ranges::find(kCompanionFiles, name) != std::end(kCompanionFiles);
}

std::vector<std::string> copy_companion_files(const std::string& from, const std::string& to) {
  std::vector<std::string> copied;
  for (const char* name : kCompanionFiles) {
    std::string path = cat(from, "/", name);
    if (!file_exists(path)) continue;
    write_file_atomic(cat(to, "/", name), read_regular_file(path));
    copied.emplace_back(name);
  }
  return copied;
}

void check_companion_files(const std::string& folder) {
  for (const char* name : kCompanionFiles) {
    const std::string path = cat(folder, "/", name);
    std::error_code error;  // ignored, because opening the file reports the error
    if (fs::exists(path, error) && !fs::is_regular_file(path, error))
      fail(Exit::io, path, " is not a regular file; replace it with one");
  }
}

std::optional<std::int64_t> find_end_of_text_id(const std::string& folder) {
  if (file_exists(folder + "/tokenizer.json")) {
    Json tokenizer = Json::read(folder + "/tokenizer.json");
    if (const Json* added = tokenizer.find("added_tokens"); added != nullptr && added->is_array()) {
      for (const Json& token : added->as_array()) {
        if (token.is_object() && token.string_or("content", "") == kEndOfText) return token.at("id").as_int();
      }
    }
  }
  if (file_exists(folder + "/vocab.json")) {
    Json vocabulary = Json::read(folder + "/vocab.json");
    if (const Json* id = vocabulary.is_object() ? vocabulary.find(kEndOfText) : nullptr) return id->as_int();
  }
  return std::nullopt;
}

std::vector<std::int64_t> eos_ids(const Json& config) {
  const Json* value = config.is_object() ? config.find("eos_token_id") : nullptr;
  if (value == nullptr || value->is_null()) return {};
  std::vector<std::int64_t> ids;
  try {
    if (!value->is_array()) return {value->as_int()};
    for (const Json& id : value->as_array()) ids.push_back(id.as_int());
  } catch (const Error&) {
    fail(Exit::bad_data, "eos_token_id is ", value->dump(), ", but must be a token id or a list of token ids");
  }
  return ids;
}

std::vector<std::int64_t> generation_eos_ids(const std::string& folder) {
  const std::string path = folder + "/generation_config.json";
  if (!file_exists(path)) return {};
  return with_path(
      path, [&] { return eos_ids(Json::read(path)); }, ": ");
}

}  // namespace mtl

#include "ckpt/companion_files.h"

#include "base/files.h"
#include "base/json.h"

namespace mtl {

namespace {

constexpr const char* kCompanionFiles[] = {"tokenizer.json",
                                           "tokenizer_config.json",
                                           "vocab.json",
                                           "merges.txt",
                                           "special_tokens_map.json",
                                           "added_tokens.json",
                                           "generation_config.json",
                                           "tokenizer.tiktoken",
                                           "tiktoken_config.json"};
constexpr const char* kEndOfText = "<|endoftext|>";

}  // namespace

std::vector<std::string> copy_companion_files(const std::string& from, const std::string& to) {
  std::vector<std::string> copied;
  for (const char* name : kCompanionFiles) {
    std::string path = cat(from, "/", name);
    if (!file_exists(path)) continue;
    write_file_atomic(cat(to, "/", name), read_file(path));
    copied.emplace_back(name);
  }
  return copied;
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

}  // namespace mtl

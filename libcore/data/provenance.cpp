#include "data/provenance.h"

#include <algorithm>
#include <set>

#include "base/files.h"
#include "base/json_cursor.h"
#include "base/mapped_pages.h"
#include "version.h"

namespace mtl {
namespace {

constexpr std::string_view kSchema = "mtl-provenance/1";
constexpr std::string_view kMakeAgain =
    "; one of the files was replaced or changed; make the files again, or remove PREFIX.json";

/// Returns the offset of `key` in the last "output" object in `text`, for messages. Returns 0 if not found.
std::uint64_t offset_of(const std::string& text, const std::string& key) {
  const std::size_t object = text.rfind("\"output\""), at = text.find(cat('"', key, '"'), object);
  return at == std::string::npos ? 0 : at;
}

/// Compares the hash of `file` with the one in PREFIX.json. Throws BrokenRule ("hash") if they differ. Returns false if
/// PREFIX.json has no hash for the file.
bool check_hash(const Json& output, const char* key, const MappedFile& file) {
  const std::string recorded = output.string_or(key, "");
  if (recorded.empty()) return false;
  const std::string hash = hash_text(hash_mapped(file));
  if (hash == recorded) return true;
  throw BrokenRule({.rule = "hash", .file = file.path()},
                   cat("the hash is ", hash, ", but PREFIX.json records ", recorded), kMakeAgain);
}

/// Throws Error(bad_data) if a member that any tool reads has a value of another kind.
void check_members(const Json& provenance) {
  const auto object = [&](const char* key) {
    const Json* member = provenance.find(key);
    return member != nullptr && member->is_object() ? *member : Json::object();
  };
  const Json tokenizer = object("tokenizer"), output = object("output");
  tokenizer.int_or("vocab_size", 0);
  for (const char* key : {"type", "xxh3"}) tokenizer.string_or(key, "");
  for (const char* key : {"idx_xxh3", "bin_xxh3"}) output.string_or(key, "");
}

/// True for JSON lines, a corpus with the name PREFIX.json: there is a complete object before the first error.
bool begins_with_object(const std::string& text) {
  return passes([&] {
    JsonCursor cursor(text);
    const bool is_object = cursor.peek() == '{';
    cursor.skip_value();
    return is_object;
  });
}

/// Like read_provenance(), but throws BrokenRule ("provenance") if the file is invalid, and Error(io) if it cannot be
/// read.
std::optional<Json> parse_provenance(const std::string& prefix) {
  constexpr std::uint64_t kLargest = 64 << 20;  // a larger file is a corpus with the same name
  const std::string path = prefix + ".json";
  std::error_code unknown;
  const bool is_there = file_exists(path) || fs::is_symlink(path, unknown);  // also a link that leads nowhere
  if (!is_there || file_size(path) > kLargest) return std::nullopt;
  const std::string text = read_regular_file(path);
  try {
    Json content = Json::parse(text);
    if (!content.is_object() || content.string_or("schema", "") != kSchema) return std::nullopt;
    check_members(content);
    return content;
  } catch (const Error& error) {
    if (text.find(kSchema) == std::string::npos && begins_with_object(text)) return std::nullopt;
    throw BrokenRule({.rule = "provenance", .file = path}, cat("the file is broken: ", error.what()),
                     "; remove the file, which the token files do not need, or copy it again");
  }
}

}  // namespace

std::optional<Json> read_provenance(const std::string& prefix) {
  try {
    return parse_provenance(prefix);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string provenance_fault(const std::string& prefix) {
  try {
    parse_provenance(prefix);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

ProvenanceCheck check_provenance(const IndexedDataset& data) {
  const auto provenance = parse_provenance(data.prefix());
  const std::string path = data.prefix() + ".json";
  const Json* output = provenance ? provenance->find("output") : nullptr;
  if (output == nullptr || !output->is_object())
    return file_exists(path) ? ProvenanceCheck::foreign : ProvenanceCheck::none;
  const auto compare = [&](const char* key, const Json& found) {
    const Json* recorded = output->find(key);
    if (recorded == nullptr || *recorded == found) return;
    throw BrokenRule({.rule = "provenance", .file = path, .offset = offset_of(read_regular_file(path), key)},
                     cat("\"", key, "\" is ", recorded->dump(), ", but the token files have ", found.dump()),
                     kMakeAgain);
  };
  compare("dtype", name_of(data.type()));
  compare("documents", data.documents());
  compare("sequences", data.sequences());
  compare("tokens", data.tokens());
  const bool has_idx_hash = check_hash(*output, "idx_xxh3", data.idx_file());
  const bool has_bin_hash = check_hash(*output, "bin_xxh3", data.bin_file());
  return has_idx_hash && has_bin_hash ? ProvenanceCheck::content : ProvenanceCheck::counts;
}

Json describe_input(const std::string& path, std::uint64_t bytes, std::uint64_t hash) {
  return Json::object({{"path", path}, {"bytes", bytes}, {"xxh3", hash_text(hash)}});
}

Json describe_inputs(const std::vector<const IndexedDataset*>& inputs) {
  Json files = Json::array();
  for (const IndexedDataset* data : inputs) {
    for (const MappedFile* file : {&data->bin_file(), &data->idx_file()}) {
      files.push(describe_input(file->path(), file->bytes().size(), hash_mapped(*file)));
    }
  }
  return files;
}

Json common_tokenizer(const std::vector<const IndexedDataset*>& inputs) {
  Json common;
  for (const IndexedDataset* data : inputs) {
    const auto provenance = read_provenance(data->prefix());
    const Json* tokenizer = provenance ? provenance->find("tokenizer") : nullptr;
    if (tokenizer == nullptr) return {};
    if (common.is_null()) common = *tokenizer;
    if (common != *tokenizer) return {};
  }
  return common;
}

Json describe_output(const TokenFilesWritten& files) {
  return Json::object({{"prefix", files.prefix},
                       {"documents", files.documents},
                       {"sequences", files.sequences},
                       {"tokens", files.tokens},
                       {"dtype", name_of(files.type)},
                       {"bin_bytes", files.bin_bytes},
                       {"bin_xxh3", hash_text(files.bin_hash)},
                       {"idx_bytes", files.idx_bytes},
                       {"idx_xxh3", hash_text(files.idx_hash)}});
}

Json make_provenance(const std::string& program, const std::vector<std::string>& command, const Json& tokenizer,
                     const Json& inputs, const Json& output) {
  Json provenance = Json::object({{"schema", kSchema},
                                  {"program", program},
                                  {"version", kVersion},
                                  {"command", Json::Array(command.begin(), command.end())}});
  if (!tokenizer.is_null()) provenance.set("tokenizer", tokenizer);
  provenance.set("inputs", inputs).set("output", output);
  return provenance;
}

}  // namespace mtl

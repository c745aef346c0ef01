#include "device/choices_file.h"

#include <cstdlib>

#include "base/files.h"
#include "base/json.h"

namespace mtl {

namespace {

constexpr const char* kFormat = "mtl-choices";
constexpr std::int64_t kVersion = 1;

using Table = std::map<std::string, std::string>;

/// Returns the tables for all contexts. Throws Error if the file has another format.
std::map<std::string, Table> read_contexts(const std::string& path) {
  const Json file = Json::parse(read_regular_file(path));
  if (file.at("format").as_string() != kFormat || file.at("version").as_int() != kVersion)
    fail(Exit::bad_data, "this is not a choices file of version ", kVersion);
  std::map<std::string, Table> out;
  for (const auto& [context, choices] : file.at("contexts").as_object()) {
    for (const auto& [key, choice] : choices.as_object()) out[context][key] = choice.as_string();
  }
  return out;
}

}  // namespace

std::string default_choices_file() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/mtl/choices.json";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? std::string(home) + "/.cache/mtl/choices.json" : "";
}

Table read_choices(const std::string& path, const std::string& context, const Warn& warn) {
  try {
    if (file_exists(path)) return read_contexts(path)[context];
  } catch (const Error& error) {
    warn(cat(path, " is ignored (", error.message(), "): algorithms are measured again, and the file is rewritten"));
  }
  return {};
}

void write_choices(const std::string& path, const std::string& context, const Table& choices, const Warn& warn) {
  try {
    std::map<std::string, Table> contexts;
    try {
      if (file_exists(path)) contexts = read_contexts(path);
    } catch (const Error&) {
      contexts.clear();  // read_choices() has already warned
    }
    for (const auto& [key, choice] : choices) contexts[context][key] = choice;
    Json all = Json::object();
    for (const auto& [name, table] : contexts) {
      Json of_context = Json::object();
      for (const auto& [key, choice] : table) of_context.set(key, choice);
      all.set(name, std::move(of_context));
    }
    make_directories(parent_folder(path));
    const Json file = Json::object({{"format", kFormat}, {"version", kVersion}, {"contexts", std::move(all)}});
    write_file_atomic(path, file.dump(1) + "\n");
  } catch (const Error& error) {
    warn(cat("the measured algorithm choices are not kept for other runs: ", error.what(),
             "; choose another file with --tuning-cache, or use --tuning-cache none"));
  }
}

}  // namespace mtl

#include "base/hub_cache.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "base/files.h"
#include "base/str.h"
#include "base/utf8.h"

namespace mtl {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Replaces a leading ~ and every $NAME and ${NAME} that is set, because no shell does so in a file of variables.
std::string expand(std::string path) {
  if (path == "~" || starts_with(path, "~/")) path.replace(0, 1, environment("HOME"));
  const auto is_part = [](char c) { return std::isalnum(byte_of(c)) != 0 || c == '_'; };
  for (std::size_t at = 0; (at = path.find('$', at)) != std::string::npos;) {
    const bool has_braces = path.compare(at + 1, 1, "{") == 0;
    const std::size_t begin = at + (has_braces ? 2 : 1);
    const std::size_t end =
        has_braces ? path.find('}', begin)
                   : std::find_if_not(path.begin() + std::ptrdiff_t(begin), path.end(), is_part) - path.begin();
    const char* value = end == std::string::npos ? nullptr : std::getenv(path.substr(begin, end - begin).c_str());
    if (value == nullptr) {
      ++at;
      continue;
    }
    path.replace(at, end + (has_braces ? 1 : 0) - at, value);
    at += std::string_view(value).size();
  }
  return path;
}

/// The same as in huggingface_hub, except that ~USER stays as it is and an empty variable counts as unset.
std::string cache_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string folder = environment(name); !folder.empty()) return expand(folder);
  }
  if (const std::string home = environment("HF_HOME"); !home.empty()) return expand(home) + "/hub";
  std::string caches = environment("XDG_CACHE_HOME");
  if (caches.empty()) caches = "~/.cache";
  return expand(caches) + "/huggingface/hub";
}

/// True for NAME and OWNER/NAME of letters, digits and "._-". The hub does not have other names, and none that start
/// with a dot.
bool is_hub_name(const std::string& name) {
  const auto is_part = [](char c) {
    return std::isalnum(byte_of(c)) != 0 || std::string_view("._-/").find(c) != std::string_view::npos;
  };
  const std::size_t slash = name.find('/');
  const bool has_parts = slash == std::string::npos || (slash > 0 && slash + 1 < name.size() && name[slash + 1] != '.');
  return !name.empty() && name.front() != '.' && has_parts && std::ranges::count(name, '/') <= 1 &&
         std::ranges::all_of(name, is_part);
}

/// Returns where the cache keeps the model.
std::string model_folder(std::string name) {
  if (const std::size_t slash = name.find('/'); slash != std::string::npos) name.replace(slash, 1, "--");
  return cat(cache_folder(), "/models--", name);
}

/// Returns the name of a model in an address, before a revision, or before a slash, or "".
std::string find_hub_name(std::string path) {
  for (std::string_view begin : {"https://", "http://", "hf://", "huggingface.co/", "hf.co/"}) {
    if (starts_with(path, begin)) path.erase(0, begin.size());
  }
  for (const char* end : {"@", "/tree/", "/blob/", "/resolve/", "?"}) path = path.substr(0, path.find(end));
  if (ends_with(path, "/")) path.pop_back();
  return is_hub_name(path) && path.find('/') != std::string::npos ? path : "";
}

}  // namespace

std::string resolve_hub_name(const std::string& path) {
  if (!is_hub_name(path) || file_exists(path)) return path;
  const std::string folder = model_folder(path);
  const std::string reference = folder + "/refs/main";
  if (!file_exists(reference)) return path;
  const std::string hash(trim(read_regular_file(reference)));
  const std::string snapshot = cat(folder, "/snapshots/", hash);
  return is_plain_name(hash) && is_directory(snapshot) ? snapshot : path;
}

std::string describe_missing_path(const std::string& path) {
  std::string missing = "no such file or folder";
  if (is_hub_name(path) && is_directory(model_folder(path) + "/snapshots")) {
    const std::string folder = model_folder(path);
    return cat(missing, ", and ", folder, "/refs/main ",
               file_exists(folder + "/refs/main") ? "names no folder in snapshots" : "is missing",
               "; run `hf download ", path, "`, or use the path of a folder in ", folder, "/snapshots");
  }
  const bool is_gpt2 = starts_with(path, "gpt2") || path == "distilgpt2";  // models without an owner
  const std::string name = is_hub_name(path) && is_gpt2 ? path : find_hub_name(path);
  if (name.empty()) return missing;
  if (name != path) return cat(missing, "; for a model in the Hugging Face hub's cache, write its name alone: ", name);
  return cat(missing, ", and ", cache_folder(), " has no model of this name; run `hf download ", path,
             "` first, because mtl does not download models, or use the path of a folder");
}

}  // namespace mtl

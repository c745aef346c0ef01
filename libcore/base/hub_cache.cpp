#include "base/hub_cache.h"

#include <algorithm>
#include <cstdlib>

#include "base/files.h"
#include "base/str.h"

namespace mtl {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string cache_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string folder = environment(name); !folder.empty()) return folder;
  }
  if (const std::string home = environment("HF_HOME"); !home.empty()) return home + "/hub";
  std::string caches = environment("XDG_CACHE_HOME");
  if (caches.empty()) caches = environment("HOME") + "/.cache";
  return caches + "/huggingface/hub";
}

/// True for NAME and OWNER/NAME of letters, digits and "._-". The hub does not have other names, and none that start
/// with a dot.
bool is_hub_name(const std::string& name) {
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-' || c == '/';
  };
  const std::size_t slash = name.find('/');
  const bool has_parts = slash == std::string::npos || (slash > 0 && slash + 1 < name.size() && name[slash + 1] != '.');
  return !name.empty() && name.front() != '.' && has_parts && std::count(name.begin(), name.end(), '/') <= 1 &&
         std::all_of(name.begin(), name.end(), is_part);
}

}  // namespace

std::string resolve_hub_name(const std::string& path) {
  if (!is_hub_name(path) || file_exists(path)) return path;
  std::string folder = "models--" + path;
  if (const std::size_t slash = folder.find('/'); slash != std::string::npos) folder.replace(slash, 1, "--");
  folder = cat(cache_folder(), "/", folder);
  const std::string reference = folder + "/refs/main";
  if (!file_exists(reference)) return path;
  const std::string hash(trim(read_regular_file(reference)));
  const std::string snapshot = cat(folder, "/snapshots/", hash);
  return hash.empty() || hash.find('/') != std::string::npos || !is_directory(snapshot) ? path : snapshot;
}

std::string describe_missing_path(const std::string& path) {
  const std::string missing = "no such file or folder";
  if (!is_hub_name(path) || path.find('/') == std::string::npos) return missing;
  return cat(missing, ", and ", cache_folder(),
             " has no model of this name; mtl does not download models: run `hf download ", path,
             "` first, or give the path of a folder");
}

}  // namespace mtl

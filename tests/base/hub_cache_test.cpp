#include "base/hub_cache.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "base/files.h"
#include "base/str.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr const char* kVariables[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"};

/// Unsets the variables that select the cache, and restores them at the end.
class Environment {
 public:
  Environment() {
    for (const char* name : kVariables) {
      const char* value = std::getenv(name);
      values_.emplace_back(value == nullptr ? "" : value);
      ::unsetenv(name);
    }
  }
  ~Environment() {
    for (std::size_t i = 0; i < values_.size(); ++i) ::setenv(kVariables[i], values_[i].c_str(), 1);
  }

 private:
  std::vector<std::string> values_;
};

void write(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  write_file_atomic(path, text);
}

/// Puts a model into a cache. Returns its folder.
std::string cache_model(const std::string& cache, const std::string& name, const std::string& hash) {
  write(cat(cache, "/", name, "/refs/main"), hash);
  write(cat(cache, "/", name, "/snapshots/", hash, "/config.json"), "{}");
  return cat(cache, "/", name, "/snapshots/", hash);
}

}  // namespace

TEST_CASE("hub cache: a name is the folder of its main revision, wherever the cache is") {
  const Environment environment;
  ScratchFolder scratch;
  const auto expect_found = [](const char* variable, const std::string& value, const std::string& cache) {
    CAPTURE(variable);
    const std::string folder = cache_model(cache, "models--Org--Name-0.5B", "abc123");
    ::setenv(variable, value.c_str(), 1);
    CHECK(resolve_hub_name("Org/Name-0.5B") == folder);
    CHECK(resolve_hub_name("Org/Other") == "Org/Other");
  };
  // Each variable precedes those that were set before.
  expect_found("HOME", scratch / "h", scratch / "h/.cache/huggingface/hub");
  expect_found("XDG_CACHE_HOME", scratch / "x", scratch / "x/huggingface/hub");
  expect_found("HF_HOME", scratch / "home", scratch / "home/hub");
  expect_found("HF_HUB_CACHE", scratch / "hub", scratch / "hub");
  // As in a file of variables, which no shell expands.
  expect_found("HF_HUB_CACHE", "~/tilde", scratch / "h/tilde");
  expect_found("HF_HUB_CACHE", "$HF_HOME/plain", scratch / "home/plain");
  expect_found("HF_HUB_CACHE", "${HOME}/${XDG_NOTHING}braces", scratch / "h/${XDG_NOTHING}braces");
  expect_found("HF_HUB_CACHE", scratch / "a$", scratch / "a$");
  expect_found("HF_HUB_CACHE", scratch / "b${HOME", scratch / "b${HOME");
  ::unsetenv("HF_HUB_CACHE");
  expect_found("HF_HOME", "~/hf", scratch / "h/hf/hub");
  ::unsetenv("HF_HOME");
  expect_found("XDG_CACHE_HOME", "~/caches", scratch / "h/caches/huggingface/hub");
  ::setenv("HF_HUB_CACHE", (scratch / "hub").c_str(), 1);
  CHECK(resolve_hub_name("gpt2") == "gpt2");
  const std::string gpt2 = cache_model(scratch / "hub", "models--gpt2", "0001");
  write(scratch / "hub/models--gpt2/refs/main", "0001\n");
  CHECK(resolve_hub_name("gpt2") == gpt2);
}

TEST_CASE("hub cache: paths stay, and so do names whose snapshot is incomplete") {
  const Environment environment;
  ScratchFolder scratch;
  ::setenv("HF_HUB_CACHE", (scratch / "hub").c_str(), 1);
  cache_model(scratch / "hub", "models--a--b", "abc");
  for (std::string path : {"./a/b", "a/b/", "/a/b", "a/b/c", "", ".", "..", "a//b", "../a/b"})
    CHECK(resolve_hub_name(path) == path);
  CHECK(resolve_hub_name(scratch / "hub") == scratch / "hub");
  for (const std::string& hash :
       {std::string("def"), std::string(), std::string("../snapshots/abc"), "abc" + std::string(3, '\0')}) {
    write(scratch / "hub/models--a--b/refs/main", hash);
    CHECK(resolve_hub_name("a/b") == "a/b");
  }
}

TEST_CASE("hub cache: a missing OWNER/NAME is reported with the cache and with how to get the model") {
  const Environment environment;
  ::setenv("HF_HUB_CACHE", "/somewhere/hub", 1);
  const std::string text = describe_missing_path("Org/Name");
  CAPTURE(text);
  for (const char* part : {"no such file or folder", "/somewhere/hub", "hf download Org/Name"})
    CHECK(text.find(part) != std::string::npos);
  for (const char* path : {"model", "/Org/Name", "./Org/Name", "https://huggingface.co/", "runs/a/b/", "@main"})
    CHECK(describe_missing_path(path) == "no such file or folder");
  CHECK(contains(describe_missing_path("gpt2"), "hf download gpt2`"));
  for (const char* path : {"Org/Name/", "Org/Name@main", "hf://Org/Name", "https://huggingface.co/Org/Name",
                           "https://huggingface.co/Org/Name/tree/main", "huggingface.co/Org/Name/"}) {
    CAPTURE(path);
    CHECK(ends_with(describe_missing_path(path), "write its name alone: Org/Name"));
  }
}

TEST_CASE("hub cache: a model in the cache without its main revision is not said to be absent") {
  const Environment environment;
  ScratchFolder scratch;
  ::setenv("HF_HUB_CACHE", (scratch / "hub").c_str(), 1);
  for (const std::string name : {"Org/Name", "gpt2", "bare"}) {
    const std::string folder = name == "Org/Name" ? "models--Org--Name" : "models--" + name;
    cache_model(scratch / "hub", folder, "abc");
    write(scratch / cat("hub/", folder, "/refs/main"), "other");
    CHECK(contains(describe_missing_path(name), cat(folder, "/refs/main names no folder")));
    fs::remove(scratch / cat("hub/", folder, "/refs/main"));
    const std::string text = describe_missing_path(name);
    CAPTURE(text);
    for (const std::string& part : {folder + "/refs/main is missing", "hf download " + name, folder + "/snapshots"})
      CHECK(contains(text, part));
  }
}

// Output folders: which targets are refused, what is replaced, and what stays after an abandoned run.
#include "ckpt/output_folder.h"

#include <doctest/doctest.h>

#include "ckpt_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Makes an output folder with a file and commits it. Returns what it replaced, or the error.
std::string replace_folder(const std::string& path, bool force, const std::string& source = "/nowhere/model") {
  Console console("test");
  console.quiet = true;
  InterruptGuard guard("test");
  std::string replaced;
  const std::string error = error_of([&] {
    OutputFolder output({.path = path, .replace = force, .source = source}, guard, console);
    write_text(output.staged() + "/new", "");
    replaced = output.replaced();
    output.commit();
    CHECK(file_exists(output.path() + "/new"));
    CHECK_FALSE(file_exists(output.staged()));
  });
  return error.empty() ? replaced : error;
}

void put(const std::string& path) {
  make_directories(parent_folder(path));
  write_text(path, "");
}

}  // namespace

TEST_CASE("output folder: targets that cannot be replaced are refused, and keep what is in them") {
  const ScratchFolder scratch;
  const auto refuses = [&](const std::string& path, bool force, std::string_view why,
                           const std::string& source = "/x") {
    CAPTURE(path);
    const std::string error = replace_folder(path, force, source);
    CHECK_MESSAGE(contains(error, why), error);
  };
  refuses(std::string("a\0b", 3), false, "contains a NUL byte");
  fs::create_symlink("nowhere", scratch / "link");
  refuses(scratch / "link", false, "is a symbolic link to nowhere, which does not exist");
  refuses(".", true, "is the current folder, or contains it");
  refuses("/", true, "is the current folder, or contains it");
  put(scratch / "m/x");
  refuses(scratch / "m", true, "is or contains the model to read", scratch / "m");
  refuses(scratch / "m//", true, "is or contains the model to read", scratch / "m/inner");
  refuses(scratch / "m", true, "does not contain a model; --force", scratch / "m2");
  refuses(scratch / "iter_0000001", false, "is the name of a checkpoint inside a save folder");
  refuses(scratch / "m/x", true, "is a file; choose another folder for --save");
  refuses(scratch / "m/x/y", true, "cannot be created, because ");
  refuses(scratch / "m", false, "is not empty; choose another folder for --save, or add --force");
  refuses("/proc", true, "is a mount point");
  CHECK(file_exists(scratch / "m/x"));
  put(scratch / "o.tmp.78/model/x");
  refuses(scratch / "o", false, "which contains the model to read", scratch / "o.tmp.78/model");
}

TEST_CASE("output folder: new, empty and replaced folders") {
  const ScratchFolder scratch;
  CHECK(replace_folder(scratch / "a/b//", false).empty());
  make_directories(scratch / "empty");
  CHECK(replace_folder(scratch / "empty", false).empty());
  put(scratch / "hf/config.json");
  write_text(scratch / "hf/config.json", R"({"model_type": "gpt2"})");
  fs::create_directory_symlink(scratch / "hf", scratch / "link");
  CHECK(replace_folder(scratch / "link/", true) == "a Hugging Face model");
  CHECK(fs::is_symlink(scratch / "link"));
  CHECK_FALSE(file_exists(scratch / "hf/config.json"));

  put(scratch / "s/iter_0000001/manifest.json");
  put(scratch / "s/lock");
  {
    const SaveDirectory held(scratch / "s");
    CHECK(contains(replace_folder(scratch / "s", true), "another job saves here"));
  }
  CHECK(replace_folder(scratch / "s", true) == "the checkpoint iter_0000001");

  Console console = quiet_console();
  InterruptGuard guard("test");
  std::string staged;
  put(scratch / "r/config.json");
  write_text(scratch / "r/config.json", R"({"model_type": "gpt2"})");
  {
    OutputFolder output({.path = scratch / "r", .replace = true, .source = "/x"}, guard, console);
    staged = output.staged();
    CHECK(is_directory(staged));
    put(scratch / "r/notes");
    CHECK(contains(error_of([&] { output.commit(); }, Exit::failure), "was changed during the conversion and now con"));
  }
  CHECK_FALSE(file_exists(staged));
  CHECK(file_exists(scratch / "r/notes"));
  make_directories(scratch / cat("t.tmp.", ::getpid()));
  put(scratch / cat("t.tmp.", ::getpid(), "/mine"));
  CHECK(contains(error_of([&] { OutputFolder({.path = scratch / "t", .source = "/x"}, guard, console); }),
                 "temporary folder"));
}

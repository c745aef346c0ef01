// Power failures during preprocessing and conversions.
#include <doctest/doctest.h>

#include <map>
#include "ckpt/convert_model.h"
#include "data/verify.h"
#include "prep/preprocess.h"

#include "tests/ckpt/ckpt_fixtures.h"
#include "tests/crash/operation.h"

using namespace mtl;
using namespace mtl::test;

namespace {

Console silent_console() {
  Console console = quiet_console();
  console.silent = true;
  return console;
}

const ScratchFolder& inputs() {
  static const ScratchFolder folder;
  return folder;
}

/// Preprocesses text number `version` to FOLDER/new/p_text_document.
void preprocess_text(const std::string& folder, int version) {
  const std::string input = cat(inputs() / "text", version, ".jsonl");
  std::string numbers;
  for (int i = 0; i < 700; ++i) numbers += cat(i > 0 ? " " : "", (i * version) % 90);
  write_text(input, cat("{\"text\": \"", numbers, "\"}\n{\"text\": \"1 2\"}\n"));
  PreprocessOptions options;
  options.inputs = {input};
  options.output_prefix = folder + "/new/p";
  options.workers = 1;
  options.log_interval = 0;
  options.tokenizer.type = "NullTokenizer";
  options.tokenizer.vocab_size = 100;
  Console console = silent_console();
  preprocess(options, console);
}

/// The hashes of the token files of a version.
std::string token_hashes(const std::string& prefix) {
  return cat(hash_text(hash_file(prefix + ".bin")), " ", hash_text(hash_file(prefix + ".idx")));
}

const std::string& expected_tokens(int version) {
  static std::map<int, std::string> hashes;
  std::string& found = hashes[version];
  if (!found.empty()) return found;
  const ScratchFolder scratch;
  preprocess_text(scratch.path(), version);
  return found = token_hashes(scratch / "new/p_text_document");
}

/// `version` was written when the operation has returned; before, the one before it may be there, or no .idx.
std::string check_tokens(const std::string& folder, std::int64_t progress, int version) {
  const std::string prefix = folder + "/new/p_text_document";
  if (!file_exists(prefix + ".idx")) {
    if (progress > 0) return "the .idx is lost";
  } else {
    const Verdict verdict = verify_token_files(prefix, std::nullopt, 1);
    if (verdict.code != Exit::ok) return verdict.message;
    if (verdict.provenance != ProvenanceCheck::content) return "PREFIX.json is lost";
    const std::string found = token_hashes(prefix);
    if (found != expected_tokens(version) && (progress > 0 || found != expected_tokens(version - 1)))
      return "the token files are damaged";
  }
  return "";
}

std::string preprocess_again(const std::string& folder, int version) {
  const std::string prefix = folder + "/new/p_text_document";
  preprocess_text(folder, version);
  if (token_hashes(prefix) != expected_tokens(version)) return "the next run writes other files";
  for (const auto& [path, data] : read_tree(folder)) {
    if (path.find(".tmp") != std::string::npos || path.find(".lock") != std::string::npos)
      return cat(path, " is left after the next run");
  }
  return "";
}

Operation preprocessing(int version) {
  return {
      .name = version == 1 ? "mtl-preprocess into a new folder" : "mtl-preprocess in place of other token files",
      .prepare =
          [version](const std::string& folder) {
            if (version > 1) preprocess_text(folder, version - 1);
          },
      .run =
          [version](const std::string& folder, Recorder& recorder) {
            preprocess_text(folder, version);
            recorder.mark(1);
          },
      .check = [version](const std::string& folder,
                         std::int64_t progress) { return check_tokens(folder, progress, version); },
      .go_on = [version](const std::string& folder) { return preprocess_again(folder, version); },
      .command = "mtl-data verify new/p_text_document",
      .progress_of_command = 1,
      .redundant = {{"new after rename p_text_document.json",
                     "AtomicFile::commit() always syncs the folder; the .bin's does so too, before the .idx appears"}}};
}

/// Converts model number `version` to FOLDER/new/m.
void convert(const std::string& folder, int version, const std::string& to) {
  const std::string from = cat(inputs() / "model", version);
  if (!file_exists(from)) {
    TestParams model(tiny_config(), false);
    fill(model.params, static_cast<float>(version));
    SaveOptions options;
    options.add_files = [](const std::string& into) { write_file_atomic(into + "/tokenizer.json", "{\"a\": 1}\n"); };
    save_alone(SaveDirectory(from), tiny_config(), model.params, state_at(version), options);
  }
  ConvertOptions options;
  options.load = from;
  options.save = folder + "/new/m";
  options.to = to;
  options.force = true;
  options.max_shard_size = "2KB";
  Console console = silent_console();
  convert_model(options, console);
}

std::string expected_model(int version, const std::string& to) {
  const ScratchFolder scratch;
  convert(scratch.path(), version, to);
  return digest_of(scratch / "new/m");
}

Operation conversion(int version, const std::string& to) {
  const std::string expected = expected_model(version, to), before = version > 1 ? expected_model(version - 1, to) : "";
  return {
      .name = cat("mtl-convert --to ", to, version == 1 ? " into a new folder" : " --force"),
      .prepare =
          [=](const std::string& folder) {
            if (version > 1) convert(folder, version - 1, to);
          },
      .run =
          [=](const std::string& folder, Recorder& recorder) {
            convert(folder, version, to);
            recorder.mark(1);
          },
      .check = [=](const std::string& folder, std::int64_t progress) -> std::string {
        const std::string path = folder + "/new/m";
        if (file_exists(path)) {
          Console console = silent_console();
          open_model(path, console).verify();
          const std::string found = digest_of(path);
          if (found != expected && (progress > 0 || found != before)) return "the model is damaged";
        } else if (progress > 0 || version > 1) {
          return "the model is lost";
        }
        return "";
      },
      .go_on = [=](const std::string& folder) -> std::string {
        convert(folder, version, to);
        for (const auto& [name, data] : read_tree(folder + "/new")) {
          if (!starts_with(name, "m/")) return cat(name, " is left after the next run");
        }
        return digest_of(folder + "/new/m") == expected ? "" : "the next run writes another model";
      },
      .command = "mtl-convert --load new/m --save again --to hf",
      .progress_of_command = version > 1 ? 0 : 1,
      .redundant = {{".tmp after rename", "AtomicFile and publish() always sync; OutputFolder::commit() does so again"},
                    {"m.tmp after sync new/m.tmp", "the last file's sync has done it; not all formats end with one"}}};
}

void test_outputs(bool is_long) {
  for (const int version : {1, 2}) {
    test_operation(preprocessing(version), is_long);
    for (const char* to : {"mtl", "hf"}) test_operation(conversion(version, to), is_long);
  }
}

}  // namespace

TEST_CASE("power failure: token files and converted models are complete or absent") { test_outputs(false); }

TEST_CASE("power failure: every fsync of an output is needed" * doctest::skip()) { test_outputs(true); }

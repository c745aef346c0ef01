// The table of model formats: what it says is what the documentation says, and its tests exist.
#include <doctest/doctest.h>

#include "ckpt/model_folder.h"
#include "ckpt/model_formats.h"
#include "models/foreign_formats.h"
#include "models/hf_folder.h"
#include "tests/ckpt/ckpt_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

std::string as_code(std::string_view text) { return text.empty() ? "" : cat("`", text, "`"); }

constexpr FormatMark kToyMarks[] = {{"toy.json", "is a toy checkpoint", kReadRemedy}};
constexpr std::string_view kToyParts[] = {"toy.json", "weights/#.bin"}, kToyIterations[] = {"toy_*"};
constexpr ModelFormat kToyFormat = {
    .name = "toy",
    .kind = "toy checkpoint",
    .content = "a toy checkpoint",
    .program = "Toys",
    .recognized = "toy.json",
    .versions = "",
    .reads = "weights",
    .proof = "",
    .marks = kToyMarks,
    .parts = kToyParts,
    .iterations = kToyIterations,
    .current =
        [](const std::string& path, Console&) {
          return newest_numbered(path, "toy_", [](const std::string& folder) { return has_mark(kToyMarks, folder); });
        },
    .open = [](const std::string&, const ModelSupplement&, Console&) { return open_hf_folder("golden/gpt2_model/a"); }};

}  // namespace

TEST_CASE("model formats: docs/models.md has exactly the rows of the table") {
  std::vector<std::string> expected;
  for (const ModelFormat& row : model_formats())
    expected.push_back(cat("| ", row.name, " | ", as_code(row.recognized), " | ", row.versions, " | ", row.reads, " | ",
                           as_code(row.writes), " | ", as_code(row.proof), " |"));
  std::vector<std::string> documented;
  bool is_inside = false;
  for (const std::string& line : split(read_file("../docs/models.md"), '\n')) {
    if (is_inside && starts_with(line, "| ")) documented.push_back(line);
    is_inside = starts_with(line, "| format | a folder contains |") || (is_inside && starts_with(line, "|"));
  }
  CHECK(documented == expected);
}

TEST_CASE("model formats: every row names a test that exists") {
  for (const ModelFormat& row : model_formats()) {
    CAPTURE(row.name);
    CHECK(file_exists(std::string(row.proof)));
  }
}

TEST_CASE("model formats: --to and --ckpt-format choose what is written") {
  CHECK(written_format("megatron", "torch").name == "megatron");
  CHECK(written_format("megatron", "torch_dist").name == "torch_dist");
  for (const std::string& to : written_formats()) CHECK(bool(written_format(to, "torch").write));
  CHECK(written_format("hf", "torch_dist").name == "hf");
}

TEST_CASE("model formats: the manual pages of the programs with --load name every format's program") {
  for (const char* page : {"train", "eval", "generate", "convert"}) {
    const std::string text = read_file(cat("../man/mtl-", page, ".1.scd"));
    for (const ModelFormat& row : model_formats()) {
      CAPTURE(cat(page, ": ", row.name));
      CHECK(contains(text, row.program.empty() ? row.kind.substr(0, row.kind.rfind(' ')) : row.program));
    }
  }
}

TEST_CASE("model formats: one row more is recognized, described, cleaned up and offered everywhere") {
  std::vector<ModelFormat> formats(model_formats().begin(), model_formats().end());
  const ScratchFolder scratch;
  const std::string folder = scratch / "toy_3";
  make_directories(scratch / "toy_2");
  make_directories(folder + "/weights");
  for (const std::string& path : {scratch / "toy_2/toy.json", folder + "/toy.json", folder + "/weights/0.bin"})
    write_text(path, "");
  Console console = quiet_console();

  CHECK(find_model_format(folder) == nullptr);
  CHECK(describe_foreign_model(scratch.path()).empty());
  CHECK(!find_foreign_entry(folder).empty());
  CHECK(examine_model_folder(folder).kind.empty());

  formats.push_back(kToyFormat);
  CHECK(find_model(scratch.path(), console, formats) == folder);
  CHECK(open_model(folder, console, {}, formats).kind() == "toy checkpoint");
  CHECK(describe_foreign_model(folder, false, formats) == "is a toy checkpoint (toy.json); use it only with --load");
  CHECK(
      describe_foreign_model(scratch.path(), false, formats) ==
      cat("contains checkpoints from another program: toy_2 is a toy checkpoint (toy.json); use ", scratch / "toy_2"));
  CHECK(find_foreign_entry(folder, formats).empty());
  CHECK(examine_model_folder(folder, formats).kind == "a toy checkpoint");
  CHECK(examine_model_folder(folder, formats).problem.empty());
  write_text(folder + "/weights/notes.txt", "");
  const char* problem = "contains 'notes.txt', which is not part of a model (in weights)";
  CHECK(find_foreign_entry(folder, formats) == problem);
  CHECK(examine_model_folder(folder, formats).problem == problem);
  CHECK(contains(loadable_models(formats), "Megatron-DeepSpeed or Toys, or a Hugging Face folder"));
  CHECK(contains(recognized_entries(formats), "or toy.json (toy checkpoint)"));
  write_text(folder + "/config.json", "{}");
  CHECK(contains(error_of([&] { find_model(scratch / "none", console, formats); }, Exit::io), "none"));
}

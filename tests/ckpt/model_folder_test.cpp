// What a folder contains, why it must not be replaced, and which leftovers of a conversion may be removed.
#include "ckpt/model_folder.h"
#include "formats/folder_entries.h"

#include <doctest/doctest.h>

#include "base/files.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

using namespace mtl;
using namespace mtl::test;

namespace {

using FileNames = std::vector<std::string>;

/// Makes a folder with these files; a name that ends with '/' is a folder, and one that ends with '@' a link.
void fill_folder(const std::string& folder, const FileNames& names) {
  fs::remove_all(folder);
  make_directories(folder);
  for (std::string name : names) {
    const char last = name.back();
    const bool is_config = ends_with(name, "config.json"), is_other = ends_with(name, "other/config.json");
    if (last == '@') name.pop_back();
    const std::string path = cat(folder, "/", name);
    if (last == '/') {
      make_directories(path);
      continue;
    }
    make_directories(parent_folder(path));
    if (last == '@')
      fs::create_symlink("nowhere", path);
    else
      write_file_atomic(path, is_other ? "{}" : is_config ? R"({"model_type": "gpt2"})" : "");
  }
}

struct FolderCase {
  FileNames names;
  const char* kind;
  const char* problem;
};

}  // namespace

TEST_CASE("model folder: the kind of each folder, and the first entry that is not part of it") {
  const ScratchFolder scratch;
  const std::string folder = scratch / "m";
  const std::string foreign = "', which is not part of a model";
  const std::string rank = "iter_0000001/mp_rank_00/model_optim_rng.pt";
  const FolderCase cases[] = {
      {{}, "", ""},
      {{"notes"}, "", "does not contain a model"},
      // one checkpoint
      {{"manifest.json", "shard_00000.safetensors", "vocab.json"}, "a checkpoint", ""},
      {{"manifest.json", "shard_.safetensors"}, "a checkpoint", "shard_.safetensors"},
      {{"manifest.json", "shard_00000.safetensors.bak"}, "a checkpoint", "shard_00000.safetensors.bak"},
      {{"manifest.json", "shard_00000.safetensors/"}, "a checkpoint", "shard_00000.safetensors"},
      {{"manifest.json", "shard_00000.safetensors@"}, "a checkpoint", "shard_00000.safetensors"},
      {{"manifest.json/"}, "a checkpoint", "manifest.json"},
      // a Hugging Face model
      {{"config.json", "model.safetensors", "model.safetensors.index.json", "model-00001-of-00002.safetensors",
        "merges.txt"},
       "a Hugging Face model",
       ""},
      {{"config.json", "model-00001.safetensors"}, "a Hugging Face model", "model-00001.safetensors"},
      {{"config.json", "a", "b"}, "a Hugging Face model", "a"},
      {{"config.json", "model.safetensors@"}, "a Hugging Face model", "model.safetensors"},
      {{"config.json", "shard_00000.safetensors"}, "a Hugging Face model", "shard_00000.safetensors"},
      // ranks of Megatron-LM
      {{"mp_rank_00/model_optim_rng.pt", "mp_rank_01/model_optim_rng.pt", "vocab.json"},
       "a Megatron-LM checkpoint",
       ""},
      {{"mp_rank_00/model_optim_rng.pt", "mp_rank_00/x"}, "a Megatron-LM checkpoint", "x' (in mp_rank_00)"},
      {{"mp_rank_00/model_optim_rng.pt", "mp_rank_01/model_optim_rng.pt/"},
       "a Megatron-LM checkpoint",
       "model_optim_rng.pt' (in mp_rank_01)"},
      {{"mp_rank_00/model_optim_rng.pt", "mp_rank_01"}, "a Megatron-LM checkpoint", "mp_rank_01"},
      {{"mp_rank_00/model_optim_rng.pt", "other/"}, "a Megatron-LM checkpoint", "other"},
      {{"mp_rank_00/model_optim_rng.pt", "vocab.json/"}, "a Megatron-LM checkpoint", "vocab.json"},
      // a distributed checkpoint
      {{".metadata", "__0_0.distcp", "metadata.json", "common.pt", "vocab.json"}, "a distributed checkpoint", ""},
      {{".metadata", "__0_.distcp"}, "a distributed checkpoint", "__0_.distcp"},
      {{".metadata", "common.pt/"}, "a distributed checkpoint", "common.pt"},
      // a folder of Megatron-LM's --save
      {{rank, "latest_checkpointed_iteration.txt", "vocab.json"}, "a Megatron-LM checkpoint", ""},
      {{"release/mp_rank_00/model_optim_rng.pt"}, "a Megatron-LM checkpoint", ""},
      {{"release/.metadata", "release/metadata.json", "release/common.pt"}, "a Megatron-LM checkpoint", ""},
      {{"release/.metadata", "release/metadata.json", "release/x"}, "a Megatron-LM checkpoint", "x' (in release)"},
      {{rank, "iter_0000001/mp_rank_00/x"}, "a Megatron-LM checkpoint", "x' (in mp_rank_00) (in iter_0000001)"},
      {{rank, "release/"}, "a Megatron-LM checkpoint", "release"},
      {{rank, "other/mp_rank_00/model_optim_rng.pt"}, "a Megatron-LM checkpoint", "other"},
      {{rank, "lock"}, "a Megatron-LM checkpoint", "lock"},
      {{rank, "vocab.json/"}, "a Megatron-LM checkpoint", "vocab.json"},
      {{rank, "iter_0000002"}, "a Megatron-LM checkpoint", "iter_0000002"},
      {{rank, "iter_0000002/"}, "a Megatron-LM checkpoint", "contains 2 checkpoints of a training run"},
      // a save folder
      {{"lock"}, "a save folder without checkpoints", ""},
      {{"latest_checkpointed_iteration.txt", "run_id"}, "a save folder without checkpoints", ""},
      {{"iter_0000001/manifest.json", "lock", "run_id", "iter_0000002.tmp.7/"}, "the checkpoint iter_0000001", ""},
      {{"iter_0000001/", "lock/"}, "the checkpoint iter_0000001", "lock"},
      {{"iter_0000001/x", "lock"}, "the checkpoint iter_0000001", "x' (in iter_0000001)"},
      {{"iter_0000001/", "vocab.json"}, "the checkpoint iter_0000001", "vocab.json"},
      {{"iter_0000001/", "iter_0000002/x"}, "the checkpoint iter_0000001", "x' (in iter_0000002)"},
      {{"iter_0000001/", "iter_0000003/"}, "the checkpoint iter_0000001", "contains 2 checkpoints of a training run"}};
  for (const auto& [names, kind, problem] : cases) {
    CAPTURE(join(names, " "));
    fill_folder(folder, names);
    const FolderContents contents = examine_model_folder(folder);
    CHECK(contents.kind == kind);
    const std::string_view text = problem;
    const std::size_t quote = text.find('\'');
    CHECK(contents.problem == (text.empty() || starts_with(text, "contains ") || starts_with(text, "does ")
                                   ? std::string(text)
                                   : cat("contains '", text.substr(0, quote), foreign,
                                         quote == std::string_view::npos ? "" : text.substr(quote + 1))));
    CHECK(contents.is_save_folder == (starts_with(kind, "a save") || starts_with(kind, "the checkpoint")));
  }
  fill_folder(folder, {"other/config.json"});
  const FolderContents other = examine_model_folder(folder + "/other");
  CHECK(other.kind == "a config.json, by which programs recognize a Hugging Face model");
  CHECK(other.problem == "contains a config.json for a different kind of model");
  fill_folder(folder, {"other/config.json", "other/x"});
  CHECK(contains(examine_model_folder(folder + "/other").problem, "contains 'x', which"));
  CHECK(contains(error_of([&] { examine_model_folder(scratch / "absent"); }, Exit::io), "absent: cannot list: "));
}

TEST_CASE("model folder: a leftover holds only what conversions write, complete or not") {
  const ScratchFolder scratch;
  const std::string folder = scratch / "m";
  const std::pair<FileNames, const char*> cases[] = {
      {{"config.json", "model.safetensors.tmp.7", "vocab.json", "run_id", "lock"}, ""},
      {{"iter_0000001/manifest.json.tmp.7", "iter_0000001/shard_00000.safetensors", "iter_0000002.tmp.old.7/"}, ""},
      {{"release/mp_rank_00/model_optim_rng.pt", ".metadata", "__0_0.distcp"}, ""},
      {{"model.safetensors.tmp.x"}, "model.safetensors.tmp.x"},
      {{"model.safetensors/"}, "model.safetensors"},
      {{"model.safetensors@"}, "model.safetensors"},
      {{"logs/"}, "logs"},
      {{"release"}, "release"},
      {{"iter_0000001"}, "iter_0000001"},
      {{"mp_rank_00/model_optim_rng.pt", "mp_rank_00/notes"}, "notes' (in mp_rank_00)"}};
  for (const auto& [names, problem] : cases) {
    CAPTURE(join(names, " "));
    fill_folder(folder, names);
    const std::string text = problem, found = find_foreign_entry(folder);
    CHECK(found.empty() == text.empty());
    CHECK(contains(found, cat("'", text.substr(0, text.find('\'')))) != text.empty());
    CHECK(ends_with(found, ")") == contains(text, "("));
  }
  CHECK(find_foreign_entry(folder + "/mp_rank_00/notes") == "is a file");
  fill_folder(folder, {"link@"});
  CHECK(find_foreign_entry(folder + "/link").empty());
}

TEST_CASE("model folder: numbers in names") {
  const ScratchFolder scratch;
  using Iteration = std::optional<std::int64_t>;
  CHECK(iteration_in_name("iter_0000012") == Iteration(12));
  CHECK(iteration_in_name("iter_12345678") == Iteration(12345678));
  for (const char* name : {"iter_000012", "iter_00000x2", "jter_0000012", "iter_0000012.", "iter_99999999999999999999"})
    CHECK_FALSE(iteration_in_name(name));
  fill_folder(scratch / "m",
              {"step-9/", "step-10/", "step-11", "step-x/", "step-/", "other-12/", "step-99999999999999999999/"});
  CHECK(newest_numbered(scratch / "m", "step-", is_directory) == scratch / "m/step-10");
  CHECK_FALSE(newest_numbered(scratch / "m", "iter-", is_directory));
  CHECK_FALSE(newest_numbered(scratch / "absent", "step-", is_directory));
  CHECK(names_in_folder(scratch / "absent").empty());
  CHECK(names_in_folder(scratch / "m").at(1) == "step-");
}

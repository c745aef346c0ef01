// Reading a checkpoint: what is recorded beside the tensors, and files that the manifest does not describe.
#include <doctest/doctest.h>

#include "ckpt/manifest.h"
#include "ckpt_fixtures.h"
#include "formats/safetensors.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Saves iteration 1 of the tiny model, with a file merges.txt, and returns the checkpoint's folder.
std::string save_tiny(const ScratchFolder& scratch, const TrainState& state = state_at(1)) {
  TestParams model(tiny_config(), false);
  fill(model.params, 1);
  fs::remove_all(scratch / "s");
  return save_alone(SaveDirectory(scratch / "s"), tiny_config(), model.params, state,
                    {.add_files = [](const std::string& folder) { write_text(folder + "/merges.txt", "a b"); }});
}

/// Writes a checkpoint's only shard again with a changed plan, and lists its new size and hash in the manifest.
void rewrite_shard(const std::string& folder, const std::function<void(std::vector<StoredTensor>&)>& change) {
  Manifest manifest = read_sound_manifest(folder);
  const std::string path = folder + "/shard_00000.safetensors";
  std::vector<StoredTensor> plan = SafetensorsFile(path).tensors();
  change(plan);
  OutputFile out(path + ".new");
  {
    const SafetensorsFile from(path);
    SafetensorsWriter writer(out, plan);
    for (const StoredTensor& tensor : from.tensors()) writer.write(from.data(tensor));
    for (std::size_t i = from.tensors().size(); i < plan.size(); ++i)
      writer.write(std::vector<std::byte>(plan[i].shape[0] * 4));
    writer.finish();
    out.close();
  }
  fs::rename(path + ".new", path);
  for (ManifestFile& file : manifest.files) {
    if (ends_with(path, file.name)) file.bytes = out.bytes(), file.hash = hash_text(out.hash());
  }
  write_text(folder + "/manifest.json", manifest_text(manifest));
}

}  // namespace

TEST_CASE("checkpoint reader: a shard must contain exactly the tensors that the manifest lists in it") {
  const ScratchFolder scratch;
  const auto error_after = [&](const auto& change) {
    const std::string folder = save_tiny(scratch);
    rewrite_shard(folder, change);
    return error_of([&] { elements_of(open_quietly(folder), "param.final_norm.weight", whole_slice({8})); },
                    Exit::bad_data);
  };
  CHECK(error_after([](std::vector<StoredTensor>&) {}).empty());
  CHECK(contains(error_after([](std::vector<StoredTensor>& plan) {
                   plan.push_back({.name = "more", .dtype = StoredDType::f32, .shape = {2}});
                 }),
                 "contains tensors that the manifest does not list in this file"));
  CHECK(contains(error_after([](std::vector<StoredTensor>& plan) { plan[1].name = "other"; }),
                 "is missing, but the manifest lists it in this file"));
  CHECK(contains(error_after([](std::vector<StoredTensor>& plan) {
                   plan[0].shape = {8, 11};
                 }),
                 "'param.embedding.tokens.weight' differs from the manifest in shape or dtype"));
}

TEST_CASE("checkpoint reader: dropout is the run's own, or that of the config.json it started from") {
  const ScratchFolder scratch;
  const Json gpt2 = Json::object({{"model_type", "gpt2"}, {"resid_pdrop", 0.25}});
  TrainState state = state_at(1);
  CHECK_FALSE(open_quietly(save_tiny(scratch, state)).dropout());
  state.extra.set("hf_config", gpt2);
  CHECK(open_quietly(save_tiny(scratch, state)).dropout() == ModelDropout{0.25, 0.1, 0.1});
  CHECK(open_quietly(save_tiny(scratch, state)).hf_config() == gpt2);
  state.extra.set("dropout", dropout_to_json({0.5, 0.4, 0.3}));
  CHECK(open_quietly(save_tiny(scratch, state)).dropout() == ModelDropout{0.5, 0.4, 0.3});
  state.extra = Json::object({{"dropout", dropout_to_json({0.5, 0.4, 0.3})}});
  CHECK(open_quietly(save_tiny(scratch, state)).dropout() == ModelDropout{0.5, 0.4, 0.3});
}

TEST_CASE("checkpoint reader: damage is named, by tensor, as the header's, or by file") {
  const ScratchFolder scratch;
  const std::string folder = save_tiny(scratch), shard = folder + "/shard_00000.safetensors";
  const std::string content = read_file(shard);
  const std::vector<StoredTensor> tensors = SafetensorsFile(shard).tensors();
  const std::size_t data = content.size() - tensors.back().end;
  const auto name = [&](std::size_t i) { return cat("'", tensors[i].name, "'"); };
  const std::string expected[] = {"", cat(" (tensor ", name(0), ")"), cat(" (tensors ", name(0), ", ", name(1), ")"),
                                  cat(" (tensors ", name(0), ", ", name(1), ", ", name(2), ")"),
                                  cat(" (tensors ", name(0), ", ", name(1), " and 2 more)")};
  for (std::size_t damaged = 0; damaged < std::size(expected); ++damaged) {
    std::string text = content;
    for (std::size_t i = 0; i < damaged; ++i) text[data + tensors[i].begin] ^= 1;
    write_text(shard, text);
    const std::string error = error_of([&] { open_quietly(folder).verify(); }, Exit::bad_data);
    CHECK(contains(error,
                   damaged == 0 ? "" : cat(shard, " does not match its hash in the manifest", expected[damaged], ";")));
    CHECK(error.empty() == (damaged == 0));
  }
  std::string header = content;
  const std::size_t space = header.rfind(' ', data);
  REQUIRE(space != std::string::npos);
  header[space] = '\t';
  write_text(shard, header);
  CHECK(contains(error_of([&] { open_quietly(folder).verify(); }, Exit::bad_data), "manifest (in the header);"));
  write_text(shard, content);
  write_text(folder + "/merges.txt", "a c");
  const ModelSource source = open_quietly(folder);
  CHECK(contains(error_of([&] { source.verify(); }, Exit::bad_data),
                 "/merges.txt does not match its hash in the manifest;"));
}

TEST_CASE("checkpoint reader: a shard that shrinks within its last page is not read as zeros") {
  const ScratchFolder scratch;
  const std::string folder = save_tiny(scratch), shard = folder + "/shard_00000.safetensors";
  const ModelSource source = open_quietly(folder);
  const auto read_norm = [&] { elements_of(source, "param.final_norm.weight", whole_slice({8})); };
  read_norm();
  fs::resize_file(shard, fs::file_size(shard) - 4);
  CHECK(contains(error_of(read_norm, Exit::io), "was truncated while"));
  TrainState state = state_at(1);
  const std::string before = open_quietly(save_tiny(scratch, state)).identity();
  state.consumed_samples += 1;
  CHECK(open_quietly(save_tiny(scratch, state)).identity() != before);
}

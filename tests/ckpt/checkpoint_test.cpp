// Checkpoints: loading restores what was saved, bit for bit, and errors identify what is damaged.
#include "ckpt/checkpoint.h"

#include <doctest/doctest.h>

#include <ctime>
#include <random>

#include "ckpt/manifest.h"
#include "ckpt_fixtures.h"
#include "formats/safetensors.h"
#include "tests/axis_slice.h"

using namespace mtl;
using namespace mtl::test;

namespace {

std::optional<std::string> newest(const std::string& directory) {
  Console console = quiet_console();
  return newest_checkpoint(directory, console);
}

/// Saves iterations 1 to `count`. The tensors in each are filled from the iteration's number.
void save_iterations(const std::string& directory, int count, const KeptCheckpoints& kept = {}) {
  SaveDirectory save(directory);
  for (int i = 1; i <= count; ++i) {
    TestParams model(tiny_config());
    fill(model.params, static_cast<float>(i));
    save_alone(save, tiny_config(), model.params, state_at(i), {.command_line = "mtl-train --x", .kept = kept});
  }
}

std::vector<std::string> entries_of(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("checkpoint: values, moments, state and configuration round-trip; padding rows are not saved") {
  ScratchFolder scratch;
  GptConfig config = tiny_config(2);
  TestParams saved(config, true, 16), loaded(config, true, 32);
  fill(saved.params, 0.5f);
  SaveDirectory save(scratch / "s");
  CHECK_FALSE(newest(save.path()).has_value());
  SaveOptions options;
  options.command_line = "mtl-train --save s";
  options.add_files = [](const std::string& folder) { write_file_atomic(folder + "/tokenizer.json", "{}"); };
  std::string path = save_alone(save, config, saved.params, state_at(7), options);
  CHECK(path == scratch / "s/iter_0000007");
  CHECK(read_file(scratch / "s/latest_checkpointed_iteration.txt") == "7\n");
  for (const std::string& where : {scratch / "s", path}) {
    ModelSource source = open_quietly(where);
    CHECK(source.kind() == "checkpoint");
    CHECK(source.folder() == path);
    CHECK(source.config() == config);
    CHECK(source.state().value() == state_at(7));
    source.load_values(loaded.params);
    source.load_optimizer(loaded.params);
    CHECK(same_tensors(saved.params, loaded.params));
    CHECK(loaded.params.value(0).data<float>()[11 * 8] == 0);
  }
  SafetensorsFile shard(path + "/shard_00000.safetensors");
  CHECK(shard.find("param.embedding.tokens.weight")->shape == std::vector<std::uint64_t>{11, 8});
  CHECK(shard.metadata().empty());
  CHECK(entries_of(path) == std::vector<std::string>{"manifest.json", "shard_00000.safetensors", "tokenizer.json"});
}

TEST_CASE("checkpoint: without optimizer state only the weights load") {
  ScratchFolder scratch;
  TestParams model(tiny_config(), false), trained(tiny_config());
  fill(model.params, 1);
  save_alone(SaveDirectory(scratch / "s"), tiny_config(), model.params, state_at(0), {});
  ModelSource source = open_quietly(scratch / "s");
  CHECK_FALSE(source.has_optimizer());
  source.load_values(trained.params);
  CHECK(same_tensors(model.params, trained.params));
  CHECK(contains(error_of([&] { source.load_optimizer(trained.params); }), "only weights"));
}

TEST_CASE("checkpoint: a model of another shape is refused, and nothing is copied") {
  ScratchFolder scratch;
  save_iterations(scratch / "s", 1);
  GptConfig other = tiny_config();
  other.vocab_size = 12;
  TestParams model(other);
  std::string error = error_of([&] { open_quietly(scratch / "s").load_values(model.params); });
  CHECK(contains(error, "tensor 'param.embedding.tokens.weight' has shape (11, 8), but this model needs (12, 8)"));
  CHECK(model.params.value(2).data<float>()[0] == 0);
}

TEST_CASE("checkpoint: finishing an interrupted commit removes what the commit would have removed") {
  ScratchFolder scratch;
  save_iterations(scratch / "s", 4);
  SaveDirectory(scratch / "s").finish_commit(3, 2);  // not the newest
  CHECK(list_iterations(scratch / "s") == std::vector<std::int64_t>{4, 3, 2, 1});
  SaveDirectory(scratch / "s").finish_commit(4, 0);
  CHECK(list_iterations(scratch / "s") == std::vector<std::int64_t>{4, 3, 2, 1});
  SaveDirectory(scratch / "s").finish_commit(4, 2);
  CHECK(list_iterations(scratch / "s") == std::vector<std::int64_t>{4, 3});
}

TEST_CASE("checkpoint: a commit removes all but the last keep_last, which must be at least 2") {
  ScratchFolder scratch;
  save_iterations(scratch / "s", 4, 2);
  CHECK(entries_of(scratch / "s") ==
        std::vector<std::string>{"iter_0000003", "iter_0000004", "latest_checkpointed_iteration.txt", "lock"});
  TestParams model(tiny_config());
  CHECK(contains(error_of([&] {
                   save_alone(SaveDirectory(scratch / "s"), tiny_config(), model.params, state_at(9), {.kept = 1});
                 }),
                 "at least 2"));
}

TEST_CASE("checkpoint: a commit keeps the newest and those of iterations that are multiples of a number") {
  ScratchFolder scratch;
  save_iterations(scratch / "s", 10, {2, 3});
  CHECK(list_iterations(scratch / "s") == std::vector<std::int64_t>{10, 9, 6, 3});
  SaveDirectory(scratch / "s").finish_commit(10, {2, 9});
  CHECK(list_iterations(scratch / "s") == std::vector<std::int64_t>{10, 9});
  save_iterations(scratch / "all", 4, {0, 2});
  CHECK(list_iterations(scratch / "all").size() == 4);
}

TEST_CASE("checkpoint: a marked one stays until the next is complete, if another is left, and does not count") {
  ScratchFolder scratch;
  const std::string directory = scratch / "s";
  const auto after = [&](std::int64_t iteration, const KeptCheckpoints& kept) {  // all but multiples of 5 are marked
    TestParams model(tiny_config());
    TrainState state = state_at(iteration);
    if (iteration % 5 != 0) state.extra.set(kNonPersistent, true);
    save_alone(SaveDirectory(directory), tiny_config(), model.params, state, {.kept = kept});
    return list_iterations(directory);
  };
  using Iterations = std::vector<std::int64_t>;
  const KeptCheckpoints all{0, 0, true}, two{2, 0, true}, tens{2, 10, true};
  CHECK(after(2, all) == Iterations{2});
  CHECK(after(3, all) == Iterations{3, 2});  // 3 may turn out to be damaged
  CHECK(after(4, all) == Iterations{4, 3});
  CHECK(after(5, all) == Iterations{5, 4});
  CHECK(after(6, all) == Iterations{6, 5});
  CHECK(after(8, two) == Iterations{8, 5});
  CHECK(after(10, two) == Iterations{10, 5});
  CHECK(after(12, two) == Iterations{12, 10, 5});
  CHECK(after(15, tens) == Iterations{15, 10});
  CHECK(after(18, tens) == Iterations{18, 15, 10});
  CHECK(after(20, tens) == Iterations{20, 15, 10});
  CHECK(after(21, 0) == Iterations{21, 20, 15, 10});  // without the flag, marks have no meaning
  CHECK(after(22, 2) == Iterations{22, 21});
  SaveDirectory(directory).finish_commit(22, all);
  CHECK(list_iterations(directory) == Iterations{22, 21});
  fs::remove(directory + "/iter_0000021/manifest.json");
  CHECK(after(25, all) == Iterations{25, 22, 21});  // the damaged one is not another
  CHECK(after(30, all) == Iterations{30, 25, 21});
}

TEST_CASE("checkpoint: a damaged one is neither counted nor removed as one of the last keep_last") {
  ScratchFolder scratch;
  save_iterations(scratch / "s", 3);
  fs::remove(scratch / "s/iter_0000003/manifest.json");
  TestParams model(tiny_config());
  save_alone(SaveDirectory(scratch / "s"), tiny_config(), model.params, state_at(4), {.kept = 2});
  CHECK(entries_of(scratch / "s") == std::vector<std::string>{"iter_0000002", "iter_0000003", "iter_0000004",
                                                              "latest_checkpointed_iteration.txt", "lock"});
}

TEST_CASE("checkpoint: saving an iteration again replaces it, sound or damaged; leftovers of dead jobs are removed") {
  ScratchFolder scratch;
  save_iterations(scratch / "s", 2);
  fs::create_directories(scratch / "s/iter_0000001.tmp.999");
  TestParams model(tiny_config()), loaded(tiny_config());
  fill(model.params, 77);
  SaveDirectory save(scratch / "s");
  for (bool damaged : {false, true}) {
    if (damaged) fs::remove(scratch / "s/iter_0000002/manifest.json");
    save_alone(save, tiny_config(), model.params, state_at(2), {});
    open_quietly(scratch / "s").load_values(loaded.params);
    open_quietly(scratch / "s").load_optimizer(loaded.params);
    CHECK(same_tensors(model.params, loaded.params));
    CHECK(entries_of(scratch / "s").size() == 4);
  }
}

TEST_CASE("checkpoint: what a job killed in a commit left behind is removed, also if the tracker is right") {
  ScratchFolder scratch;
  save_iterations(scratch / "s", 2);
  const std::vector<std::string> before = entries_of(scratch / "s");
  for (const char* kind : {"", "old.", "damaged."})
    fs::create_directories(cat(scratch / "s/iter_0000001.tmp.", kind, "999"));
  SaveDirectory(scratch / "s").finish_commit(2, 0);
  CHECK(entries_of(scratch / "s") == before);
}

TEST_CASE("checkpoint: a second job on a save folder is refused, and the error names the first") {
  ScratchFolder scratch;
  {
    SaveDirectory first(scratch / "s");
    std::string error = error_of([&] { SaveDirectory second(scratch / "s"); });
    CHECK(contains(error, "another job saves here (pid " + std::to_string(::getpid())));
  }
  SaveDirectory again(scratch / "s");  // the owner's lock is released; the file still exists
  CHECK(file_exists(scratch / "s/lock"));
}

TEST_CASE("checkpoint: a run that saves nothing removes the save folder that it created") {
  ScratchFolder scratch;
  { SaveDirectory save(scratch / "a/b/s"); }
  CHECK_FALSE(file_exists(scratch / "a"));
  fs::create_directories(scratch / "a");
  { SaveDirectory save(scratch / "a/b/"); }
  CHECK(entries_of(scratch / "a").empty());
  fs::create_directories(scratch / "a/b");
  { SaveDirectory save(scratch / "a/b"); }
  CHECK(entries_of(scratch / "a/b") == std::vector<std::string>{"lock"});
  {
    SaveDirectory save(scratch / "c/s");
    SaveDirectory moved = std::move(save);
    write_text(scratch / "c/s/notes", "kept");
  }
  CHECK(entries_of(scratch / "c/s") == std::vector<std::string>{"lock", "notes"});
}

TEST_CASE("checkpoint: the newest checkpoint is found whatever the tracker says") {
  for (const char* text : {"", "garbage", "99", "1", "-3", "18446744073709551616", "release"}) {
    CAPTURE(text);
    ScratchFolder scratch;
    save_iterations(scratch / "s", 2);
    write_text(scratch / "s/latest_checkpointed_iteration.txt", text);
    CHECK(newest(scratch / "s") == scratch / "s/iter_0000002");
  }
  ScratchFolder scratch;
  save_iterations(scratch / "s", 2);
  fs::remove(scratch / "s/latest_checkpointed_iteration.txt");
  CHECK(newest(scratch / "s") == scratch / "s/iter_0000002");
}

TEST_CASE("checkpoint: a flipped bit anywhere in a shard is found and named") {
  ScratchFolder scratch;
  save_iterations(scratch / "s", 1);
  std::string shard = scratch / "s/iter_0000001/shard_00000.safetensors", content = read_file(shard);
  SafetensorsFile file(shard);
  std::size_t data_begin = content.size() - file.tensors().back().end;
  for (std::size_t t = 0; t < file.tensors().size(); t += 7) {
    const StoredTensor& tensor = file.tensors()[t];
    flip_bit(shard, data_begin + tensor.end - 3);
    TestParams model(tiny_config());
    ModelSource source = open_quietly(scratch / "s");
    bool of_values = starts_with(tensor.name, "param.");
    std::string error =
        error_of([&] { of_values ? source.load_values(model.params) : source.load_optimizer(model.params); });
    CHECK(
        contains(error, shard + " does not match its hash in the manifest (tensor '" + tensor.name + "', bytes 0 to "));
    for (int i = 0; i < model.params.size(); ++i) {
      CHECK(model.params.value(i).data<float>()[0] == 0);
      CHECK(model.params.row_part(i, kFirstState).data<float>()[0] == 0);
    }
    CHECK(
        error_of([&] { of_values ? source.load_optimizer(model.params) : source.load_values(model.params); }).empty());
    CHECK(contains(error_of([&] { source.verify(); }), "(tensor '" + tensor.name + "')"));
    write_text(shard, content);
  }
  // Damage to the header makes it invalid or changes the hash.
  for (std::size_t byte = 0; byte < data_begin; byte += 5) {
    flip_bit(shard, byte);
    TestParams model(tiny_config());
    CHECK(
        contains(error_of([&] { open_quietly(scratch / "s").load_values(model.params); }), "shard_00000.safetensors"));
    write_text(shard, content);
  }
}

TEST_CASE("checkpoint: a flipped bit in the manifest invalidates it, and an older checkpoint loads") {
  ScratchFolder scratch;
  save_iterations(scratch / "s", 2);
  std::string path = scratch / "s/iter_0000002/manifest.json", content = read_file(path);
  for (std::size_t byte = 0; byte < content.size(); byte += 11) {
    if (std::isspace(static_cast<unsigned char>(content[byte]))) continue;
    flip_bit(path, byte);
    CHECK(error_of([&] { read_sound_manifest(scratch / "s/iter_0000002"); }).starts_with(path + ": "));
    write_text(path, content);
  }
  flip_bit(path, content.size() / 2);
  CHECK(newest(scratch / "s") == scratch / "s/iter_0000001");
  write_text(path, content);
  CHECK(newest(scratch / "s") == scratch / "s/iter_0000002");
}

TEST_CASE("checkpoint: a shard missing, truncated, extra, or of another checkpoint is refused") {
  ScratchFolder scratch;
  save_iterations(scratch / "s", 2);
  std::string shard = scratch / "s/iter_0000002/shard_00000.safetensors", content = read_file(shard);
  auto error = [&](const std::string& path) { return error_of([&] { open_quietly(scratch / path); }); };
  fs::remove(shard);
  CHECK(contains(error("s/iter_0000002"), shard + " is missing; it contains param.embedding.tokens.weight, param."));
  CHECK(newest(scratch / "s") == scratch / "s/iter_0000001");
  write_text(shard, content.substr(0, content.size() - 1));
  CHECK(contains(error("s/iter_0000002"), "bytes instead of"));
  write_text(shard, content);
  write_text(scratch / "s/iter_0000002/shard_00001.safetensors", content);
  CHECK(contains(error("s/iter_0000002"), "shard_00001.safetensors is not in the manifest"));
  fs::remove(scratch / "s/iter_0000002/shard_00001.safetensors");
  fs::copy_file(scratch / "s/iter_0000001/shard_00000.safetensors", shard, fs::copy_options::overwrite_existing);
  TestParams model(tiny_config());
  CHECK(contains(error_of([&] { open_quietly(scratch / "s").load_values(model.params); }),
                 shard + " does not match its hash"));
  fs::remove(scratch / "s/iter_0000001/manifest.json");
  fs::remove(shard);
  CHECK(contains(error("s"), "none of the 2 checkpoints is valid"));
}

TEST_CASE("checkpoint: a recorded dropout that is no probability names the manifest and the key") {
  ScratchFolder scratch;
  TestParams model(tiny_config());
  TrainState state = state_at(1);
  state.extra.set("dropout", Json::object({{"hidden", 0.1}, {"attention", 1.5}, {"embedding", 0.1}}));
  save_alone(SaveDirectory(scratch / "s"), tiny_config(), model.params, state);
  CHECK(contains(error_of([&] { open_quietly(scratch / "s"); }), "manifest.json: dropout.attention is 1.5; "));
}

TEST_CASE("checkpoint: a shard that is removed while it is open stays readable") {
  ScratchFolder scratch;
  save_iterations(scratch / "s", 1);
  TestParams before(tiny_config()), after(tiny_config());
  const ModelSource source = open_quietly(scratch / "s");
  source.load_values(before.params);
  fs::remove_all(scratch / "s");
  source.load_values(after.params);
  CHECK(same_tensors(before.params, after.params));
  CHECK(after.params.value(0).data<float>()[0] != 0);
}

TEST_CASE("checkpoint: a tensor divided in any way into slices and shards loads as the whole") {
  // Three shards: matrices are split by columns or rows, and vectors by element ranges, as in a sharded optimizer.
  ScratchFolder scratch;
  GptConfig config = tiny_config();
  TestParams saved(config, false), loaded(config, false);
  fill(saved.params, 3);
  std::string folder = scratch / "s/iter_0000005";
  fs::create_directories(folder);
  Manifest manifest{.config = config, .state = state_at(5), .tensors = {}, .files = {}, .provenance = Json::object()};
  std::vector<std::vector<std::vector<float>>> data(3);
  std::vector<std::vector<StoredTensor>> plans(3);
  for (int p = 0; p < saved.params.size(); ++p) {
    const ParamSpec& spec = saved.params.specs()[static_cast<std::size_t>(p)];
    ManifestTensor entry{{"param." + spec.name, StoredDType::f32, spec.shape}, {}};
    std::int64_t count = spec.numel(), rows = spec.shape[0];
    for (int rank = 0; rank < 3; ++rank) {
      Slice slice = whole_slice(spec.shape);
      if (spec.shape.size() == 2 && spec.shape[1] % 2 == 0 && p % 2 == 0) {
        slice = rank < 2 ? axis_slice(spec.shape, 1, rank, 2) : axis_slice(spec.shape, 1, 0, 2);
        if (rank == 2) slice.begin = slice.end = 0;  // an empty range is valid
      } else if (spec.shape.size() == 2) {
        slice.size[0] = rank < 2 ? rows / 3 : rows - 2 * (rows / 3);
        slice.offset[0] = rank * (rows / 3);
        slice.end = slice.size[0] * slice.size[1];
      } else {
        slice.begin = rank * count / 3, slice.end = (rank + 1) * count / 3;
      }
      std::vector<float> piece(static_cast<std::size_t>(slice.count()));
      for_each_overlap(whole_slice(spec.shape), slice, [&](const Overlap& run) {
        std::memcpy(piece.data() + run.in_b, saved.params.value(p).data<float>() + run.in_a,
                    static_cast<std::size_t>(run.count) * 4);
      });
      std::string file = cat("shard_0000", rank, ".safetensors");
      entry.pieces.push_back({file, slice, hash_text(hash_bytes(piece.data(), piece.size() * 4))});
      plans[static_cast<std::size_t>(rank)].push_back(
          {.name = entry.tensor.name, .dtype = StoredDType::f32, .shape = stored_shape(slice)});
      data[static_cast<std::size_t>(rank)].push_back(std::move(piece));
    }
    manifest.tensors.push_back(std::move(entry));
  }
  for (std::size_t rank = 0; rank < 3; ++rank) {
    OutputFile out(cat(folder, "/shard_0000", rank, ".safetensors"));
    SafetensorsWriter writer(out, plans[rank]);
    for (const std::vector<float>& piece : data[rank]) writer.write(std::as_bytes(std::span(piece)));
    writer.finish();
    out.close();
    manifest.files.push_back({cat("shard_0000", rank, ".safetensors"), out.bytes(), hash_text(out.hash())});
  }
  write_text(folder + "/manifest.json", manifest_text(manifest));
  open_quietly(scratch / "s").load_values(loaded.params);
  CHECK(same_tensors(saved.params, loaded.params));

  SUBCASE("overlapping pieces, which leave a gap, are refused") {
    manifest.tensors[1].pieces[1].slice.offset = manifest.tensors[1].pieces[0].slice.offset;
    write_text(folder + "/manifest.json", manifest_text(manifest));
    CHECK(contains(error_of([&] { open_quietly(folder); }), "overlap"));
  }
  SUBCASE("two swapped shards are refused") {
    std::string first = folder + "/shard_00000.safetensors", second = folder + "/shard_00001.safetensors";
    fs::rename(first, folder + "/x"), fs::rename(second, first), fs::rename(folder + "/x", second);
    CHECK(contains(error_of([&] { open_quietly(folder).load_values(loaded.params); }), "shard_0000"));
  }
}

TEST_CASE(
    "checkpoint: 40,000 pieces of a tensor are checked for overlaps in a second, and an overlap names its pieces") {
  constexpr std::int64_t kColumns = 8, kRanges = 5000, kLength = 4;  // 8 boxes of 5000 ranges, as with TP 8 and DP 5000
  ManifestTensor entry{{"param.x", StoredDType::f32, {kRanges, kColumns * kLength}}, {}};
  for (std::int64_t i = 0; i < kRanges; ++i) {
    for (std::int64_t column = 0; column < kColumns; ++column) {
      Slice slice = axis_slice(entry.tensor.shape, 1, column, kColumns);
      slice.begin = i * kLength, slice.end = slice.begin + kLength;
      entry.pieces.push_back({cat("shard ", i, " of ", column), slice, "", {}});
    }
  }
  std::clock_t began = std::clock();
  check_disjoint(entry);
  CHECK(std::clock() - began < CLOCKS_PER_SEC);
  ++entry.pieces[12345].slice.end;  // column 1: range 1543 extends into range 1544
  CHECK(error_of([&] { check_disjoint(entry); }) == "its pieces in shard 1543 of 1 and shard 1544 of 1 overlap");

  // A pinwheel: boxes that no straight cut separates.
  ManifestTensor wheel{{"param.x", StoredDType::f32, {3, 3}}, {}};
  auto add = [&](std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns) {
    Slice box = whole_slice({rows, columns});
    box.offset = {row, column};
    wheel.pieces.push_back({cat("shard ", wheel.pieces.size()), box, "", {}});
  };
  add(0, 0, 1, 2), add(0, 2, 2, 1), add(2, 1, 1, 2), add(1, 0, 2, 1), add(1, 1, 1, 1);
  check_disjoint(wheel);
  wheel.pieces[4].slice.offset = {0, 1};
  CHECK(error_of([&] { check_disjoint(wheel); }) == "its pieces in shard 0 and shard 4 overlap");
}

TEST_CASE("checkpoint: hostile manifests are errors or manifests, never crashes") {
  ScratchFolder scratch;
  save_iterations(scratch / "s", 1);
  std::string content = read_file(scratch / "s/iter_0000001/manifest.json");
  std::mt19937 random(11);
  const char* tokens[] = {"-1",   "9223372036854775807",      "1e300", "NaN", "[]", "{}", "\"..\"",
                          "null", "[9223372036854775807, 2]", "0"};
  int accepted = 0;
  for (int round = 0; round < 300; ++round) {
    std::string damaged = content;
    std::size_t at = random() % damaged.size();
    if (round % 3 == 0) {
      damaged[at] = static_cast<char>(random() % 256);
    } else if (round % 3 == 1) {  // replaces a number with another
      while (at < damaged.size() && !std::isdigit(static_cast<unsigned char>(damaged[at]))) ++at;
      std::size_t end = at;
      while (end < damaged.size() && std::isdigit(static_cast<unsigned char>(damaged[end]))) ++end;
      damaged.replace(at, end - at, tokens[random() % std::size(tokens)]);
    } else {
      damaged.erase(at, random() % 200);
    }
    try {
      Manifest manifest = parse_manifest(damaged, ChecksumCheck::skip);
      ++accepted;
      CHECK(parse_manifest(manifest_text(manifest)).tensors.size() == manifest.tensors.size());
    } catch (const Error& error) {
      CHECK(error.code() == Exit::bad_data);
    }
  }
  CHECK(accepted > 0);
}

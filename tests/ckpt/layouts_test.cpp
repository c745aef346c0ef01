// Checkpoint layouts: ranks together write each element once. Any layout can read the result, and each rank reads only
// its part.
#include <doctest/doctest.h>

#include <set>

#include "ckpt/manifest.h"
#include "ckpt/open_model.h"
#include "formats/safetensors.h"
#include "models/hf_folder.h"
#include "rank_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Returns GPT-2, Llama, and Llama with Qwen's additions and an untied output layer.
std::vector<GptConfig> configs() {
  GptConfig qwen = llama_layouts_config();
  qwen.bias.qkv = qwen.qk_norm = true;
  return {layouts_config(), llama_layouts_config(), qwen};
}

std::vector<std::string> shards_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Returns the total size of the blocks that `params` needs.
std::uint64_t bytes_of_needed_blocks(const ParamMemory& params, const Manifest& manifest) {
  std::uint64_t bytes = 0;
  visit_tensors(params, [&](const std::string& name, const auto&, const Slice& slice, Tensor) {
    for (const ManifestTensor& entry : manifest.tensors) {
      if (entry.tensor.name != name) continue;
      for (const ManifestPiece& piece : entry.pieces) {
        std::int64_t piece_bytes = stored_bytes(entry, piece);
        std::int64_t block = piece.blocks.empty() ? piece_bytes : manifest.block_bytes;
        std::set<std::int64_t> needed;
        for_each_overlap(piece.slice, slice, [&](const Overlap& run) {
          for (std::int64_t b = run.in_a * 4 / block; b * block < (run.in_a + run.count) * 4; ++b) needed.insert(b);
        });
        for (std::int64_t b : needed) bytes += static_cast<std::uint64_t>(std::min(block, piece_bytes - b * block));
      }
    }
  });
  return bytes;
}

std::uint64_t bytes_held(const ParamMemory& params) {
  std::uint64_t bytes = 0;
  visit_tensors(params, [&](const std::string&, const auto&, const Slice& slice, Tensor) {
    bytes += static_cast<std::uint64_t>(slice.count()) * 4;
  });
  return bytes;
}

std::vector<std::string> no_errors(const TestLayout& layout) {
  return std::vector<std::string>(static_cast<std::size_t>(layout.grid().world()));
}

/// Checks that every layout can read this layout's checkpoint, and reads only the blocks it needs.
void check_every_layout_reads(const TestLayout& writer, const GptConfig& config) {
  ScratchFolder scratch;
  SaveOptions options;
  options.block_bytes = 100;  // not a divisor of any piece: each ends in a shorter block
  CHECK(save_from(writer, scratch / "s", 7, options, config) == no_errors(writer));
  std::string folder = scratch / "s/iter_0000007";
  Manifest manifest = read_sound_manifest(folder);
  CHECK(manifest.block_bytes == 100);
  for (const TestLayout& reader : kTestLayouts) {
    CAPTURE(reader.name);
    std::atomic<int> wrong = 0, wrong_reads = 0, more_than_held = 0;
    auto compare = [&](int, const ParamMemory& params, const ModelSource& source) {
      wrong += count_wrong(params, 7);
      wrong_reads += source.bytes_read() != bytes_of_needed_blocks(params, manifest);
      more_than_held += source.bytes_read() != bytes_held(params);
    };
    CHECK(load_into(reader, folder, compare, config) == no_errors(reader));
    CHECK(wrong == 0);
    CHECK(wrong_reads == 0);
    if (&writer == &reader) CHECK(more_than_held == 0);
  }
}

/// Checks that each tensor element is in exactly one piece, and that each piece is stored as a tensor in a safetensors
/// file. Returns the number of wrong elements.
std::size_t check_pieces(const std::string& folder, const ManifestTensor& entry, int seed) {
  std::size_t wrong = 0;
  Slice whole = whole_slice(entry.tensor.shape);
  std::vector<int> found(static_cast<std::size_t>(whole.count()));
  for (const ManifestPiece& piece : entry.pieces) {
    SafetensorsFile file(cat(folder, "/", piece.file));
    const StoredTensor* stored = file.find(entry.tensor.name);
    REQUIRE(stored != nullptr);
    CHECK(stored->shape == stored_shape(piece.slice));
    std::vector<float> values(static_cast<std::size_t>(piece.slice.count()));
    to_float(stored->dtype, file.data(*stored), values);
    for_each_overlap(whole, piece.slice, [&](const Overlap& run) {
      for (std::int64_t k = 0; k < run.count; ++k) {
        ++found[static_cast<std::size_t>(run.in_a + k)];
        wrong += values[static_cast<std::size_t>(run.in_b + k)] != true_element(entry.tensor.name, run.in_a + k, seed);
      }
    });
  }
  CHECK(std::all_of(found.begin(), found.end(), [](int times) { return times == 1; }));
  return wrong;
}

}  // namespace

TEST_CASE("layouts: a checkpoint of any layout loads into any other, reading only the needed blocks") {
  for (const GptConfig& config : configs()) {
    CAPTURE(canonical_tensors(config).size());
    for (const TestLayout& writer : kTestLayouts) {
      CAPTURE(writer.name);
      check_every_layout_reads(writer, config);
    }
  }
}

TEST_CASE("layouts: every element is in one shard once, where any safetensors reader finds it") {
  for (const GptConfig& config : configs()) {
    for (const TestLayout& writer : kTestLayouts) {
      CAPTURE(canonical_tensors(config).size());
      CAPTURE(writer.name);
      ScratchFolder scratch;
      save_from(writer, scratch / "s", 3, {}, config);
      std::string folder = scratch / "s/iter_0000003";
      Manifest manifest = read_sound_manifest(folder);
      CHECK(manifest.tensors.size() == 3 * canonical_tensors(config).size());
      std::size_t stored_tensors = 0, pieces = 0, wrong = 0;
      for (const std::string& shard : shards_in(folder))
        stored_tensors += SafetensorsFile(cat(folder, "/", shard)).tensors().size();
      for (const ManifestTensor& entry : manifest.tensors) {
        pieces += entry.pieces.size();
        wrong += check_pieces(folder, entry, 3);
      }
      CHECK(wrong == 0);
      CHECK(stored_tensors == pieces);
    }
  }
}

TEST_CASE("layouts: a rank without data of its own writes no file") {
  auto shards = [](const char* name) {
    for (const TestLayout& layout : kTestLayouts) {
      if (layout.name != std::string(name)) continue;
      ScratchFolder scratch;
      save_from(layout, scratch / "s", 1);
      return shards_in(scratch / "s/iter_0000001");
    }
    return std::vector<std::string>();
  };
  using Names = std::vector<std::string>;
  CHECK(shards("one rank") == Names{"shard_00000.safetensors"});
  CHECK(shards("dp 2") == Names{"shard_00000.safetensors"});  // rank 1 holds the same data
  CHECK(shards("dp 2, ZeRO-1") == Names{"shard_00000.safetensors", "shard_00001.safetensors"});
  CHECK(shards("tp 2, pp 2").size() == 4);
}

TEST_CASE("layouts: every rank reads its part of a Hugging Face folder") {
  for (const GptConfig& config : {layouts_config(), llama_layouts_config()}) {
    CAPTURE(canonical_tensors(config).size());
    ScratchFolder scratch;
    save_from(kOneRank, scratch / "s", 5, {}, config);
    fs::create_directories(scratch / "hf");
    Console console = quiet_console();
    write_hf_folder(open_model(scratch / "s", console), scratch / "hf", {});
    for (const TestLayout& reader : kTestLayouts) {
      CAPTURE(reader.name);
      std::atomic<int> wrong = 0, wrong_reads = 0;
      auto compare = [&](int, const ParamMemory& params, const ModelSource& source) {
        wrong += count_wrong(params, 5, source.has_optimizer());
        std::uint64_t needed = 0;
        for (int i = 0; i < params.size(); ++i)
          needed += static_cast<std::uint64_t>(params.row_slice(i, kValues).count()) * 4;
        wrong_reads += source.bytes_read() != needed;
      };
      CHECK(load_into(reader, scratch / "hf", compare, config) == no_errors(reader));
      CHECK(wrong == 0);
      CHECK(wrong_reads == 0);
    }
  }
}

TEST_CASE("layouts: ranks that lack a part of the model do not commit") {
  // The second stage's rank saves the first stage's part again.
  ScratchFolder scratch;
  const TestLayout& layout = kTestLayouts[2];
  RankGrid grid = layout.grid();
  std::vector<std::string> errors(2);
  run_ranks(grid, [&](int rank, const ProcessGroups& groups) {
    RankModel model(layout, grid, 0);
    errors[static_cast<std::size_t>(rank)] = error_of([&] {
      SaveDirectory save = open_save(rank, scratch / "s");
      save_in_turn(save, layouts_config(), model.params, state_at(1), {}, groups.world());
    });
  });
  CHECK(contains(errors[0], "cannot save tensor 'param."));
  CHECK(errors[0] == errors[1]);
  CHECK_FALSE(file_exists(scratch / "s/iter_0000001"));
}

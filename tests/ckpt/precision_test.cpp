// Checkpoints in every precision: tensors are stored in the run's dtypes. They load into any layout and any precision,
// rounded once.
#include <doctest/doctest.h>

#include <limits>

#include "ckpt/convert_model.h"
#include "ckpt/manifest.h"
#include "ckpt/open_model.h"
#include "formats/safetensors.h"
#include "models/hf_folder.h"
#include "optim/precision_presets.h"
#include "rank_fixtures.h"
#include "tests/param_index.h"

using namespace mtl;
using namespace mtl::test;

namespace {

const TestLayout& kSharded = kTestLayouts.back();  // tp 2, pp 2, dp 2

/// Returns all presets, and bf16 with bf16 first moments.
std::vector<PrecisionPreset> precisions() {
  std::vector<PrecisionPreset> all = precision_presets();
  Precision mixed = find_precision("bf16");
  mixed.exp_avg = DType::bf16;
  all.push_back({"bf16, first moment in bf16", mixed});
  return all;
}

DType dtype_of_kind(const Precision& precision, const std::string& name) {
  if (starts_with(name, "exp_avg_sq.")) return precision.exp_avg_sq;
  return starts_with(name, "exp_avg.") ? precision.exp_avg : precision.main_params;
}

/// Returns the elements that a run with this precision saves.
ElementToLoad saved_by(const Precision& writer, int seed) {
  return [=](const std::string& name, std::int64_t at) {
    return rounded(true_element(name, at, seed), dtype_of_kind(writer, name));
  };
}

/// Saves iteration 7 from all ranks and checks that every rank succeeds. Returns the manifest.
Manifest save_and_check(const ScratchFolder& scratch, const TestLayout& layout, const Precision& precision) {
  for (const std::string& error : save_from(layout, scratch / "s", 7, {}, layouts_config(), precision))
    CHECK(error == "");
  return read_sound_manifest(scratch / "s/iter_0000007");
}

DType memory_dtype(StoredDType dtype) {
  if (dtype == StoredDType::f16) return DType::f16;
  return dtype == StoredDType::bf16 ? DType::bf16 : DType::f32;
}

}  // namespace

TEST_CASE("precision: tensors are saved in the run's dtypes, main weights instead of values") {
  for (const PrecisionPreset& writer : precisions()) {
    for (const TestLayout* layout : {&kOneRank, &kSharded}) {
      CAPTURE(writer.name);
      CAPTURE(layout->name);
      ScratchFolder scratch;
      Manifest manifest = save_and_check(scratch, *layout, writer.precision);
      CHECK(manifest.tensors.size() == 3 * canonical_tensors(layouts_config()).size());
      std::int64_t bytes = 0;
      for (const ManifestTensor& entry : manifest.tensors) {
        CHECK(entry.tensor.dtype == stored_dtype_of(dtype_of_kind(writer.precision, entry.tensor.name)));
        for (const ManifestPiece& piece : entry.pieces) {
          SafetensorsFile shard(cat(scratch / "s/iter_0000007/", piece.file));
          CHECK(shard.find(entry.tensor.name)->dtype == entry.tensor.dtype);
          bytes += stored_bytes(entry, piece);
        }
      }
      CHECK(bytes == checkpoint_bytes(layouts_config(), writer.precision, single_rule<AdamW>()));
    }
  }
}

TEST_CASE("precision: a checkpoint loads into any precision and layout as its exact rounding") {
  const TestLayout* const readers[] = {&kOneRank, &kTestLayouts[4], &kSharded};
  std::size_t pair = 0;  // of precisions, each in one of the layouts; layouts_test.cpp loads any layout into any other
  for (const PrecisionPreset& writer : precisions()) {
    for (const TestLayout* from : {&kOneRank, &kSharded}) {
      ScratchFolder scratch;
      save_and_check(scratch, *from, writer.precision);
      for (const PrecisionPreset& reader : precisions()) {
        const TestLayout* into = readers[pair++ % std::size(readers)];
        CAPTURE(writer.name);
        CAPTURE(reader.name);
        CAPTURE(from->name);
        CAPTURE(into->name);
        std::atomic<int> wrong = 0, loads = 0;
        auto count = [&](int, const ParamMemory& params, const ModelSource&) {
          wrong += count_wrong(params, saved_by(writer.precision, 7));
          ++loads;
        };
        load_into(*into, scratch / "s", count, layouts_config(), reader.precision);
        CHECK(loads == into->grid().world());
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("precision: a run that starts from weights rounds them to its load dtype first") {
  ScratchFolder scratch;
  save_and_check(scratch, kSharded, kPrecisionFp32);
  fs::create_directories(scratch / "hf");
  write_hf_folder(open_quietly(scratch / "s"), scratch / "hf", {});
  for (const char* folder : {"s", "hf"}) {
    for (const PrecisionPreset& reader : precisions()) {
      CAPTURE(folder);
      CAPTURE(reader.name);
      std::atomic<int> wrong = 0, loads = 0;
      auto count = [&](int, const ParamMemory& params, const ModelSource&) {
        auto element = [&](const std::string& name, std::int64_t at) {
          return rounded(true_element(name, at, 7), reader.precision.load);
        };
        wrong += count_wrong(params, element, false);
        ++loads;
      };
      load_into(kSharded, scratch / folder, count, layouts_config(), reader.precision, true);
      CHECK(loads == kSharded.grid().world());
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("precision: NaN and infinity are not saved in any dtype, and weights that overflow a dtype are not loaded") {
  for (const PrecisionPreset& writer : precisions()) {
    for (const char* kind : {"param", "exp_avg", "exp_avg_sq"}) {
      for (float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
        CAPTURE(writer.name);
        CAPTURE(kind);
        ScratchFolder scratch;
        RankGrid grid = kOneRank.grid();
        RankModel model(kOneRank, grid, 0, layouts_config(), writer.precision);
        fill_true(model.params, 1);
        std::size_t row = kValues;
        while (model.params.table()[row].kind != kind) ++row;
        const int param = model.params.size() - 2;
        set_element(model.params.owned(param, row), 3, bad);
        const std::string error =
            error_of([&] { save_alone(SaveDirectory(scratch / "s"), layouts_config(), model.params, state_at(1)); });
        const std::string& name = model.params.specs()[static_cast<std::size_t>(param)].name;
        CHECK(contains(error, cat("tensor '", kind, ".", name, "' contains NaN or infinity")));
        CHECK_FALSE(file_exists(scratch / "s/iter_0000001"));
      }
    }
  }
  ScratchFolder scratch;
  RankGrid grid = kOneRank.grid();
  RankModel model(kOneRank, grid, 0), fp16_model(kOneRank, grid, 0, layouts_config(), find_precision("fp16")),
      bf16_model(kOneRank, grid, 0, layouts_config(), find_precision("bf16"));
  fill_true(model.params, 1);
  const int param = test::param_index(model.params, "final_norm.weight");
  set_element(model.params.value(param), 5, 65520);  // the smallest number that f16 rounds to infinity
  save_alone(SaveDirectory(scratch / "s"), layouts_config(), model.params, state_at(1));
  CHECK(contains(error_of([&] { open_quietly(scratch / "s").load_values(fp16_model.params); }, Exit::bad_data),
                 "tensor 'param.final_norm.weight': float16 cannot represent 1 of its elements"));
  open_quietly(scratch / "s").load_values(bf16_model.params);
  CHECK(element_of(bf16_model.params.value(param), 5) == 65536);
  CHECK(element_of(bf16_model.params.row_part(param, bf16_model.params.main_row()), 5) == 65520);
}

TEST_CASE("precision: a changed dtype in a shard's header or in the manifest is refused") {
  ScratchFolder scratch;
  save_and_check(scratch, kOneRank, find_precision("fsdp-low"));
  const std::string folder = scratch / "s/iter_0000007";
  const std::string shard = folder + "/shard_00000.safetensors", content = read_file(shard);
  TestParams loaded(layouts_config());
  auto load_error = [&] {
    return error_of(
        [&] {
          ModelSource source = open_quietly(folder);
          source.load_values(loaded.params);
          source.load_optimizer(loaded.params);
        },
        Exit::bad_data);
  };
  std::size_t changed = 0;
  for (std::size_t at = content.find("\"BF16\""); at != std::string::npos; at = content.find("\"BF16\"", at + 1)) {
    for (const char* other : {"\"F16\" ", "\"I16\" ", "\"F32\" ", "\"BF17\""}) {
      std::string damaged = content;
      write_text(shard, damaged.replace(at, 6, other));
      const std::string error = load_error();
      CAPTURE(error);
      CHECK(contains(error, "shard_00000.safetensors"));
    }
    ++changed;
  }
  CHECK(changed == 3 * canonical_tensors(layouts_config()).size());
  write_text(shard, content);
  CHECK(load_error() == "");
  for (StoredDType other : {StoredDType::f16, StoredDType::f32}) {
    Manifest manifest = read_sound_manifest(folder);
    const std::string good = manifest_text(manifest);
    manifest.tensors[4].tensor.dtype = other;
    write_text(folder + "/manifest.json", manifest_text(manifest));  // with a valid checksum
    CHECK(contains(load_error(), manifest.tensors[4].tensor.name));
    write_text(folder + "/manifest.json", good);
  }
}

TEST_CASE("precision: a checkpoint converts to every format and dtype: main weights are rounded, moments kept") {
  for (const PrecisionPreset& writer : precisions()) {
    ScratchFolder scratch;
    save_and_check(scratch, kSharded, writer.precision);
    for (const char* format : {"mtl", "hf", "megatron"}) {
      for (const char* dtype : {"", "float32", "float16", "bfloat16"}) {
        CAPTURE(writer.name);
        CAPTURE(format);
        CAPTURE(dtype);
        ConvertOptions options;
        options.load = scratch / "s";
        options.save = scratch / cat(format, "_", dtype);
        options.to = format;
        if (dtype[0] != '\0') options.dtype = dtype;
        options.verify = true;
        options.compare_logits = [](const ModelSource&, const ModelSource&) { return 0.0; };
        Console console = quiet_console();
        const ConvertReport report = convert_model(options, console);
        const StoredDType written = parse_torch_dtype(dtype).value_or(stored_dtype_of(writer.precision.main_params));
        CHECK(report.dtype == torch_name_of(written));

        RankGrid grid = kOneRank.grid();
        RankModel model(kOneRank, grid, 0);
        fill_true(model.params, -1);
        const ModelSource source = open_model(options.save, console, {layouts_config().vocab_size, {}});
        source.load_values(model.params);
        CHECK(source.has_optimizer() == (options.to == "mtl"));
        if (source.has_optimizer()) source.load_optimizer(model.params);
        for (const SavedTensor& tensor : source.tensors()) {
          const bool is_weight = starts_with(tensor.name, "param.");
          CHECK(tensor.dtype == (is_weight ? written : stored_dtype_of(dtype_of_kind(writer.precision, tensor.name))));
        }
        auto element = [&](const std::string& name, std::int64_t at) {
          const float saved = saved_by(writer.precision, 7)(name, at);
          return starts_with(name, "param.") ? rounded(saved, memory_dtype(written)) : saved;
        };
        CHECK(count_wrong(model.params, element, source.has_optimizer()) == 0);
      }
    }
  }
}

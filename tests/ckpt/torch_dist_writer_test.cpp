// torch_dist checkpoints: what common.pt says about the optimizer, and optimizer states in layouts that mtl does not
// write, made here from the one that it writes.
#include "ckpt/torch_dist_writer.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "ckpt/dcp_folder.h"
#include "ckpt/dcp_writer.h"
#include "ckpt/megatron_common.h"
#include "ckpt/torch_dist_buffers.h"
#include "ckpt/torch_file.h"
#include "ckpt_fixtures.h"
#include "optim/schedule_record.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Saves a model whose elements all differ, and writes it as a torch_dist checkpoint, FOLDER/iter_0000030.
struct DistCheckpoint {
  explicit DistCheckpoint(const TrainState& state, const GptConfig& config = tiny_config(2)) {
    TestStore model(config);
    fill(model.store, 1);
    save_alone(SaveDirectory(scratch / "saved"), config, model.store, state);
    make_directories(scratch / "dist");
    write_torch_dist(open_quietly(scratch / "saved"), scratch / "dist", {.make_vocab_size_divisible_by = 4});
  }
  std::string folder() const { return scratch / "dist/iter_0000030"; }

  ScratchFolder scratch;
};

std::vector<std::byte> elements_of(const DcpFolder& from, const std::string& key, const DcpChunk& chunk) {
  const DcpFolder::OpenChunk open = from.open_chunk(key, *from.find(key), chunk);
  std::vector<std::byte> elements(open.tensor->count() * bits_of(open.tensor->dtype) / 8);
  read_elements(*open.tensor, 0, elements);
  return elements;
}

/// Writes a tensor again, in the same chunks.
void copy_tensor(const DcpFolder& from, const std::string& key, DcpWriter& writer) {
  const DcpTensor& tensor = *from.find(key);
  const std::size_t number = writer.add_tensor(key, tensor.dtype, tensor.shape);
  for (const DcpChunk& chunk : tensor.chunks)
    writer.write_chunk(number, chunk.box.offset, chunk.box.size, elements_of(from, key, chunk));
}

/// Writes a matrix, or a stack of them, as the layout fully_sharded_model_space does: each matrix is cut into `rows` x
/// `columns` equal parts, which are flattened. A part is two chunks.
void write_parts(const DcpFolder& from, const std::string& key, std::int64_t rows, std::int64_t columns,
                 DcpWriter& writer) {
  const DcpTensor& tensor = *from.find(key);
  const bool is_stack = tensor.shape.size() == 3;
  const std::size_t axis = is_stack ? 1 : 0;
  const std::int64_t width = tensor.shape[axis + 1], part_rows = tensor.shape[axis] / rows,
                     part_columns = width / columns;
  const std::int64_t length = part_rows * part_columns, first_length = length / 3;
  std::vector<std::int64_t> shape = {rows, columns, length};
  if (is_stack) shape.insert(shape.begin(), tensor.shape[0]);
  const std::size_t number = writer.add_tensor(key, tensor.dtype, shape);
  for (const DcpChunk& chunk : tensor.chunks) {  // a matrix
    const std::vector<std::byte> whole = elements_of(from, key, chunk);
    for (std::int64_t part = 0; part < rows * columns; ++part) {
      const std::int64_t row = part / columns * part_rows, column = part % columns * part_columns;
      std::vector<std::byte> flat;
      for (std::int64_t i = row; i < row + part_rows; ++i) {
        const auto begin = whole.begin() + (i * width + column) * 4;
        flat.insert(flat.end(), begin, begin + part_columns * 4);
      }
      for (const bool is_first : {false, true}) {
        std::vector<std::int64_t> offset = {part / columns, part % columns, is_first ? 0 : first_length};
        std::vector<std::int64_t> size = {1, 1, is_first ? first_length : length - first_length};
        if (is_stack) offset.insert(offset.begin(), chunk.box.offset[0]), size.insert(size.begin(), 1);
        writer.write_chunk(number, offset, size, std::span(flat).subspan(offset.back() * 4, size.back() * 4));
      }
    }
  }
}

}  // namespace

TEST_CASE("torch_dist writer: common.pt has the optimizer's settings and position, not the run's iteration") {
  TrainState state = state_at(30);
  state.optimizer_steps = 27;
  const LrScheduleOptions schedule = {.lr = 0.5,
                                      .min_lr = 0.1,
                                      .decay_style = LrDecayStyle::linear,
                                      .decay_steps = 400,
                                      .weight_decay_style = WeightDecayStyle::linear,
                                      .start_weight_decay = 0.125,
                                      .end_weight_decay = 0.25,
                                      .wd_incr_steps = 400};
  const Json other = Json::object({{"--adam-beta1", 0.8}, {"--adam-beta2", 0.95}, {"--adam-eps", 1e-6}});
  state.extra.set("skipped_samples", 40);
  state.extra.set("settings", Json::object({{"schedule", schedule_record(schedule)}, {"other", other}}));
  const DistCheckpoint dist(state);
  const std::int64_t samples = 8 * 30 - 40;
  CHECK(learning_rate(schedule, samples) == doctest::Approx(0.3));

  const TorchFile common(dist.folder() + "/common.pt");
  CHECK(common.root().find("iteration")->as_int() == 30);
  CHECK(common.root().find("opt_param_scheduler")->find("num_steps")->as_int() == samples);
  const PickleValue groups = *common.root().find("optimizer")->find("optimizer")->find("param_groups");
  REQUIRE(groups.size() == 2);
  for (const bool is_decayed : {true, false}) {
    CAPTURE(is_decayed);
    const PickleValue group = groups.at(is_decayed ? 0 : 1);
    CHECK(group.find("wd_mult")->as_number() == (is_decayed ? 1 : 0));
    CHECK(group.find("weight_decay")->as_number() == (is_decayed ? weight_decay(schedule, samples) : 0));
    CHECK(group.find("lr")->as_number() == learning_rate(schedule, samples));
    CHECK(group.find("betas")->at(0).as_number() == 0.8);
    CHECK(group.find("betas")->at(1).as_number() == 0.95);
    CHECK(group.find("eps")->as_number() == 1e-6);
    CHECK(group.find("step")->as_int() == 27);
  }
  CHECK(open_quietly(dist.folder()).state()->optimizer_steps == 27);
}

TEST_CASE("torch_dist reader: fully_sharded_model_space, with weights cut along rows and along columns") {
  TrainState state = state_at(30);
  state.optimizer_steps = 30;
  const DistCheckpoint dist(state);
  const DcpFolder from(dist.folder());
  const std::string copy = dist.scratch / "copy";
  make_directories(copy);
  for (const char* file : {"common.pt", "metadata.json"}) fs::copy(dist.folder() + "/" + file, copy);
  DcpWriter writer(copy);
  int by_rows = 0, by_columns = 0;
  for (const auto& [key, tensor] : from.tensors()) {
    const bool is_weight = ends_with(key, ".weight") && key.find("norm") == std::string::npos;
    const bool is_cut_by_columns =
        key.find("linear_proj") != std::string::npos || key.find("linear_fc2") != std::string::npos;
    if (!starts_with(key, "optimizer.") || !is_weight || key.find("position") != std::string::npos) {
      copy_tensor(from, key, writer);
    } else {
      write_parts(from, key, is_cut_by_columns ? 1 : 2, is_cut_by_columns ? 2 : 1, writer);
      ++(is_cut_by_columns ? by_columns : by_rows);
    }
  }
  writer.finish();
  CHECK(by_rows == 3 * 3);
  CHECK(by_columns == 3 * 2);
  const ModelSource expected = open_quietly(dist.folder()), source = open_quietly(copy);
  REQUIRE(source.optimizer_problem() == "");
  REQUIRE(source.tensors().size() == expected.tensors().size());
  for (const SavedTensor& tensor : expected.tensors()) {
    CAPTURE(tensor.name);
    const Slice whole = whole_slice(tensor.shape);
    CHECK(same_bits(test::elements_of(source, tensor.name, whole), test::elements_of(expected, tensor.name, whole)));
  }
}

TEST_CASE("torch_dist reader: chunks of a gradient buffer in any order, and main weights that are not the weights'") {
  const DcpFolder from("golden/dist_ckpt/made/llama_fully_sharded_bucket_space_dp2_nl1_hs8_bk390/iter_0000030");
  Console console = quiet_console();
  const ModelSupplement given = {.vocab_size = 45};
  const ModelSource expected = ModelSource::open(from.path(), console, given);
  const std::int64_t rows = from.find("embedding.word_embeddings.weight")->shape[0];
  const std::vector<DistBuffer> buffers = torch_dist_buffers(expected.config(), *MegatronCommon(from).args(), rows);
  REQUIRE(buffers.size() == 1);
  const auto bucket_elements = [&](const std::string& key) {  // without padding
    std::size_t at = 0;
    while (!contains(key, cat(".bucket_idx_", at, "."))) ++at;
    const MegatronBucket& bucket = buffers[0].buffer.buckets.at(at);
    return bucket.end - bucket.begin;
  };
  for (const bool is_changed : {false, true}) {
    CAPTURE(is_changed);
    const ScratchFolder copy;
    for (const char* file : {"common.pt", "metadata.json"}) fs::copy(from.path() + "/" + file, copy.path());
    DcpWriter writer(copy.path());
    for (const auto& [key, tensor] : from.tensors()) {
      const bool is_state = starts_with(key, "optimizer.");
      const std::vector<std::int64_t> shape = is_state ? std::vector{bucket_elements(key)} : tensor.shape;
      const std::size_t number = writer.add_tensor(key, tensor.dtype, shape);
      std::vector<DcpChunk> chunks = tensor.chunks;
      std::ranges::reverse(chunks);
      for (const DcpChunk& chunk : chunks) {
        const bool is_padding = is_state && chunk.box.offset[0] >= shape[0];
        std::vector<std::byte> elements = elements_of(from, key, chunk);
        if (is_changed && key == "decoder.final_layernorm.weight") elements[1] ^= std::byte{1};
        if (!is_padding) writer.write_chunk(number, chunk.box.offset, chunk.box.size, elements);
      }
    }
    writer.finish();
    const ModelSource source = ModelSource::open(copy.path(), console, given);
    if (is_changed) {
      CHECK(contains(source.optimizer_problem(), "the optimizer's main weights of 'param.final_norm.weight' differ"));
      continue;
    }
    REQUIRE(source.optimizer_problem() == "");
    for (const SavedTensor& tensor : expected.tensors()) {
      CAPTURE(tensor.name);
      const Slice whole = whole_slice(tensor.shape);
      CHECK(same_bits(test::elements_of(source, tensor.name, whole), test::elements_of(expected, tensor.name, whole)));
    }
  }
}

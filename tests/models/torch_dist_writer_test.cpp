// torch_dist checkpoints: what common.pt says about the optimizer, and optimizer states in layouts that mtl does not
// write, made here from the one that it writes.
#include "models/torch_dist_writer.h"
#include "ckpt/open_model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "formats/dcp_folder.h"
#include "formats/dcp_writer.h"
#include "formats/torch_file.h"
#include "models/megatron_common.h"
#include "models/torch_dist_buffers.h"
#include "optim/schedule_record.h"
#include "tests/ckpt/ckpt_fixtures.h"
#include "tests/formats/dcp_entries.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Saves a model whose elements all differ, and writes it as a torch_dist checkpoint, FOLDER/iter_0000030.
struct DistCheckpoint {
  explicit DistCheckpoint(const TrainState& state, const GptConfig& config = tiny_config(2)) {
    TestParams model(config);
    fill(model.params, 1);
    save_alone(SaveDirectory(scratch / "saved"), config, model.params, state);
    make_directories(scratch / "dist");
    write_torch_dist(open_quietly(scratch / "saved"), scratch / "dist", {.make_vocab_size_divisible_by = 4});
  }
  std::string folder() const { return scratch / "dist/iter_0000030"; }

  ScratchFolder scratch;
};

/// Writes a tensor again, in the same boxes.
void copy_tensor(const DcpFolder& from, const std::string& key, DcpWriter& writer) {
  const DcpTensor& tensor = *from.find(key);
  const std::size_t number = writer.add_tensor(key, tensor.dtype, tensor.shape);
  for (const DcpBox& box : tensor.boxes)
    writer.write_box(number, box.slice.offset, box.slice.size, elements_of(from, key, box));
}

/// Writes a matrix, or a stack of them, as the layout fully_sharded_model_space does: each matrix is cut into `rows` x
/// `columns` equal parts, which are flattened. A part is two boxes.
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
  for (const DcpBox& box : tensor.boxes) {  // a matrix
    const std::vector<std::byte> whole = elements_of(from, key, box);
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
        if (is_stack) offset.insert(offset.begin(), box.slice.offset[0]), size.insert(size.begin(), 1);
        writer.write_box(number, offset, size, std::span(flat).subspan(offset.back() * 4, size.back() * 4));
      }
    }
  }
}

/// Returns a value of a pickle as text, without instances.
std::string common_text(PickleValue value) {
  switch (value.kind()) {
    case PickleKind::boolean:
      return value.as_bool() ? "True" : "False";
    case PickleKind::integer:
    case PickleKind::real:
      return cat(value.as_number());
    case PickleKind::text:
      return std::string(value.as_text());
    case PickleKind::list:
    case PickleKind::tuple:
    case PickleKind::dict: {
      std::string out;
      for (std::size_t i = 0; i < value.size(); ++i)
        out += value.is(PickleKind::dict) ? cat(" ", common_text(value.key(i)), "=", common_text(value.value(i)))
                                          : cat(" ", common_text(value.at(i)));
      return cat("(", out, " )");
    }
    default:
      return value.describe();
  }
}

}  // namespace

TEST_CASE("torch_dist writer: all of common.pt, all keys and all files, with and without an optimizer") {
  TrainState state = state_at(30);
  state.optimizer_steps = 27;
  for (const bool is_trained : {true, false}) {
    CAPTURE(is_trained);
    const DistCheckpoint dist(state);
    std::string folder = dist.scratch / "dist";
    if (!is_trained) {
      const ModelSource weights = open_quietly("golden/gpt2_model/a");
      folder = dist.scratch / "weights";
      make_directories(folder);
      write_torch_dist(weights, folder, {.dtype = StoredDType::bf16, .pipeline_parallel = 5, .virtual_stages = 3});
    }
    std::vector<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) files.push_back(entry.path().string().substr(folder.size() + 1));
    }
    std::ranges::sort(files);
    CHECK(join(files, " ") ==
          (is_trained ? "iter_0000030/.metadata iter_0000030/__0_0.distcp iter_0000030/common.pt "
                        "iter_0000030/metadata.json latest_checkpointed_iteration.txt"
                      : "latest_checkpointed_iteration.txt release/.metadata release/__0_0.distcp release/common.pt "
                        "release/generation_config.json release/metadata.json"));
    const std::string name = is_trained ? "iter_0000030" : "release";
    CHECK(read_file(folder + "/latest_checkpointed_iteration.txt") == (is_trained ? "30" : "release"));
    const TorchFile common(cat(folder, "/", name, "/common.pt"));
    std::string text = "\n";
    for (std::size_t i = 0; i < common.root().size(); ++i)
      text += cat(common.root().key(i).as_text(), " ", common_text(common.root().value(i)), "\n");
    const std::pair<const char*, const char*> shortened[] = {
        {" lr_mult=1 is_expert_parallel=False is_decoupled_lr=False default_config=True bias_correction=True "
         "decoupled_weight_decay=True lr=0 weight_decay=0 betas=( 0.9 0.999 ) eps=1e-08 step=27",
         " GROUP"},
        {" param_state_sharding_type=fully_reshardable", " LAYOUT"},
        {" distrib_optim_sharding_type=fully_reshardable", " LAYOUT"},
        {" max_lr=None min_lr=None lr_warmup_steps=None lr_decay_steps=None lr_decay_style=None", " NONE"}};
    for (const auto& [from, to] : shortened) {
      for (std::size_t at = 0; (at = text.find(from)) != std::string::npos;)
        text.replace(at, std::string_view(from).size(), to);
    }
    CHECK(text == (is_trained ? R"(
args an instance of argparse.Namespace
checkpoint_version 3
iteration 30
optimizer ( optimizer=( param_groups=( ( wd_mult=1 GROUP ) ( wd_mult=0 GROUP ) ) ) LAYOUT )
opt_param_scheduler ( NONE num_steps=240 )
content_metadata ( LAYOUT chained_optim_avoid_prefix=True singleton_local_shards=False )
)"
                              : R"(
args an instance of argparse.Namespace
checkpoint_version 3
iteration 0
content_metadata ( chained_optim_avoid_prefix=True singleton_local_shards=False )
)"));
    const PickleValue args = *common.root().find("args");
    CHECK(args.find("pipeline_model_parallel_size")->as_int() == 1);
    CHECK(args.find("virtual_pipeline_model_parallel_size")->is(PickleKind::none));
    CHECK(args.find("consumed_valid_samples")->as_int() == (is_trained ? 3 : 0));
    const DcpFolder dcp(cat(folder, "/", name));
    std::string objects;
    for (const auto& [key, range] : dcp.objects()) objects += key + "\n";
    if (is_trained)
      CHECK("\n" + objects == R"(
decoder.layers.mlp.linear_fc1._extra_state/shard_0_2
decoder.layers.mlp.linear_fc1._extra_state/shard_1_2
decoder.layers.mlp.linear_fc2._extra_state/shard_0_2
decoder.layers.mlp.linear_fc2._extra_state/shard_1_2
decoder.layers.self_attention.core_attention._extra_state/shard_0_2
decoder.layers.self_attention.core_attention._extra_state/shard_1_2
decoder.layers.self_attention.linear_proj._extra_state/shard_0_2
decoder.layers.self_attention.linear_proj._extra_state/shard_1_2
decoder.layers.self_attention.linear_qkv._extra_state/shard_0_2
decoder.layers.self_attention.linear_qkv._extra_state/shard_1_2
)");
    const DcpTensor& tokens = *dcp.find("embedding.word_embeddings.weight");
    CHECK(tokens.dtype == (is_trained ? StoredDType::f32 : StoredDType::bf16));
    CHECK(tokens.shape[0] == (is_trained ? 12 : 512));
  }
}

TEST_CASE("torch_dist writer: a model with a training state, but without moments, is a release") {
  const ScratchFolder scratch;
  TestParams model(tiny_config(), false);
  fill(model.params, 1);
  const ModelSource source =
      open_quietly(save_alone(SaveDirectory(scratch / "saved"), tiny_config(), model.params, state_at(30)));
  REQUIRE(source.state());
  make_directories(scratch / "dist");
  write_torch_dist(source, scratch / "dist", {});
  CHECK(read_file(scratch / "dist/latest_checkpointed_iteration.txt") == "release");
}

TEST_CASE("torch_dist writer: of weights in bf16, the optimizer has the fp32 weights") {
  TrainState state = state_at(30);
  state.optimizer_steps = 30;
  const DistCheckpoint dist(state);
  make_directories(dist.scratch / "bf16");
  write_torch_dist(open_quietly(dist.scratch / "saved"), dist.scratch / "bf16", {.dtype = StoredDType::bf16});
  const DcpFolder dcp(dist.scratch / "bf16/iter_0000030");
  CHECK(dcp.find("decoder.layers.mlp.linear_fc2.weight")->dtype == StoredDType::bf16);
  const ModelSource source = open_quietly(dcp.path()), expected = open_quietly(dist.folder());
  CHECK(source.optimizer_problem().empty());
  const Slice whole = whole_slice({11, 8});
  for (const char* kind : {"param", "exp_avg", "exp_avg_sq"})
    CHECK(same_bits(test::elements_of(source, cat(kind, ".embedding.tokens.weight"), whole),
                    test::elements_of(expected, cat(kind, ".embedding.tokens.weight"), whole)));
}

TEST_CASE("torch_dist reader: folders with other tensors are refused for the right reason, or read") {
  using Entries = std::vector<DcpEntry>;
  const std::string norm = "decoder.final_layernorm.weight", moment = "optimizer.state.exp_avg." + norm,
                    stack = "decoder.layers.mlp.linear_fc2.bias";
  const auto alias = [](Entries& all, const std::string& key, const std::string& other) {
    DcpEntry copy = dcp_entry(all, key);
    copy.key = other;
    all.push_back(copy);
  };
  struct Case {
    const char* expected;  // "" for the same model
    std::function<void(Entries&)> change;
  };
  const Case cases[] = {
      {"", [](Entries&) {}},
      {"", [&](Entries& all) { alias(all, norm, "rng_state/shard_0.0_1.1"); }},
      {"", [&](Entries& all) { alias(all, norm, "decoder.layers.mlp.linear_fc2._extra_state"); }},
      {"",  // a tensor per layer
       [](Entries& all) {
         for (std::size_t n = all.size(); n-- > 0;) {
           if (!contains(all[n].key, "decoder.layers.")) continue;
           for (std::int64_t layer = 0; layer < 2; ++layer) {
             DcpEntry one = all[n];
             one.key.insert(one.key.find("layers.") + 7, cat(layer, "."));
             one.shape.erase(one.shape.begin());
             one.boxes = {one.boxes[layer]};
             for (auto* sizes : {&one.boxes[0].offset, &one.boxes[0].size}) sizes->erase(sizes->begin());
             all.push_back(one);
           }
           all.erase(all.begin() + std::ptrdiff_t(n));
         }
       }},
      {"tensor 'x.weight' is not a GPT parameter", [&](Entries& all) { dcp_entry(all, norm).key = "x.weight"; }},
      {"tensor 'final_norm.weight' is missing", [&](Entries& all) { dcp_entry(all, norm).key = "rng_state"; }},
      {"is stored twice, under two names", [&](Entries& all) { alias(all, norm, "decoder.final_norm.weight"); }},
      {"does not fit the model that the checkpoint's args describe",
       [&](Entries& all) { alias(all, stack, "decoder.layers.self_attention.q_layernorm.bias"); }},
      {"too few for a model with 1,000 layers",
       [&](Entries& all) { alias(all, norm, "decoder.layers.999.input_layernorm.weight"); }},
      {"has 2 layers in 1 chunk, but",
       [&](Entries& all) {
         DcpEntry& one = dcp_entry(all, stack);
         one.boxes[0].size[0] = 2;
         one.boxes[0].elements.insert(one.boxes[0].elements.end(), one.boxes[1].elements.begin(),
                                      one.boxes[1].elements.end());
         one.boxes.pop_back();
       }},
      {"has shape (2, 4) in each layer, but the model needs (8)",
       [&](Entries& all) {
         DcpEntry& one = dcp_entry(all, stack);
         one.shape = {2, 2, 4};
         for (DcpEntry::Box& box : one.boxes) box.offset.push_back(0), box.size = {1, 2, 4};
       }},
      {"has shape (2, 4), but the model needs (8)",
       [&](Entries& all) {
         DcpEntry& one = dcp_entry(all, norm);
         one.shape = one.boxes[0].size = {2, 4};
         one.boxes[0].offset = {0, 0};
       }},
      {"exp_avg.decoder.final_layernorm.weight' is missing",
       [&](Entries& all) { dcp_entry(all, moment).key = "optimizer.state.none"; }},
      {"has shape (2, 4, 1), which does not fit the weight's, (8)",
       [&](Entries& all) {
         DcpEntry& one = dcp_entry(all, moment);
         one.shape = one.boxes[0].size = {2, 4, 1};
         one.boxes[0].offset = {0, 0, 0};
       }},
      {"has shape (3, 4), which does not fit the weight's, (8)",
       [&](Entries& all) {
         DcpEntry& one = dcp_entry(all, moment);
         one.shape = one.boxes[0].size = {3, 4};
         one.boxes[0].offset = {0, 0};
         one.boxes[0].elements.resize(12 * 4);
       }},
      {"has shape (2, 3), which does not fit the weight's, (8)",
       [&](Entries& all) {
         DcpEntry& one = dcp_entry(all, moment);
         one.shape = one.boxes[0].size = {2, 3};
         one.boxes[0].offset = {0, 0};
         one.boxes[0].elements.resize(6 * 4);
       }},
      {"has a chunk that contains several parts of the weight",
       [&](Entries& all) {
         DcpEntry& one = dcp_entry(all, moment);
         one.shape = one.boxes[0].size = {2, 4};
         one.boxes[0].offset = {0, 0};
       }},
      {"has shape (1, 8), which does not fit the weight's, (2, 8)",
       [&](Entries& all) {
         DcpEntry& one = dcp_entry(all, "optimizer.state.exp_avg." + stack);
         one.shape = {1, 8};
         one.boxes.pop_back();
       }},
      {"the optimizer has main weights for ",
       [&](Entries& all) { dcp_entry(all, "optimizer.state.param." + norm).key = "optimizer.state.none"; }},
  };
  TrainState state = state_at(30);
  state.optimizer_steps = 30;
  const DistCheckpoint dist(state);
  const ModelSource expected = open_quietly(dist.folder());
  CHECK(expected.has_padded_vocabulary() == false);
  for (const Case& one : cases) {
    CAPTURE(std::string(one.expected));
    const ScratchFolder copy;
    for (const char* file : {"common.pt", "metadata.json"}) fs::copy(dist.folder() + "/" + file, copy.path());
    Entries entries = dcp_entries_of(DcpFolder(dist.folder()));
    one.change(entries);
    write_dcp_entries(entries, copy.path());
    std::string problem;
    try {
      const ModelSource source = open_quietly(copy.path());
      problem = source.optimizer_problem();
      for (const SavedTensor& tensor : expected.tensors()) {
        if (source.find_tensor(tensor.name) == nullptr) continue;
        CAPTURE(tensor.name);
        const Slice whole = whole_slice(tensor.shape);
        CHECK(
            same_bits(test::elements_of(source, tensor.name, whole), test::elements_of(expected, tensor.name, whole)));
      }
      CHECK(source.has_optimizer() == problem.empty());
    } catch (const Error& error) {
      problem = error.what();
    }
    CAPTURE(problem);
    CHECK((*one.expected == '\0' ? problem.empty() : contains(problem, one.expected)));
  }
}

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

TEST_CASE("torch_dist reader: boxes of a gradient buffer in any order, and main weights that are not the weights'") {
  const DcpFolder from("golden/dist_ckpt/made/llama_fully_sharded_bucket_space_dp2_nl1_hs8_bk390/iter_0000030");
  Console console = quiet_console();
  const ModelSupplement given = {.vocab_size = 45};
  const ModelSource expected = open_model(from.path(), console, given);
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
      std::vector<DcpBox> boxes = tensor.boxes;
      std::ranges::reverse(boxes);
      for (const DcpBox& box : boxes) {
        const bool is_padding = is_state && box.slice.offset[0] >= shape[0];
        std::vector<std::byte> elements = elements_of(from, key, box);
        if (is_changed && key == "decoder.final_layernorm.weight") elements[1] ^= std::byte{1};
        if (!is_padding) writer.write_box(number, box.slice.offset, box.slice.size, elements);
      }
    }
    writer.finish();
    const ModelSource source = open_model(copy.path(), console, given);
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

TEST_CASE("torch_dist reader: gradient buffers that are not those of the model are refused for the right reason") {
  const DcpFolder from("golden/dist_ckpt/made/llama_fully_sharded_bucket_space_dp2_nl1_hs8_bk390/iter_0000030");
  const std::string buffer = "optimizer.distributed.dp_group_idx_0.gbuf_idx_0.";
  Console console = quiet_console();
  const ModelSupplement given = {.vocab_size = 45};
  const GptConfig config = open_model(from.path(), console, given).config();
  const std::vector<DistBuffer> buffers =
      torch_dist_buffers(config, *MegatronCommon(from).args(), from.find("embedding.word_embeddings.weight")->shape[0]);
  std::vector<DcpEntry> all = dcp_entries_of(from);
  std::string first;  // the first bucket of exp_avg
  for (DcpEntry& one : all) {
    if (!starts_with(one.key, "optimizer.")) continue;
    const std::size_t at = one.key.find(".bucket_idx_");
    REQUIRE(at != std::string::npos);
    const MegatronBucket& bucket = buffers[0].buffer.buckets.at(std::stoul(one.key.substr(at + 12)));
    one.shape[0] = bucket.end - bucket.begin;  // without padding
    std::erase_if(one.boxes, [&](const DcpEntry::Box& box) { return box.offset[0] >= one.shape[0]; });
    if (ends_with(one.key, ".bucket_idx_0.exp_avg")) first = one.key;
  }
  const auto problem = [&](const std::function<void(DcpEntry&)>& change) {
    const ScratchFolder copy;
    for (const char* file : {"common.pt", "metadata.json"}) fs::copy(from.path() + "/" + file, copy.path());
    std::vector<DcpEntry> entries = all;
    change(dcp_entry(entries, first));
    write_dcp_entries(entries, copy.path());
    const ModelSource source = open_model(copy.path(), console, given);
    CHECK(source.has_optimizer() == source.optimizer_problem().empty());
    return source.optimizer_problem();
  };
  CHECK(problem([](DcpEntry&) {}) == "");
  for (const char* key : {"optimizer.state.a", "optimizer.z"})
    CHECK(contains(problem([&](DcpEntry& one) { one.key = key; }), "there is no tensor 'optimizer."));
  CHECK(contains(problem([](DcpEntry& one) {
                   one.dtype = StoredDType::bf16;
                   for (DcpEntry::Box& box : one.boxes) box.elements.resize(box.elements.size() / 2);
                 }),
                 "is BF16 with shape ("));
  CHECK(contains(problem([](DcpEntry& one) {
                   one.shape.push_back(1);
                   for (DcpEntry::Box& box : one.boxes) box.offset.push_back(0), box.size.push_back(1);
                 }),
                 ", 1), but the model's bucket is F32 with shape ("));
  CHECK(contains(problem([](DcpEntry& one) {
                   const std::int64_t last = one.boxes.back().size[0];
                   one.shape[0] -= last;
                   one.boxes.pop_back();
                 }),
                 ", but the model's bucket is F32 with shape ("));
}
